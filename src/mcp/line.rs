//! What came on a line from a client: messages, read one by one.
//!
//! A request that carries an id must get an answer with that id, whatever else is wrong with it:
//! a client that hears nothing waits until its own time limit. So what is not well put together is
//! read as far as it can be made out.
//!
//! Architecture invariant: pure.

mod id;
mod message;

use serde_json::value::RawValue;

pub(super) use id::IdScan;
use message::{INVALID_REQUEST, message, refusal};
pub(super) use message::{Message, Request, malformed};

/// The messages of one line, read one by one: a line may hold very many.
#[derive(Debug)]
pub(super) struct Line {
    text: String,
    /// Where the next message begins.
    at: usize,
    batch: bool,
    empty: bool,
}

impl Line {
    /// Of these bytes, without their newline.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}').trim().to_owned();
        let batch = text.starts_with('[');
        Self {
            text,
            at: 0,
            batch,
            empty: true,
        }
    }

    /// Whether its messages are answered together. Else it holds one, or none, or several that a
    /// client forgot to put on lines of their own.
    pub(super) fn is_batch(&self) -> bool {
        self.batch
    }

    /// What stands between messages. Within a batch it is not looked at too closely.
    fn between(&self) -> impl Fn(char) -> bool + use<> {
        let batch = self.batch;
        move |c| c.is_whitespace() || batch && matches!(c, '[' | ']' | ',')
    }
}

impl Iterator for Line {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        loop {
            let rest = self.text[self.at..].trim_start_matches(self.between());
            self.at = self.text.len() - rest.len();
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
            let found = match values.next() {
                Some(Ok(value)) => {
                    self.at += values.byte_offset();
                    message(value.get())
                }
                Some(Err(reason)) => {
                    self.at = self.text.len();
                    let mut scan = IdScan::default();
                    scan.feed(rest.as_bytes());
                    malformed(scan, &format!("this line is not JSON: {reason}"))
                }
                None if self.batch && self.empty => {
                    self.empty = false;
                    return Some(refusal(
                        "null",
                        INVALID_REQUEST,
                        "a batch must not be empty",
                    ));
                }
                None => return None,
            };
            self.empty = false;
            if found.is_some() {
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn messages(line: &str) -> Vec<Message> {
        Line::new(line.as_bytes()).collect()
    }

    fn answers(line: &str) -> Vec<Value> {
        let parse = |message| match message {
            Message::Answer(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{line}: {other:?}"),
        };
        messages(line).into_iter().map(parse).collect()
    }

    fn code(line: &str) -> (Value, i64) {
        let [answer] = &answers(line)[..] else {
            panic!("{line}")
        };
        (
            answer["id"].clone(),
            answer["error"]["code"].as_i64().unwrap(),
        )
    }

    fn ids(line: &str) -> Vec<String> {
        let id = |message| match message {
            Message::Request(request) => request.id,
            Message::Answer(text) => {
                serde_json::from_str::<Value>(&text).unwrap()["id"].to_string()
            }
            Message::Cancelled(id) => format!("cancel {id}"),
        };
        messages(line).into_iter().map(id).collect()
    }

    #[test]
    fn ids_are_kept_as_they_were_written() {
        for id in [
            "1",
            "-5",
            "\"a\"",
            "18.0",
            "18446744073709551616",
            "1e300",
            "0.10",
            "\"☃\"",
        ] {
            assert_eq!(
                ids(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)),
                [id]
            );
        }
    }

    #[test]
    fn what_is_not_json_is_answered_with_the_id_that_can_be_seen() {
        assert_eq!(code("this is not json"), (Value::Null, -32700));
        let cut = r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{"#;
        assert_eq!(code(cut), (json!(5), -32700));
        assert_eq!(
            code(r#"{"method":"x","params":{"id":9},"id":"b""#),
            (json!("b"), -32700)
        );
        assert_eq!(code(r#"{"id":13 "method":"ping"}"#), (json!(13), -32700));
        let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
        let deep = format!(r#"{{"id":7,"method":"ping","params":{open}{close}}}"#);
        assert_eq!(code(&deep), (json!(7), -32700));
    }

    #[test]
    fn a_wrong_shape_is_answered_with_its_id() {
        assert_eq!(
            code(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#),
            (json!(1), -32600)
        );
        assert_eq!(code(r#"{"id":1,"method":"ping"}"#), (json!(1), -32600));
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":1,"method":5}"#),
            (json!(1), -32600)
        );
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
            (Value::Null, -32600)
        );
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#),
            (json!([1]), -32600)
        );
        assert_eq!(code("[]"), (Value::Null, -32600));
        assert_eq!(code("17"), (Value::Null, -32600));
        assert_eq!(code(r#"{"hello":1}"#), (Value::Null, -32600));
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (method, params, word) in [
            ("tools/call", "[]", "params"),
            ("tools/call", r#"{"arguments":{}}"#, "name"),
            (
                "tools/call",
                r#"{"name":"list","arguments":"x"}"#,
                "arguments",
            ),
            (
                "tools/call",
                r#"{"name":"list","arguments":[]}"#,
                "arguments",
            ),
            ("initialize", "{}", "protocolVersion"),
            ("subscriptions/listen", "{}", "notifications"),
        ] {
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            assert_eq!(code(&line), (json!(1), -32602));
            assert!(
                answers(&line)[0]["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains(word)
            );
        }
    }

    #[test]
    fn responses_and_other_notifications_are_left_alone() {
        for line in [
            "",
            "  \r",
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#,
            r#"{"jsonrpc":"1.0","method":"note"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"#,
        ] {
            assert!(messages(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_batch_is_its_elements_however_it_is_put_together() {
        let (one, two) = (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
        );
        for line in [
            format!("[{one},{two}]"),
            format!("[{one},{two},]"),
            format!("[{one} {two}"),
            format!("[[{one}],{two}]"),
        ] {
            assert!(Line::new(line.as_bytes()).is_batch(), "{line}");
            assert_eq!(ids(&line), ["1", "2"], "{line}");
        }
        assert_eq!(ids(&format!("{one}{two}")), ["1", "2"]);
        assert_eq!(ids(&format!("{one} nonsense")), ["1", "null"]);
        assert_eq!(ids(&format!("[{one},1,{two}]")), ["1", "null", "2"]);
    }

    #[test]
    fn a_cancelled_request_is_named() {
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}"#;
        assert_eq!(ids(cancel), ["cancel \"x\""]);
    }

    fn body(line: &[u8]) -> Value {
        let Some(Message::Request(request)) = Line::new(line).next() else {
            panic!()
        };
        Value::Object(request.body)
    }

    #[test]
    fn bad_utf8_and_half_characters_are_replaced() {
        let line = b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}\r";
        assert_eq!(body(line)["params"]["name"], "\u{fffd}");
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\ud83d","arguments":{"x":"\\ud83d \ud83d\ude00 \udc00"}}}"#;
        let params = &body(line.as_bytes())["params"];
        assert_eq!(params["name"], "a\u{fffd}");
        assert_eq!(params["arguments"]["x"], "\\ud83d 😀 \u{fffd}");
    }

    #[test]
    fn numbers_for_variables_stay_as_they_were_written() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start","arguments":{"env":{"A":1.10,"B":1e2,"C":"x","D":true,"E":12345678901234567890123}}}}"#;
        let env = &body(line.as_bytes())["params"]["arguments"]["env"];
        assert_eq!(
            env,
            &json!({ "A": "1.10", "B": "1e2", "C": "x", "D": true, "E": "12345678901234567890123" })
        );
    }
}
