//! Finds the id of a message that cannot be parsed, in one pass and without keeping the message.

use serde_json::value::RawValue;

/// Looks at the outermost object of a line, byte by byte, as far as it can be made out.
#[derive(Debug, Default)]
pub(crate) struct IdScan {
    depth: usize,
    string: Option<Escape>,
    /// The string or word being read, at the outermost level.
    token: Vec<u8>,
    /// Whether the value that comes next is the id.
    id_next: bool,
    /// As it was written.
    id: Option<String>,
    method: bool,
    answer: bool,
}

/// What a line was meant to be.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// A response or an error.
    Response,
    /// Anything else, with its id.
    Request(Option<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    No,
    Next,
}

/// No id is longer, and no other key matters.
const LONGEST: usize = 1024;

impl IdScan {
    /// Looks at the next bytes of the line.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.next(*byte);
        }
    }

    pub(super) fn finish(mut self) -> Seen {
        self.end_token();
        if self.answer && !self.method {
            Seen::Response
        } else {
            Seen::Request(self.id)
        }
    }

    fn next(&mut self, byte: u8) {
        if let Some(escape) = self.string {
            self.keep(byte);
            self.string = match (escape, byte) {
                (Escape::No, b'\\') => Some(Escape::Next),
                (Escape::No, b'"') => None,
                _ => Some(Escape::No),
            };
            return;
        }
        match byte {
            b'"' => {
                // A comma is missing.
                self.end_token_if_any();
                self.token.clear();
                self.keep(byte);
                self.string = Some(Escape::No);
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth > 1 {
                    self.id_next = false;
                }
                self.token.clear();
            }
            b'}' | b']' => {
                self.end_token();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key(),
            b',' => self.end_token(),
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < LONGEST {
            self.token.push(byte);
        }
    }

    /// A key at the outermost level is complete.
    fn key(&mut self) {
        let key = std::mem::take(&mut self.token);
        self.id_next = key == b"\"id\"";
        self.method |= key == b"\"method\"";
        self.answer |= key == b"\"result\"" || key == b"\"error\"";
    }

    fn end_token_if_any(&mut self) {
        if self.depth == 1 && !self.token.is_empty() {
            self.end_token();
        }
    }

    /// A value at the outermost level is complete.
    fn end_token(&mut self) {
        if self.depth == 1 {
            let token = std::mem::take(&mut self.token);
            if std::mem::take(&mut self.id_next) {
                let is_value = serde_json::from_slice::<&RawValue>(&token).is_ok();
                self.id = String::from_utf8(token).ok().filter(|_| is_value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &str) -> Seen {
        let mut scan = IdScan::default();
        // In the smallest pieces that can come.
        line.bytes().for_each(|byte| scan.feed(&[byte]));
        scan.finish()
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        for (line, id) in [
            (r#"{"id":5,"method":"#, "5"),
            (r#"{ "id" : 5 , "#, "5"),
            (r#"{"method":"x","id":"a\"b""#, r#""a\"b""#),
            (r#"{"params":{"id":1,"x":[{"id":2}]},"id":3}"#, "3"),
            (r#"{"params":"\"id\":4,","id":-6"#, "-6"),
            (r#"{"id":null"#, "null"),
            (r#"{"id":13 "method":"ping"}"#, "13"),
            (r#"{"id":18446744073709551616,"#, "18446744073709551616"),
        ] {
            assert_eq!(seen(line), Seen::Request(Some(id.into())), "{line}");
        }
    }

    #[test]
    fn no_id_is_made_up() {
        for line in [
            "",
            "nonsense",
            r#"{"params":{"id":1"#,
            r#"[{"id":1"#,
            r#"{"id":tru"#,
            r#"{"identity":1"#,
        ] {
            assert_eq!(seen(line), Seen::Request(None), "{line}");
        }
    }

    #[test]
    fn a_response_is_told_from_a_request() {
        assert_eq!(seen(r#"{"id":1,"result":{"a":"#), Seen::Response);
        assert_eq!(seen(r#"{"id":1,"error":1,"#), Seen::Response);
        assert_eq!(
            seen(r#"{"result":1,"method":"x","id":2}"#),
            Seen::Request(Some("2".into()))
        );
    }
}
