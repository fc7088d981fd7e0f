//! Raw lines as a person would see them on a terminal, one line at a time.
//!
//! Colours and titles are gone, a progress bar shows its last state, bytes that are no UTF-8 are
//! U+FFFD. Each line is looked at by itself, so that whatever a program left unfinished in one
//! line cannot hide the next.

/// Appends what a person would see of `text`, a run of lines. `context` is what came right before,
/// where `text` begins in the middle of a line. What is unfinished at the end is shown as it is:
/// [`open_length`] tells what should wait for a later write.
pub(super) fn clean(text: &[u8], context: &[u8], out: &mut String) {
    let mut rest = &text[cut_length(context, text)..];
    // Most output is plain, and then as a whole.
    if rest
        .iter()
        .all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~'))
    {
        out.push_str(&String::from_utf8_lossy(rest));
        return;
    }
    while let Some(newline) = memchr::memchr(b'\n', rest) {
        line(&rest[..newline], out);
        out.push('\n');
        rest = &rest[newline + 1..];
    }
    line(rest, out);
}

/// How many bytes at the end of `text` begin a character or a sequence that is not whole yet.
/// Neither goes on in the next line.
pub(super) fn open_length(text: &[u8]) -> usize {
    let line = memchr::memrchr(b'\n', text).map_or(0, |newline| newline + 1);
    let mut rest = &text[line..];
    // Where those began of which each is ended by the next alone: cut off from it, they are open.
    let mut chain = None;
    while let Some(escape) = memchr::memchr(0x1b, rest) {
        rest = &rest[escape..];
        let length = match sequence(rest) {
            Sequence::Open => return chain.unwrap_or(rest.len()),
            Sequence::Whole(length) => length,
            // An escape is cut off from the half character that makes it stand alone.
            Sequence::None if half_character(rest) == rest.len() - 1 => {
                return chain.unwrap_or(rest.len());
            }
            Sequence::None => 1,
        };
        let cut = sequence(&rest[..length]) == Sequence::Open && rest.get(length) == Some(&0x1b);
        chain = if cut {
            chain.or(Some(rest.len()))
        } else {
            None
        };
        rest = &rest[length..];
    }
    half_character(rest)
}

/// Whether this rest of a line goes back to what stands before it.
pub(super) fn goes_back(before: &[u8], rest: &[u8]) -> bool {
    let rest = without_returns(rest);
    let returned = before.last() == Some(&b'\r') && !rest.is_empty();
    returned
        || memchr::memchr2(b'\r', 0x08, rest).is_some()
        || memchr::memchr_iter(0x1b, rest).any(|escape| match sequence(&rest[escape..]) {
            Sequence::Whole(length) => {
                rest[escape + 1] == b'[' && matches!(rest[escape + length - 1], b'G' | b'D')
            }
            _ => false,
        })
}

/// One line without its newline.
fn line(raw: &[u8], out: &mut String) {
    let raw = without_returns(raw);
    match std::str::from_utf8(raw) {
        Ok(text) if !text.contains(is_control) => out.push_str(text),
        _ => Terminal::new(raw.len())
            .run(&String::from_utf8_lossy(raw))
            .show(out),
    }
}

/// A line without the carriage returns that belong to its line break.
fn without_returns(line: &[u8]) -> &[u8] {
    let returns = line.iter().rev().take_while(|byte| **byte == b'\r').count();
    &line[..line.len() - returns]
}

/// Whether a terminal would act on a character and show nothing.
fn is_control(character: char) -> bool {
    character.is_control() && character != '\t'
}

/// One line of a terminal: what overwrites what.
struct Terminal {
    cells: Vec<char>,
    column: usize,
    /// How far right the cursor may go: a few bytes must not become many.
    widest: usize,
    /// How many cells may still be moved about: a line must not cost its square.
    work: usize,
}

/// Columns that a line may have beyond its bytes: the width of a terminal.
const MARGIN: usize = 80;

/// Moved cells for each byte of a line; no program that writes for people needs as many.
const WORK: usize = 64;

impl Terminal {
    fn new(length: usize) -> Self {
        Self {
            cells: Vec::new(),
            column: 0,
            widest: length + MARGIN,
            work: length * WORK,
        }
    }

    fn run(mut self, text: &str) -> Self {
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if next == '\x1b' {
                match sequence(rest.as_bytes()) {
                    Sequence::Whole(length) => {
                        self.control(&rest[..length]);
                        rest = &rest[length..];
                    }
                    Sequence::Open | Sequence::None => rest = &rest[1..],
                }
                continue;
            }
            rest = &rest[next.len_utf8()..];
            match next {
                '\r' => self.column = 0,
                '\x08' => self.column = self.column.saturating_sub(1),
                control if is_control(control) => {}
                character => self.put(character),
            }
        }
        self
    }

    fn put(&mut self, character: char) {
        let gap = self.column.saturating_sub(self.cells.len());
        if self.pay(gap) {
            self.cells.resize(self.cells.len() + gap, ' ');
        } else {
            self.column = self.cells.len();
        }
        match self.cells.get_mut(self.column) {
            Some(cell) => *cell = character,
            None => self.cells.push(character),
        }
        self.column += 1;
    }

    /// The sequences that change what a line shows; all others only change how it looks.
    fn control(&mut self, sequence: &str) {
        let Some(body) = sequence.strip_prefix("\x1b[") else {
            return;
        };
        let Some(last) = body.chars().next_back() else {
            return;
        };
        let parameter = body[..body.len() - last.len_utf8()].parse::<usize>().ok();
        let count = parameter.unwrap_or(1).max(1);
        let end = self.column.min(self.cells.len());
        match (last, parameter.unwrap_or(0)) {
            ('K', 0) => self.cells.truncate(self.column),
            ('K', 1) if self.pay(end) => self.cells[..end].fill(' '),
            ('K', 2) => self.cells.clear(),
            ('G', _) => self.column = (count - 1).min(self.widest),
            ('C', _) => self.column = self.column.saturating_add(count).min(self.widest),
            ('D', _) => self.column = self.column.saturating_sub(count),
            ('P', _) if self.pay(self.cells.len() - end) => {
                let upto = end.saturating_add(count).min(self.cells.len());
                self.cells.drain(end..upto);
            }
            _ => {}
        }
    }

    /// Whether so many cells may still be moved.
    fn pay(&mut self, cells: usize) -> bool {
        let left = self.work.checked_sub(cells);
        self.work = left.unwrap_or(self.work);
        left.is_some()
    }

    fn show(self, out: &mut String) {
        out.extend(self.cells);
    }
}

/// What begins with an escape.
#[derive(Debug, PartialEq, Eq)]
enum Sequence {
    /// A sequence of so many bytes.
    Whole(usize),
    /// The beginning of one.
    Open,
    /// None: the escape stands alone.
    None,
}

/// The escape sequence at the start of `bytes` (ECMA-48, and the strings of xterm).
fn sequence(bytes: &[u8]) -> Sequence {
    let Some(kind) = bytes.get(1) else {
        return Sequence::Open;
    };
    match kind {
        b'[' => {
            let body = &bytes[2..];
            match body.iter().position(|byte| !(0x20..=0x3f).contains(byte)) {
                Some(at) if (0x40..=0x7e).contains(&body[at]) => Sequence::Whole(2 + at + 1),
                // Another one begins before this one is whole.
                Some(at) if body[at] == 0x1b => Sequence::Whole(2 + at),
                Some(_) => Sequence::None,
                None => Sequence::Open,
            }
        }
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let body = &bytes[2..];
            match memchr::memchr2(0x07, 0x1b, body) {
                Some(at) if body[at] == 0x07 => Sequence::Whole(2 + at + 1),
                Some(at) => match body.get(at + 1) {
                    Some(b'\\') => Sequence::Whole(2 + at + 2),
                    // Another escape ends the string without being part of it.
                    Some(_) => Sequence::Whole(2 + at),
                    None => Sequence::Open,
                },
                None => Sequence::Open,
            }
        }
        0x20..=0x2f => {
            match bytes[1..]
                .iter()
                .position(|byte| !(0x20..=0x2f).contains(byte))
            {
                Some(at) if (0x30..=0x7e).contains(&bytes[1 + at]) => Sequence::Whole(1 + at + 1),
                Some(_) => Sequence::None,
                None => Sequence::Open,
            }
        }
        0x30..=0x7e => Sequence::Whole(2),
        _ => Sequence::None,
    }
}

/// How many bytes of `text` only finish a sequence or a character that began in `context`.
fn cut_length(context: &[u8], text: &[u8]) -> usize {
    if context.is_empty() {
        return 0;
    }
    if let Some(escape) = memchr::memrchr(0x1b, context)
        && sequence(&context[escape..]) == Sequence::Open
    {
        let line = memchr::memchr(b'\n', text).unwrap_or(text.len());
        let joined = [&context[escape..], &text[..line]].concat();
        if let Sequence::Whole(length) = sequence(&joined) {
            return length - (context.len() - escape);
        }
    }
    text.iter()
        .take(3)
        .take_while(|byte| (0x80..=0xbf).contains(*byte))
        .count()
}

/// How many bytes at the end begin a character that is not whole yet.
fn half_character(raw: &[u8]) -> usize {
    (1..=3.min(raw.len()))
        .find(|count| {
            std::str::from_utf8(&raw[raw.len() - count..])
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(raw: impl AsRef<[u8]>) -> String {
        let mut out = String::new();
        clean(raw.as_ref(), &[], &mut out);
        out
    }

    #[test]
    fn text_stays_as_it_is() {
        for text in ["", "\n\n", "plain\n", "tab\tand ünïcödé ☃ 日本\nno end"] {
            assert_eq!(seen(text), text);
        }
    }

    #[test]
    fn crlf_is_a_newline() {
        assert_eq!(seen("one\r\ntwo\r\r\nthree\r\n"), "one\ntwo\nthree\n");
    }

    #[test]
    fn colours_titles_and_cursor_moves_are_gone() {
        assert_eq!(
            seen("\x1b[1;31mred\x1b[0m plain\x1b]0;title\x07 end\n"),
            "red plain end\n"
        );
        assert_eq!(seen("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n"), "link\n");
        assert_eq!(
            seen("\x1b(Ba\x1b=b\x1bMc\x1b[?25ld\x1b[38;2;1;2;3me\n"),
            "abcde\n"
        );
    }

    #[test]
    fn a_progress_bar_shows_its_last_state() {
        assert_eq!(seen("10%\r50%\r100%\n"), "100%\n");
        assert_eq!(seen("10%\r50%\r"), "50%");
        assert_eq!(seen("loading...\r\x1b[Kdone\n"), "done\n");
        assert_eq!(
            seen("\x1b[2K\x1b[1Gstep 1\x1b[2K\x1b[1Gstep 2\n"),
            "step 2\n"
        );
        assert_eq!(seen("abcdef\rXY\n"), "XYcdef\n");
        assert_eq!(seen("|\x08/\x08-\x08done\n"), "done\n");
        assert_eq!(seen("abc\x1b[3D\x1b[Px\n"), "xc\n");
    }

    #[test]
    fn control_characters_hide_nothing() {
        assert_eq!(seen("before\0after\x07\x7f\u{85}\n"), "beforeafter\n");
    }

    #[test]
    fn bytes_that_are_no_utf8_are_replaced() {
        assert_eq!(
            seen(b"left\xff\xferight\n\xc0\x80end\n"),
            "left\u{fffd}\u{fffd}right\n\u{fffd}\u{fffd}end\n"
        );
    }

    #[test]
    fn what_a_later_write_may_complete_is_open() {
        for (text, open) in [
            (&b"text\x1b[3"[..], 3),
            (b"text\x1b]0;ti", 6),
            (b"text\x1b]0;ti\x1b", 7),
            (b"\x1b[3\x1b", 4),
            (b"a\x1b]b\x1b[3\x1b[", 8),
            (b"a\x1b]b\x1b[m\x1b[", 2),
            (b"a\x1b]\x1b\xe2\x98", 5),
            (b"a\x1b]\x1b\x1b[3", 6),
            (&"text☃".as_bytes()[..6], 2),
            (b"text\xff", 0),
            // What follows cannot make a character of these any more.
            (b"\xe9:", 0),
            (b"\xe0\x80", 0),
            // A line break closes whatever was open.
            (b"a\x1b]0;never closed\nb", 0),
            (b"\xe2\x98\n", 0),
            (b"", 0),
        ] {
            assert_eq!(open_length(text), open, "{text:?}");
        }
    }

    #[test]
    fn an_unfinished_sequence_does_not_hide_the_next_line() {
        assert_eq!(seen("a\x1b]0;never closed\nb\n"), "a]0;never closed\nb\n");
        assert_eq!(seen("a\x1b[\nb\n"), "a[\nb\n");
        assert_eq!(seen("a\x1b\nb\n"), "a\nb\n");
        assert_eq!(seen("\x1b[3\x1b[1mX\n"), "X\n");
        let long = "x".repeat(300);
        assert_eq!(seen(format!("\x1b]{long}")), format!("]{long}"));
    }

    #[test]
    fn what_is_unfinished_at_the_very_end_is_shown() {
        let mut out = String::new();
        clean(b"ok\nab\xe2\x82", &[], &mut out);
        assert_eq!(out, "ok\nab\u{fffd}");
    }

    #[test]
    fn what_was_cut_at_the_front_leaves_no_debris() {
        let mut out = String::new();
        clean(b"31mred\n", b"some text\x1b[", &mut out);
        assert_eq!(out, "red\n");
        out.clear();
        clean(&"☃snow".as_bytes()[1..], &"☃".as_bytes()[..1], &mut out);
        assert_eq!(out, "snow");
    }

    #[test]
    fn no_line_costs_more_than_its_length_allows() {
        assert!(seen("\x1b[999999999999Cx\x1b[4000000000Gy\n").len() < 200);
        assert!(seen("\x1b[9999Cx\n".repeat(1000)).len() < 100_000);
        let long = "a".repeat(200_000);
        for unit in [
            "\x1b[P",
            "\x1b[1K",
            "\x1b[1Kb",
            "\x1b[9999999Dx\x1b[9999999C",
            "\x1b[2Kb",
            "\x1b[9999999Cx\r\x1b[K",
        ] {
            // Quadratic work would take minutes.
            seen(format!("{long}\r{}", unit.repeat(100_000)));
            seen(format!("{long}{}", unit.repeat(100_000)));
        }
        for unit in [
            "\x1b]", "\x1b[", "\x1bP", "\x1b", "\x1b]a", "\r", "x\r", "x\x08",
        ] {
            seen(unit.repeat(200_000));
            seen(format!("{}\n", unit.repeat(200_000)));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_text_without_control_characters(raw in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = seen(&raw);
            prop_assert!(text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
            prop_assert_eq!(text.matches('\n').count(), memchr::memchr_iter(b'\n', &raw).count());
        }

        #[test]
        fn printable_text_is_untouched(text in "[ -~äß☃\n\t]{0,200}") {
            prop_assert_eq!(seen(&text), text);
        }
    }
}
