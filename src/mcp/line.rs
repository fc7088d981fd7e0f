//! What one line from a client is: a message, or something that still wants an answer.
//!
//! A request that carries an id must get an answer with that id, whatever else is wrong with it:
//! a client that hears nothing waits until its own time limit. An answer to an answer, though,
//! could go back and forth for ever, so what looks like a response is left alone.
//!
//! Architecture invariant: pure.

mod id;

use rmcp::model::ClientJsonRpcMessage;
use serde_json::{Map, Value, json};

pub(super) use id::IdScan;

/// What to do with a line, or with an element of a batch.
#[derive(Debug)]
pub(super) enum Line {
    /// A request or a notification.
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing to do.
    Nothing,
    /// This answer, as it stands.
    Answer(Value),
    /// Several of the others, answered together.
    Batch(Vec<Line>),
}

/// JSON-RPC error codes.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// Reads one line.
pub(super) fn read(line: &[u8]) -> Line {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Line::Nothing;
    }
    let parsed = serde_json::from_str(text)
        .or_else(|error| serde_json::from_str(&replace_lone_surrogates(text)).map_err(|_| error));
    match parsed {
        Ok(Value::Array(elements)) if elements.is_empty() => Line::Answer(error(
            &Value::Null,
            INVALID_REQUEST,
            "a batch must not be empty",
        )),
        Ok(Value::Array(elements)) => Line::Batch(elements.into_iter().map(message).collect()),
        Ok(value) => message(value),
        Err(reason) => {
            let mut scan = IdScan::default();
            scan.feed(text.as_bytes());
            malformed(scan, &format!("this line is not JSON: {reason}"))
        }
    }
}

/// The answer to a line that could not be read, from what was seen of it.
pub(super) fn malformed(scan: IdScan, reason: &str) -> Line {
    match scan.finish() {
        id::Seen::Response => Line::Nothing,
        id::Seen::Request(id) => {
            Line::Answer(error(&id.unwrap_or(Value::Null), PARSE_ERROR, reason))
        }
    }
}

fn message(value: Value) -> Line {
    let Value::Object(mut object) = value else {
        return Line::Answer(error(
            &Value::Null,
            INVALID_REQUEST,
            "a message must be an object",
        ));
    };
    if !object.contains_key("method")
        && (object.contains_key("result") || object.contains_key("error"))
    {
        return Line::Nothing;
    }
    let id = object.get("id").cloned();
    let has_method = object.get("method").is_some_and(Value::is_string);
    let refuse = |code, reason: &str| match &id {
        // A notification is never answered, but what is no message at all is.
        None if has_method => Line::Nothing,
        _ => Line::Answer(error(id.as_ref().unwrap_or(&Value::Null), code, reason)),
    };
    if object.get("jsonrpc") != Some(&json!("2.0")) {
        return refuse(INVALID_REQUEST, "\"jsonrpc\" must be \"2.0\"");
    }
    if !has_method {
        return refuse(INVALID_REQUEST, "\"method\" must be a string");
    }
    match &id {
        None | Some(Value::String(_)) => {}
        Some(Value::Number(number)) if number.is_i64() => {}
        Some(Value::Number(number)) if whole(number).is_some() => {
            object.insert("id".into(), json!(whole(number)));
        }
        Some(_) => {
            return refuse(
                INVALID_REQUEST,
                "\"id\" must be a string or an integer of 64 bits",
            );
        }
    }
    if let Some(reason) = wrong_call(&object) {
        return refuse(INVALID_PARAMS, reason);
    }
    match serde_json::from_value(Value::Object(object)) {
        Ok(message) => Line::Message(Box::new(message)),
        Err(reason) => refuse(
            INVALID_PARAMS,
            &format!("the message cannot be understood: {reason}"),
        ),
    }
}

/// What is wrong with a `tools/call` before any tool is asked.
fn wrong_call(object: &Map<String, Value>) -> Option<&'static str> {
    if object.get("method") != Some(&json!("tools/call")) {
        return None;
    }
    let Some(Value::Object(params)) = object.get("params") else {
        return Some("\"params\" of tools/call must be an object with \"name\" and \"arguments\"");
    };
    if !params.get("name").is_some_and(Value::is_string) {
        return Some("\"params.name\" of tools/call must be a string, the tool's name");
    }
    match params.get("arguments") {
        None | Some(Value::Null | Value::Object(_)) => None,
        Some(_) => Some("\"params.arguments\" of tools/call must be an object"),
    }
}

/// An integer that was written as a fraction, such as `18.0`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the range is checked first"
)]
fn whole(number: &serde_json::Number) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    number
        .as_f64()
        .filter(|value| value.fract() == 0.0 && value.abs() <= EXACT)
        .map(|value| value as i64)
}

fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// JavaScript clients escape half of a character when they cut text in the middle of it.
fn replace_lone_surrogates(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (keep, replace) = match unit(rest) {
            Some(0xd800..=0xdbff) => match rest.get(6..).and_then(unit) {
                Some(0xdc00..=0xdfff) => (12, false),
                _ => (6, true),
            },
            Some(0xdc00..=0xdfff) => (6, true),
            _ => (
                1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                false,
            ),
        };
        out.push_str(if replace { "\\ufffd" } else { &rest[..keep] });
        rest = &rest[keep..];
    }
    out.push_str(rest);
    out
}

/// The UTF-16 unit of an escape such as `\ud83d`.
fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str) -> Value {
        match read(line.as_bytes()) {
            Line::Answer(value) => value,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn code(line: &str) -> (Value, i64) {
        let answer = answer(line);
        (
            answer["id"].clone(),
            answer["error"]["code"].as_i64().unwrap(),
        )
    }

    #[test]
    fn requests_and_notifications_are_messages() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"list"}}"#,
            r#"{"jsonrpc":"2.0","id":18.0,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r",
        ] {
            assert!(matches!(read(line.as_bytes()), Line::Message(_)), "{line}");
        }
    }

    #[test]
    fn what_is_not_json_is_answered_with_the_id_that_can_be_seen() {
        assert_eq!(code("this is not json"), (Value::Null, -32700));
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{"#),
            (json!(5), -32700)
        );
        assert_eq!(
            code(r#"{"method":"x","params":{"id":9},"id":"b""#),
            (json!("b"), -32700)
        );
        let deep = format!(
            r#"{{"id":7,"method":"ping","params":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
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
            code(r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#),
            (json!(1.5), -32600)
        );
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#).1,
            -32600
        );
        assert_eq!(code("[]"), (Value::Null, -32600));
        assert_eq!(code("17"), (Value::Null, -32600));
        assert_eq!(code(r#"{"hello":1}"#), (Value::Null, -32600));
    }

    #[test]
    fn a_call_with_wrong_parameters_says_which() {
        for (params, word) in [
            ("[]", "params"),
            (r#"{"arguments":{}}"#, "name"),
            (r#"{"name":"list","arguments":"x"}"#, "arguments"),
            (r#"{"name":"list","arguments":[]}"#, "arguments"),
        ] {
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            assert_eq!(code(&line), (json!(1), -32602));
            assert!(
                answer(&line)["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains(word)
            );
        }
    }

    #[test]
    fn responses_and_bad_notifications_are_left_alone() {
        for line in [
            "",
            "  \r",
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#,
            r#"{"jsonrpc":"1.0","method":"note"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"#,
        ] {
            assert!(matches!(read(line.as_bytes()), Line::Nothing), "{line}");
        }
    }

    #[test]
    fn a_batch_is_its_elements() {
        let Line::Batch(elements) =
            read(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},1,{"jsonrpc":"2.0","method":"x"}]"#)
        else {
            panic!()
        };
        assert!(matches!(
            elements[..],
            [Line::Message(_), Line::Answer(_), Line::Message(_)]
        ));
    }

    #[test]
    fn bad_utf8_and_half_characters_are_replaced() {
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}";
        assert!(matches!(read(line), Line::Message(_)));
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\ud83d","arguments":{"x":"\\ud83d \ud83d\ude00 \udc00"}}}"#;
        let Line::Message(message) = read(line.as_bytes()) else {
            panic!()
        };
        let text = serde_json::to_string(&message).unwrap();
        assert!(
            text.contains("a\u{fffd}") && text.contains("\\\\ud83d 😀 \u{fffd}"),
            "{text}"
        );
    }
}
