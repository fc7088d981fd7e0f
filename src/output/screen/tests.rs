use proptest::prelude::*;

use super::*;

fn size(cols: u16, rows: u16) -> WindowSize {
    WindowSize { cols, rows }
}

fn shown(text: &str) -> String {
    let mut screen = Screen::new(size(20, 5));
    screen.feed(text.as_bytes());
    screen.text()
}

fn answers(text: &str) -> String {
    let mut screen = Screen::new(size(20, 5));
    String::from_utf8(screen.feed(text.as_bytes())).unwrap()
}

#[test]
fn a_screen_is_what_a_person_sees() {
    for (written, wanted) in [
        ("", ""),
        ("\x1b[31mred\x1b[0m  \r\n\r\nend\r\n", "red\n\nend"),
        ("12345678901234567890123", "12345678901234567890\n123"),
        ("1\r\n2\r\n3\r\n4\r\n5\r\n6", "2\n3\n4\n5\n6"),
        // Positions, and what was there before.
        ("abc\x1b[2;3Hx\x1b[1;2Hy", "ayc\n  x"),
        ("one\r\ntwo\x1b[1A\x1b[2K", "\ntwo"),
        // The other screen comes and goes.
        ("shell\x1b[?1049h\x1b[Hvim", "vim"),
        ("shell\x1b[?1049h\x1b[Hvim\x1b[?1049l!", "shell!"),
        // Only a part of the screen scrolls.
        (
            "top\x1b[2;3r\x1b[2H1\r\n2\r\n3\r\n4\x1b[r\x1b[5Hlast",
            "top\n3\n4\n\nlast",
        ),
        // Lines are drawn with letters; characters are inserted; tabs go back.
        ("\x1b(0lqk\x1b(B lqk", "┌─┐ lqk"),
        ("bc\x1b[G\x1b[4ha\x1b[4l", "abc"),
        ("\ta\x1b[2Zb", "b       a"),
        ("a\x1b[4b", "aaaaa"),
        // A title and a picture show nothing.
        ("\x1b]0;title\x07a\x1bPpicture\x1b\\b", "ab"),
    ] {
        assert_eq!(shown(written), wanted, "{written:?}");
    }
}

#[test]
fn wide_characters_have_two_cells_and_marks_have_none() {
    for (written, wanted) in [
        ("日本\x1b[5Gx", "日本x"),
        ("日本\x1b[3Gx", "日x"),
        ("1234567890123456789日", "1234567890123456789\n日"),
        ("e\u{301}\x1b[2Gx", "e\u{301}x"),
        ("日\u{3099}\x1b[3Gx", "日\u{3099}x"),
        ("\u{26a0}\u{fe0f}|", "\u{26a0}\u{fe0f}|"),
        ("\u{1f469}\u{200d}\u{1f4bb}!", "\u{1f469}\u{200d}\u{1f4bb}!"),
        (
            "1234567890123456789e\u{301}x",
            "1234567890123456789e\u{301}\nx",
        ),
        // There is nothing to put it on.
        ("\u{301}a", "a"),
        ("\u{100000}", "\u{fffd}"),
    ] {
        assert_eq!(shown(written), wanted, "{written:?}");
    }
    let noise = format!("a{}b", "\u{301}".repeat(1000));
    assert!(shown(&noise).len() < 50);
}

#[test]
fn marks_run_out_and_nothing_else_does() {
    let mut screen = Screen::new(size(20, 5));
    for c in '\u{4e00}'..'\u{8e00}' {
        screen.feed(format!("{c}\u{301}\r").as_bytes());
    }
    assert_eq!(screen.clusters.wide.len(), WIDE.len());
    screen.feed("plain\u{301}".as_bytes());
    assert_eq!(screen.text(), "plain\u{301}");
}

#[test]
fn a_question_has_its_answer_about_what_was_written_before_it() {
    for (question, answer) in [
        ("abc\x1b[6nd", "\x1b[1;4R"),
        ("\x1b[5;20Hx\x1b[6n", "\x1b[5;20R"),
        ("\x1b[2;7H\x1b[?6n", "\x1b[?2;7R"),
        ("\x1b[5n", "\x1b[0n"),
        ("\x1b[c\x1b[>c", "\x1b[?62;22c\x1b[>0;10;0c"),
        ("\x1b[18t", "\x1b[8;5;20t"),
        ("\x1b]11;?\x07", "\x1b]11;rgb:0000/0000/0000\x07"),
        ("\x1b]10;?\x1b\\", "\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
        ("\x1b[?1h\x1b[?1$p", "\x1b[?1;1$y"),
        (
            "\x1b[?25l\x1b[?25$p\x1b[?2026$p",
            "\x1b[?25;2$y\x1b[?2026;0$y",
        ),
        ("\x1bP+q544e\x1b\\", "\x1bP0+r\x1b\\"),
        // Not for a terminal like this one, or no question at all.
        ("\x1b[?u\x1b[m\x1b[2J\x1b]0;6n\x07 [6n", ""),
    ] {
        assert_eq!(answers(question), answer, "{question:?}");
    }
    assert_eq!(shown("a\x1b[6nb\x1b[cc"), "abc");
    assert!(answers("\x1b[>q").contains("mcp-sidecar"));
}

#[test]
fn a_window_that_changes_keeps_what_fits() {
    let mut screen = Screen::new(size(20, 5));
    screen.feed(b"one\r\ntwo");
    screen.resize(size(10, 2));
    assert_eq!(screen.text(), "one\ntwo");
    assert_eq!(screen.feed(b"\x1b[18t"), b"\x1b[8;2;10t");
    screen.feed(b"\r\nthree");
    assert_eq!(screen.text(), "two\nthree");
}

#[test]
fn arrows_are_an_applications_while_it_says_so() {
    let mut screen = Screen::new(size(20, 5));
    assert!(!screen.application_cursor());
    screen.feed(b"\x1b[?1h\x1b=");
    assert!(screen.application_cursor());
    screen.feed(b"\x1b[?1l");
    assert!(!screen.application_cursor());
}

/// What a program may write, more often meant than not.
fn writes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4),
        "[a-z ]{0,6}".prop_map(String::into_bytes),
        prop::sample::select(vec![
            "\r\n",
            "\t",
            "\x08",
            "日",
            "e\u{301}",
            "\u{200d}",
            "\x1b[",
            "\x1b[2J",
            "\x1b[H",
            "\x1b[3;4H",
            "\x1b[6n",
            "\x1b[c",
            "\x1b[2;4r",
            "\x1b[K",
            "\x1b[L",
            "\x1b[2P",
            "\x1b[?1049h",
            "\x1b[?1049l",
            "\x1b[4h",
            "\x1b[?7l",
            "\x1b(0",
            "\x1b(B",
            "\x1b]0;t",
            "\x07",
            "\x1b\\",
            "\x1bP",
            "\x1bM",
            "\x1bc",
            "\x1b[99999999999C",
            "\x1b[9b",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_screen_does_not_depend_on_how_the_bytes_come(
        bytes in writes(),
        cuts in prop::collection::vec(1_usize..9, 1..20),
        cols in 2_u16..12,
        rows in 1_u16..6,
    ) {
        let mut whole = Screen::new(size(cols, rows));
        let answers = whole.feed(&bytes);
        let mut parts = Screen::new(size(cols, rows));
        let mut others = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (part, after) = rest.split_at((*cut).min(rest.len()));
            others.extend(parts.feed(part));
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(whole.text(), parts.text());
        prop_assert_eq!(answers, others);
        prop_assert!(whole.text().lines().count() <= usize::from(rows));
    }

    #[test]
    fn nothing_breaks_a_screen_that_changes_its_size(
        steps in prop::collection::vec((writes(), 2_u16..30, 1_u16..10), 0..6),
    ) {
        let mut screen = Screen::new(size(8, 4));
        for (bytes, cols, rows) in steps {
            screen.feed(&bytes);
            screen.resize(size(cols, rows));
            prop_assert!(screen.text().lines().count() <= usize::from(rows));
        }
    }
}
