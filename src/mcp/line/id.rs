//! Finds the id of a message that cannot be parsed, in one pass and without keeping the message.

use serde_json::Value;

/// Looks at the outermost object of a line, byte by byte, as far as it can be made out.
#[derive(Debug, Default)]
pub(crate) struct IdScan {
    depth: usize,
    string: Option<Escape>,
    /// The string or word being read, at the outermost level.
    token: Vec<u8>,
    /// Whether the value that comes next is the id.
    id_next: bool,
    id: Option<Value>,
    method: bool,
    answer: bool,
}

/// What a line was meant to be.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// A response or an error.
    Response,
    /// Anything else, with its id.
    Request(Option<Value>),
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

    /// A value at the outermost level is complete.
    fn end_token(&mut self) {
        if self.depth == 1 {
            let token = std::mem::take(&mut self.token);
            if std::mem::take(&mut self.id_next) {
                self.id = serde_json::from_slice(&token).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            (r#"{"id":5,"method":"#, json!(5)),
            (r#"{ "id" : 5 , "#, json!(5)),
            (r#"{"method":"x","id":"a\"b""#, json!("a\"b")),
            (r#"{"params":{"id":1,"x":[{"id":2}]},"id":3}"#, json!(3)),
            (r#"{"params":"\"id\":4,","id":-6"#, json!(-6)),
            (r#"{"id":null"#, json!(null)),
        ] {
            assert_eq!(seen(line), Seen::Request(Some(id)), "{line}");
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
            Seen::Request(Some(json!(2)))
        );
    }
}
