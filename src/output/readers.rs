//! Readers with cursors of their own: each gets everything, once.

use proptest::prelude::*;

use super::*;

fn all(output: &mut Output) -> View {
    output.view(&Request::default())
}

fn since(cursor: u64) -> Request {
    Request {
        since: Some(cursor),
        ..Request::default()
    }
}

#[test]
fn a_cursor_gives_only_what_is_new() {
    let mut output = Output::new(1000);
    output.push(Stream::Out, b"one\ntw");
    output.push(Stream::Err, b"e1\n");
    let first = all(&mut output);
    assert_eq!(first.cursor, 9);
    let view = output.view(&since(first.cursor));
    assert_eq!((&*view.stdout, &*view.stderr), ("", ""));
    output.push(Stream::Out, b"o\nthree\n");
    output.push(Stream::Err, b"e2\n");
    let second = output.view(&since(first.cursor));
    assert_eq!((&*second.stdout, &*second.stderr), ("o\nthree\n", "e2\n"));
    // It is the reader's to keep: an older one still means the same.
    assert_eq!(output.view(&since(first.cursor)).stdout, second.stdout);
    assert_eq!(output.view(&since(0)).stdout, "one\ntwo\nthree\n");
    // One that nobody was given is taken for an older one.
    assert_eq!(output.view(&since(first.cursor + 1)).stdout, second.stdout);
    assert_eq!(output.view(&since(u64::MAX)).stdout, "one\ntwo\nthree\n");
}

#[test]
fn what_is_gone_between_is_counted() {
    let mut output = Output::new(10);
    output.push(Stream::Out, b"123\n");
    let cursor = all(&mut output).cursor;
    output.push(Stream::Out, b"4567\n890\nab\n");
    let view = output.view(&since(cursor));
    assert_eq!((&*view.stdout, view.dropped), ("890\nab\n", 5));
    assert!(view.cut_from.is_some());
    assert_eq!(all(&mut output).dropped, 0);
}

#[test]
fn nothing_is_cut_in_the_middle_of_a_sequence_or_a_character() {
    for (before, after, seen) in [
        (&b"a\xe2\x98"[..], &b"\x83b"[..], "\u{2603}b"),
        (b"a\x1b[3", b"1mb", "b"),
        (b"a\x1b]0;title", b" end\x07b", "b"),
        (b"a\x1b]0;title\x1b", b"\\b", "b"),
    ] {
        for raw in [false, true] {
            let mut output = Output::new(100);
            output.push(Stream::Out, before);
            let request = |since| Request {
                raw,
                since,
                ..Request::default()
            };
            let first = output.view(&request(None));
            assert_eq!(first.stdout, "a");
            output.push(Stream::Out, after);
            let second = output.view(&request(Some(first.cursor)));
            if raw {
                let whole = [before, after].concat();
                assert_eq!(
                    first.stdout + &second.stdout,
                    String::from_utf8(whole).unwrap()
                );
            } else {
                assert_eq!(second.stdout, seen);
            }
        }
    }
}

#[test]
fn a_line_that_is_drawn_again_is_shown_as_it_is_now() {
    let mut output = Output::new(1000);
    output.push(Stream::Out, b"start\n 10% of it");
    let cursor = all(&mut output).cursor;
    output.push(Stream::Out, b"\r 20");
    assert_eq!(output.view(&since(cursor)).stdout, " 20% of it");
    output.push(Stream::Out, b"\r\n");
    assert_eq!(output.view(&since(cursor)).stdout, " 20% of it\n");
    // Colours alone draw nothing again.
    let cursor = all(&mut output).cursor;
    output.push(Stream::Out, b"\x1b[32m> \x1b[0m");
    let prompt = output.view(&since(cursor));
    assert_eq!(prompt.stdout, "> ");
    output.push(Stream::Out, b"\x1b[1manswer\x1b[0m\r\n");
    assert_eq!(output.view(&since(prompt.cursor)).stdout, "answer\n");
}

/// What a reader sees that looks after each of these writes, and then once more.
fn readings(writes: &[&[u8]], grep: Option<&str>, raw: bool) -> Vec<String> {
    let mut output = Output::new(10_000);
    let mut cursor = 0;
    let mut look = |output: &mut Output| {
        let grep = grep.map(|source| Grep::new(source).unwrap());
        let view = output.view(&Request {
            raw,
            grep,
            ..since(cursor)
        });
        cursor = view.cursor;
        view.stdout
    };
    let mut seen: Vec<_> = writes
        .iter()
        .map(|bytes| {
            output.push(Stream::Out, bytes);
            look(&mut output)
        })
        .collect();
    assert_eq!(look(&mut output), "");
    seen.retain(|text| !text.is_empty());
    seen
}

#[test]
fn nothing_comes_twice_and_nothing_is_lost() {
    let shown = format!("]{}", "x".repeat(300));
    let long = format!("\x1b{shown}").into_bytes();
    let cases: [(&[&[u8]], &[&str]); 9] = [
        // A string that is never closed ends with its line.
        (&[b"a\x1b]0;open\nb\n", b"c\n"], &["a]0;open\nb\n", "c\n"]),
        (&[b"a\x1b]0;open\x1b", b"\nb\n"], &["a", "]0;open\nb\n"]),
        // One that is too long to wait for is text.
        (&[&long, b"\nb\n"], &[&shown, "\nb\n"]),
        // The cursor's look and an empty erasure change no text.
        (&[b"> ", b"\x1b[?25hanswer\n"], &["> ", "answer\n"]),
        (&[b"foo", b"\x1b[m\x1b[Kbar\n"], &["foo", "bar\n"]),
        // What is no character is shown as soon as that is clear.
        (&[b"\xe9", b":", b" x"], &["\u{fffd}:", " x"]),
        (&[b"one\r", b"\n", b"two\r\n"], &["one", "\n", "two\n"]),
        (&[b"a", b"\x1b[3", b"1mb"], &["a", "b"]),
        (&[b"a\xf0\x9f", b"\x98", b"\x80\n"], &["a", "\u{1f600}\n"]),
    ];
    for (writes, wanted) in cases {
        assert_eq!(readings(writes, None, false), wanted, "{writes:?}");
        let whole = String::from_utf8_lossy(&writes.concat()).into_owned();
        assert_eq!(readings(writes, None, true).concat(), whole, "{writes:?}");
    }
}

#[test]
fn a_line_that_was_drawn_over_is_shown_as_it_is_now() {
    for (writes, wanted) in [
        (&[&b"abcdef\r"[..], b"XY\n"][..], ["abcdef", "XYcdef\n"]),
        (&[b"1", b"\r12"], ["1", "12"]),
        (&[b"1\r", b"12\r"], ["1", "12"]),
        (&[b"ab", b"\x08c"], ["ab", "ac"]),
        (&[b"50%", b"\x1b[2K\x1b[1Gdone\n"], ["50%", "done\n"]),
    ] {
        assert_eq!(readings(writes, None, false), wanted, "{writes:?}");
    }
}

#[test]
fn a_line_that_is_read_in_two_halves_matches_as_a_whole() {
    for (writes, grep, wanted) in [
        (
            &[&b"an err"[..], b"or\nb\n"][..],
            "error",
            &["an error\n"][..],
        ),
        (
            &[b"an error", b" it is\n"],
            "error",
            &["an error", " it is\n"],
        ),
        (&[b"an error", b"\n"], "error$", &["an error", "\n"]),
        (&[b"done", b" not\n"], "done$", &["done"]),
        (&[b"\x1b[31merr", b"\x1b[0mor\r\n"], "^error$", &["error\n"]),
        (&[b">>> ", b">>> "], "^>>> ", &[">>> ", ">>> "]),
        (&[b"a\n", b"b\n"], "b", &["b\n"]),
    ] {
        assert_eq!(readings(writes, Some(grep), false), wanted, "{writes:?}");
    }
    assert_eq!(
        readings(&[b"\x1b[31merr", b"or\r\nb\r\n"], Some("^error$"), true),
        ["\x1b[31merror\r\n"]
    );
}

#[test]
fn lines_that_match_are_counted_from_the_end_and_a_full_count_is_no_cut() {
    let mut output = Output::new(30);
    for number in 0..100 {
        output.push(Stream::Out, format!("{number:04}\n").as_bytes());
    }
    let mut last = |count| {
        let view = output.view(&Request {
            tail: Some(count),
            grep: Some(Grep::new("[79]$").unwrap()),
            ..Request::default()
        });
        (view.stdout, view.cut_from)
    };
    assert_eq!(last(1), ("0099\n".into(), None));
    assert_eq!(last(2), ("0097\n0099\n".into(), None));
    assert_eq!(last(3), ("0097\n0099\n".into(), Some(10 + 470)));
}

#[test]
fn what_is_cut_by_a_limit_is_not_given_again() {
    let mut output = Output::new(1000);
    output.push(Stream::Out, b"one\ntwo\nthree\n");
    let view = output.view(&Request {
        max_bytes: Some(6),
        ..since(0)
    });
    assert_eq!((&*view.stdout, view.cut_from), ("three\n", Some(14)));
    assert_eq!(output.view(&since(view.cursor)).stdout, "");
}

#[test]
fn a_reader_at_the_edge_of_what_is_held_misses_nothing() {
    let mut output = Output::new(4);
    output.push(Stream::Out, b"ab");
    let cursor = all(&mut output).cursor;
    output.push(Stream::Out, b"cd\ne");
    let view = output.view(&since(cursor));
    assert_eq!((&*view.stdout, view.dropped), ("cd\ne", 0));
}

#[test]
fn a_line_without_end_goes_on_where_the_reader_is() {
    let mut output = Output::new(1 << 20);
    let snow = "\u{2603}\x1b[1m".repeat(50_000);
    output.push(Stream::Out, snow.as_bytes());
    let cursor = all(&mut output).cursor;
    output.push(Stream::Out, b"more\nnext\n");
    let view = output.view(&since(cursor));
    assert_eq!((&*view.stdout, view.dropped), ("more\nnext\n", 0));
    let view = output.view(&Request {
        grep: Some(Grep::new("more$").unwrap()),
        ..since(cursor)
    });
    // What is looked at again is bounded, and so is what is shown again.
    assert!(view.stdout.ends_with("\u{2603}more\n") && view.stdout.len() < 70_000);
}

#[test]
fn a_cursor_that_is_forgotten_gives_more_and_never_less() {
    let mut output = Output::new(1 << 20);
    let mut cursors = Vec::new();
    for number in 0..MOST_MARKS + 10 {
        output.push(Stream::Out, format!("{number}\n").as_bytes());
        cursors.push(output.cursor());
    }
    assert_eq!(output.marks.len(), MOST_MARKS);
    assert!(output.view(&since(cursors[0])).stdout.starts_with("0\n"));
    assert!(output.view(&since(cursors[10])).stdout.starts_with("11\n"));
}

/// Text of every kind but one that draws over what is there, in pieces that cut it anywhere.
fn pieces() -> impl Strategy<Value = Vec<(bool, Vec<u8>, u8)>> {
    let unit = prop::sample::select(vec![
        &b"a"[..],
        b"bc",
        b"\n",
        b"\r\n",
        b"\xc3\xa9",
        b"\xe2\x98\x83",
        b"\xff",
        b"\xe2\x98",
        b"\x1b[31m",
        b"\x1b[?25h",
        b"\x1b[K",
        b"\x1b]0;t\x07",
        b"\x1b]0;t\x1b\\",
        b"\x1b]",
        b"\x1b",
        b"\x07",
        b"\t",
    ]);
    prop::collection::vec(
        (
            any::<bool>(),
            prop::collection::vec(unit, 1..6),
            1..6_usize,
            0..4_u8,
        ),
        0..40,
    )
    .prop_map(|writes| {
        let split = |(err, units, size, reads): (bool, Vec<&[u8]>, usize, u8)| {
            let bytes = units.concat();
            let parts: Vec<_> = bytes.chunks(size).map(<[u8]>::to_vec).collect();
            parts.into_iter().map(move |part| (err, part, reads))
        };
        writes.into_iter().flat_map(split).collect()
    })
}

proptest! {
    /// Two readers, each at its own pace, one of them raw.
    #[test]
    fn readers_get_everything(pieces in pieces()) {
        let mut output = Output::new(1 << 20);
        let mut whole = [Vec::new(), Vec::new()];
        let mut readers = [(0, [String::new(), String::new()]), (0, [String::new(), String::new()])];
        let mut look = |output: &mut Output, reader: usize| {
            let (cursor, got) = &mut readers[reader];
            let view = output.view(&Request { raw: reader == 1, ..since(*cursor) });
            assert!(view.cursor >= *cursor);
            *cursor = view.cursor;
            got[0].push_str(&view.stdout);
            got[1].push_str(&view.stderr);
            got.clone()
        };
        for (err, piece, reads) in pieces {
            output.push(if err { Stream::Err } else { Stream::Out }, &piece);
            whole[usize::from(err)].extend(piece);
            for reader in 0..2 {
                if usize::from(reads) & (1 << reader) != 0 {
                    look(&mut output, reader);
                }
            }
        }
        output.end(Stream::Out);
        output.end(Stream::Err);
        let seen = whole.each_ref().map(|bytes| {
            let mut text = String::new();
            clean::clean(bytes, &[], &mut text);
            text
        });
        prop_assert_eq!(look(&mut output, 0), seen);
        let written = whole.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        prop_assert_eq!(look(&mut output, 1), written);
    }

    /// However little is held: each answer is the end of what was written, and what came between
    /// it and the answer before is counted to the byte.
    #[test]
    fn what_a_reader_misses_is_counted(
        writes in prop::collection::vec((any::<bool>(), "[a-c\n]{0,9}", 0..4_u8), 0..80),
        capacity in 1..40_usize,
        raw in any::<bool>(),
    ) {
        let mut output = Output::new(capacity);
        let mut whole = [String::new(), String::new()];
        let mut readers = [(0, 0), (0, 0)];
        for (err, text, reads) in writes {
            output.push(if err { Stream::Err } else { Stream::Out }, text.as_bytes());
            whole[usize::from(err)].push_str(&text);
            for (reader, (cursor, known)) in readers.iter_mut().enumerate() {
                if usize::from(reads) & (1 << reader) == 0 {
                    continue;
                }
                let view = output.view(&Request { raw, ..since(*cursor) });
                prop_assert!(whole[0].ends_with(&view.stdout) && whole[1].ends_with(&view.stderr));
                let total = (whole[0].len() + whole[1].len()) as u64;
                let got = (view.stdout.len() + view.stderr.len()) as u64;
                prop_assert_eq!(*known + got + view.dropped, total);
                (*cursor, *known) = (view.cursor, total);
            }
        }
    }
}
