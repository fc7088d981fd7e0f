//! What one answer shows of both streams: the last lines, the newest bytes.

use super::fresh;
use super::grep::Grep;
use super::ring::Shown;

/// What a reader asks for. Nothing is: all that is held.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Only so many lines at the end of each stream.
    pub tail: Option<u64>,
    /// Only so many bytes of both streams together.
    pub max_bytes: Option<u64>,
    /// Only so many bytes of both streams as the client receives them, escaped twice.
    pub max_wire: Option<usize>,
    /// As it was written, not as a person would see it.
    pub raw: bool,
    /// Only what came after this cursor.
    pub since: Option<u64>,
    /// Only lines like this.
    pub grep: Option<Grep>,
}

/// What a reader sees.
#[derive(Debug, PartialEq, Eq)]
pub struct View {
    /// Text of standard output.
    pub stdout: String,
    /// Text of standard error.
    pub stderr: String,
    /// How much text there was before a limit or the buffer's own bound cut it; none if neither
    /// did.
    pub cut_from: Option<u64>,
    /// How many bytes between the cursor and what is shown are gone.
    pub dropped: u64,
    /// The cursor of what comes next.
    pub cursor: u64,
}

pub(super) fn view(out: &Shown<'_>, err: &Shown<'_>, request: &Request, cursor: u64) -> View {
    let (stdout, out_dropped) = text(*out, request);
    let (stderr, err_dropped) = text(*err, request);
    let dropped = out_dropped + err_dropped;
    let size = stdout.len() + stderr.len();
    let limit = request
        .max_bytes
        .map_or(size, |max| usize::try_from(max).unwrap_or(size).min(size));
    let limit = fit_wire(
        &stdout,
        &stderr,
        limit,
        request.max_wire.unwrap_or(usize::MAX),
    );
    let (out_share, err_share) = shares(stdout.len(), stderr.len(), limit);
    View {
        cut_from: (limit < size || dropped > 0).then_some(size as u64 + dropped),
        stdout: newest(stdout, out_share),
        stderr: newest(stderr, err_share),
        dropped: if request.since.is_some() {
            out.dropped + err.dropped
        } else {
            0
        },
        cursor,
    }
}

fn text(shown: Shown<'_>, request: &Request) -> (String, u64) {
    if let Some(grep) = &request.grep {
        return fresh::matching(shown, grep, request.tail, request.raw);
    }
    let shown = request.tail.map_or(shown, |count| shown.last_lines(count));
    (fresh::fresh(shown, request.raw), shown.dropped)
}

/// How much of each stream is shown within the limit of both.
fn shares(out: usize, err: usize, limit: usize) -> (usize, usize) {
    let half = limit / 2;
    if out + err <= limit {
        (out, err)
    } else if out <= half {
        (out, limit - out)
    } else if err <= limit - half {
        (limit - err, err)
    } else {
        (half, limit - half)
    }
}

/// The end of the text within so many bytes: whole lines, or the end of the last line alone.
fn newest(mut text: String, share: usize) -> String {
    if text.len() <= share {
        return text;
    }
    let from = text.len() - share;
    let line = if text.as_bytes()[from - 1] == b'\n' {
        Some(from)
    } else {
        memchr::memchr(b'\n', &text.as_bytes()[from..]).map(|newline| from + newline + 1)
    };
    let from = match line {
        Some(line) if line < text.len() => line,
        _ => text.ceil_char_boundary(from),
    };
    text.drain(..from);
    text
}

/// The largest limit under which what is shown fits the wire.
fn fit_wire(stdout: &str, stderr: &str, mut limit: usize, max_wire: usize) -> usize {
    loop {
        let (out, err) = shares(stdout.len(), stderr.len(), limit);
        let wire = wire_size(&stdout[stdout.ceil_char_boundary(stdout.len() - out)..])
            + wire_size(&stderr[stderr.ceil_char_boundary(stderr.len() - err)..]);
        if wire <= max_wire {
            return limit;
        }
        // In proportion, and always less: a few rounds suffice.
        let scaled = (limit as u128 * max_wire as u128 / wire as u128) as usize;
        limit = scaled.min(limit - 1);
    }
}

/// The size of text in a JSON string within a JSON string.
fn wire_size(text: &str) -> usize {
    text.bytes()
        .map(|byte| match byte {
            b'\n' | b'\t' | b'\r' | 0x08 | 0x0c => 3,
            b'"' | b'\\' => 4,
            0..b' ' => 7,
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Output, Stream};
    use super::*;

    fn output(out: &str, err: &str) -> Output {
        let mut output = Output::new(1 << 20);
        output.push(Stream::Out, out.as_bytes());
        output.push(Stream::Err, err.as_bytes());
        output
    }

    fn tail(count: u64) -> Request {
        Request {
            tail: Some(count),
            ..Request::default()
        }
    }

    fn max(bytes: u64) -> Request {
        Request {
            max_bytes: Some(bytes),
            ..Request::default()
        }
    }

    #[test]
    fn tail_counts_lines_of_each_stream() {
        let mut output = output("a\nb\nc\n", "x\ny\nunfinished");
        let view = output.view(&tail(1));
        assert_eq!((&*view.stdout, &*view.stderr), ("c\n", "unfinished"));
        let view = output.view(&tail(2));
        assert_eq!((&*view.stdout, &*view.stderr), ("b\nc\n", "y\nunfinished"));
        let view = output.view(&tail(u64::MAX));
        assert_eq!(
            (&*view.stdout, &*view.stderr),
            ("a\nb\nc\n", "x\ny\nunfinished")
        );
        assert_eq!(view.cut_from, None);
    }

    #[test]
    fn the_limit_keeps_the_newest_whole_lines() {
        let view = output("aaaa\nbbbb\ncccc\n", "").view(&max(10));
        assert_eq!((&*view.stdout, view.cut_from), ("bbbb\ncccc\n", Some(15)));
        let view = output("aaaa\nbbbb\ncccc\n", "").view(&max(9));
        assert_eq!(&*view.stdout, "cccc\n");
    }

    #[test]
    fn one_line_longer_than_the_limit_keeps_its_end_at_a_character() {
        assert_eq!(
            output("first\nabcdefgh\n", "").view(&max(4)).stdout,
            "fgh\n"
        );
        assert_eq!(output("☃☃☃", "").view(&max(5)).stdout, "☃");
        assert_eq!(output("☃☃☃", "").view(&max(2)).stdout, "");
    }

    #[test]
    fn a_stream_that_fits_in_half_keeps_all() {
        let view = output(&"0123456789\n".repeat(100), "the error\n").view(&max(65));
        assert_eq!((view.stdout.len(), &*view.stderr), (55, "the error\n"));
        let view = output("small\n", &"0123456789\n".repeat(100)).view(&max(65));
        assert_eq!((&*view.stdout, view.stderr.len()), ("small\n", 55));
    }

    #[test]
    fn two_large_streams_share_and_the_odd_byte_is_for_errors() {
        let view = output(&"o\n".repeat(100), &"e\n".repeat(100)).view(&max(7));
        assert_eq!((&*view.stdout, &*view.stderr), ("o\n", "e\ne\n"));
        assert_eq!(view.cut_from, Some(400));
    }

    #[test]
    fn what_the_buffer_has_dropped_is_a_cut_only_where_the_answer_would_have_begun_there() {
        let mut output = Output::new(100);
        for number in 0..100 {
            output.push(Stream::Out, format!("{number:04}\n").as_bytes());
        }
        assert_eq!(output.view(&Request::default()).cut_from, Some(500));
        assert_eq!(output.view(&tail(3)).cut_from, None);
        assert_eq!(output.view(&tail(50)).cut_from, Some(500));
    }

    #[test]
    fn the_wire_limit_counts_what_escaping_adds() {
        let view = output(&"\"\\\n".repeat(1000), "").view(&Request {
            max_wire: Some(1100),
            ..Request::default()
        });
        assert_eq!(view.stdout.len(), 300);
        assert_eq!(view.cut_from, Some(3000));
        let all = (0..128_u8).map(char::from).collect::<String>();
        for text in [&view.stdout, &all] {
            let json = serde_json::to_string(&serde_json::to_string(text).unwrap()).unwrap();
            // Less the quotes: two of the outer string, two escaped ones of the inner.
            assert_eq!(json.len() - 6, wire_size(text));
        }
    }

    #[test]
    fn raw_is_as_it_was_written() {
        let raw = Request {
            raw: true,
            tail: Some(1),
            ..Request::default()
        };
        let view = output("one\n\x1b[31m1%\r2%\r\n", "").view(&raw);
        assert_eq!(view.stdout, "\x1b[31m1%\r2%\r\n");
    }

    proptest! {
        #[test]
        fn every_limit_is_kept_and_cuts_nothing_but_the_beginning(
            out in "[ab☃\n]{0,60}", err in "[cd\n]{0,60}", limit in 1_u64..130,
        ) {
            let mut whole = output(&out, &err);
            let view = whole.view(&max(limit));
            let size = view.stdout.len() + view.stderr.len();
            prop_assert!(size as u64 <= limit);
            prop_assert!(out.ends_with(&view.stdout) && err.ends_with(&view.stderr));
            prop_assert_eq!(view.cut_from.is_some(), size < out.len() + err.len());
        }

        #[test]
        fn tail_gives_what_lines_give(text in "[ab\n]{0,60}", count in 1_usize..12) {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let last = lines[lines.len().saturating_sub(count)..].concat();
            prop_assert_eq!(output(&text, "").view(&tail(count as u64)).stdout, last);
        }
    }
}
