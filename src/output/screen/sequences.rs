//! What a process writes to its terminal, split into text, control sequences and strings.
//!
//! The pieces do not depend on how the bytes come: a character or a sequence that is cut is kept
//! until the rest of it has come. Of what is kept no more than a bound is held.

/// A sequence that is longer says nothing known.
const LONGEST: usize = 256;

/// A part of what was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Characters and controls.
    Text(&'a str),
    /// One control sequence, whole.
    Sequence(&'a str),
    /// One string for the terminal itself, with its introduction and its end. Only its beginning,
    /// where it is long.
    String(&'a str),
}

/// Splits what comes.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    state: State,
    /// The sequence or string so far.
    held: String,
    /// The beginning of a character.
    cut: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After an escape.
    Escape,
    /// After `ESC [`.
    Sequence,
    /// In a string.
    String,
    /// In a string, after an escape: it may be its end.
    StringEscape,
}

impl Splitter {
    /// Gives each piece that is whole.
    pub(super) fn split(&mut self, bytes: &[u8], give: &mut impl FnMut(Piece<'_>)) {
        let joined;
        let mut rest = bytes;
        if !self.cut.is_empty() {
            let mut cut = std::mem::take(&mut self.cut);
            cut.extend_from_slice(bytes);
            joined = cut;
            rest = &joined;
        }
        loop {
            match str::from_utf8(rest) {
                Ok(text) => return self.split_text(text, give),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.split_text(str::from_utf8(good).unwrap_or_default(), give);
                    let Some(length) = error.error_len() else {
                        self.cut = bad.to_vec();
                        return;
                    };
                    self.split_text("\u{fffd}", give);
                    rest = &bad[length..];
                }
            }
        }
    }

    fn split_text(&mut self, text: &str, give: &mut impl FnMut(Piece<'_>)) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.state == State::Text {
                let end = memchr::memchr(0x1b, rest.as_bytes()).unwrap_or(rest.len());
                for_runs(&rest[..end], give);
                rest = &rest[end..];
                if !rest.is_empty() {
                    self.state = State::Escape;
                    self.held.clear();
                    self.held.push('\x1b');
                    rest = &rest[1..];
                }
            } else {
                let mut chars = rest.chars();
                let next = chars.next();
                rest = chars.as_str();
                if let Some(c) = next {
                    self.step(c, give);
                }
            }
        }
    }

    /// Takes a character that is not text.
    fn step(&mut self, c: char, give: &mut impl FnMut(Piece<'_>)) {
        match (self.state, c) {
            // These end everything.
            (_, '\x18' | '\x1a') => self.state = State::Text,
            (State::String, '\x1b') => self.state = State::StringEscape,
            (State::StringEscape, '\\') => self.end_string("\x1b\\", give),
            // Only the strings that begin with `ESC ]` may end so.
            (State::String, '\x07') if self.held.as_bytes().get(1) == Some(&b']') => {
                self.end_string("\x07", give);
            }
            (State::String, _) => {
                if self.held.len() < LONGEST {
                    self.held.push(c);
                }
            }
            // It was no end: a new sequence begins.
            (_, '\x1b') => {
                self.state = State::Escape;
                self.held.truncate(1);
            }
            (State::StringEscape, _) => {
                self.state = State::Escape;
                self.held.truncate(1);
                self.step(c, give);
            }
            // A control in the middle has its effect at once.
            (_, '\0'..='\x1f') => for_runs(c.encode_utf8(&mut [0; 4]), give),
            (State::Escape, '[') if self.held.len() == 1 => self.take(c, State::Sequence),
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') if self.held.len() == 1 => {
                self.take(c, State::String);
            }
            (State::Escape, ' '..='/') => self.take(c, State::Escape),
            (State::Sequence, ' '..='?') => self.take(c, State::Sequence),
            (_, '0'..='~') => {
                self.state = State::Text;
                if self.held.len() < LONGEST {
                    self.held.push(c);
                    give(Piece::Sequence(&self.held));
                }
            }
            // No part of a sequence.
            _ => {
                self.state = State::Text;
                for_runs(c.encode_utf8(&mut [0; 4]), give);
            }
        }
    }

    fn take(&mut self, c: char, state: State) {
        self.state = state;
        if self.held.len() < LONGEST {
            self.held.push(c);
        }
    }

    fn end_string(&mut self, end: &str, give: &mut impl FnMut(Piece<'_>)) {
        self.state = State::Text;
        self.held.push_str(end);
        give(Piece::String(&self.held));
    }
}

/// Gives runs that are all ASCII or all not: the first kind is by far the more common one.
fn for_runs(text: &str, give: &mut impl FnMut(Piece<'_>)) {
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let other = |byte: &u8| byte.is_ascii() != first.is_ascii();
        let end = rest.as_bytes().iter().position(other);
        let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
        give(Piece::Text(run));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(writes: &[&[u8]]) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut found: Vec<String> = Vec::new();
        for bytes in writes {
            splitter.split(bytes, &mut |piece| {
                found.push(match piece {
                    Piece::Text(text) => text.into(),
                    Piece::Sequence(sequence) => format!("seq {}", &sequence[1..]),
                    Piece::String(string) => format!("str {}", &string[1..]),
                });
            });
        }
        found
    }

    #[test]
    fn text_sequences_and_strings_are_told_apart() {
        for (bytes, wanted) in [
            ("a\x1b[31mb", &["a", "seq [31m", "b"][..]),
            ("\x1b(0q\x1b7", &["seq (0", "q", "seq 7"]),
            ("\x1b]0;t\x07a", &["str ]0;t\x07", "a"]),
            ("\x1bP$qm\x1b\\a", &["str P$qm\x1b\\", "a"]),
            // A bell ends only the first kind.
            ("\x1bPa\x07b\x1b\\", &["str Pa\x07b\x1b\\"]),
            ("\x1b]0;t\x1b[mb", &["seq [m", "b"]),
            ("\x1b[3\x18a", &["a"]),
            ("\x1b[3\n1m", &["\n", "seq [31m"]),
            ("\x1b[3\x1b[1m", &["seq [1m"]),
            ("é\x1b[☃a", &["é", "☃", "a"]),
        ] {
            assert_eq!(pieces(&[bytes.as_bytes()]), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_cut_is_kept_and_what_is_no_character_is_marked() {
        assert_eq!(pieces(&[b"\xe2\x98", b"\x83"]), ["☃"]);
        assert_eq!(pieces(&[b"\xe2\x98", b"a"]), ["\u{fffd}", "a"]);
        assert_eq!(pieces(&[b"\x1b", b"[", b"3", b"1m"]), ["seq [31m"]);
        assert_eq!(pieces(&[b"\x1b]0;t\x1b", b"\\a"]), ["str ]0;t\x1b\\", "a"]);
    }

    #[test]
    fn what_never_ends_is_not_kept() {
        let mut splitter = Splitter::default();
        for start in [&b"\x1b]0;"[..], b"\x1b[1;"] {
            splitter.split(start, &mut drop_it);
            for _ in 0..1000 {
                splitter.split(&[b'1'; 1000], &mut drop_it);
            }
            assert!(splitter.held.capacity() < 1024);
        }
        assert_eq!(pieces(&[b"\x1b[", &[b'1'; 1000], b"mb"]), ["b"]);
    }

    fn drop_it(_: Piece<'_>) {}
}
