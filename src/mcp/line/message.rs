//! What to do with one message.
//!
//! Whatever is wrong with a request is answered under its id. An answer to an answer, though, could
//! go back and forth for ever, so what looks like a response is left alone.

use std::borrow::Cow;
use std::collections::HashMap;

use rmcp::model::ClientJsonRpcMessage;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::id::{IdScan, Seen};

/// What to do with a message.
#[derive(Debug)]
pub(in crate::mcp) enum Message {
    /// Let it be answered by whoever knows the method.
    Request(Request),
    /// The client does not want the answer to the request with this id.
    Cancelled(Value),
    /// Give this answer.
    Answer(String),
}

/// A request that has the form of one.
#[derive(Debug)]
pub(in crate::mcp) struct Request {
    /// The id as it was written, to be given back like that.
    pub(in crate::mcp) id: String,
    /// The id as a value, to be compared with.
    pub(in crate::mcp) same_as: Value,
    /// Whether it opens a session with a handshake.
    pub(in crate::mcp) opens: bool,
    /// Whether it stands for itself: it needs no session.
    pub(in crate::mcp) free: bool,
    /// Whether its answer may take long, whatever the server does.
    pub(in crate::mcp) slow: bool,
    pub(super) body: Map<String, Value>,
}

/// JSON-RPC error codes.
const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
/// Internal error: the server's fault, not the request's.
const BUSY: i32 = -32603;

/// No client needs a longer id, and no method has a longer name.
const LONGEST_NAME: usize = 1024;

/// The answer to what could not be read, from what was seen of it.
pub(in crate::mcp) fn malformed(scan: IdScan, reason: &str) -> Option<Message> {
    match scan.finish() {
        Seen::Response => None,
        Seen::Request(id) => Some(refusal(
            id.as_deref().unwrap_or("null"),
            PARSE_ERROR,
            reason,
        )),
    }
}

impl Request {
    /// The message for rmcp, under an id of our own; or an answer, where its parameters have not
    /// the form that its method needs.
    pub(in crate::mcp) fn message(mut self, id: i64) -> Result<ClientJsonRpcMessage, Message> {
        self.body.insert("id".into(), json!(id));
        serde_json::from_value(Value::Object(self.body)).map_err(|reason| {
            let reason = format!("the message cannot be understood: {reason}");
            refusal(&self.id, INVALID_PARAMS, &reason)
        })
    }

    /// The answer where so much is waited for that no more can be.
    pub(in crate::mcp) fn too_many(&self) -> Message {
        refusal(
            &self.id,
            BUSY,
            "too many calls are waiting; cancel some, or call again later",
        )
    }

    /// The answer to a request that needs a session where there is none.
    pub(in crate::mcp) fn without_session(&self) -> Message {
        let reason = "request _meta is missing or has malformed required fields: \
            io.modelcontextprotocol/protocolVersion, io.modelcontextprotocol/clientCapabilities; \
            without them a session must be opened with initialize first";
        refusal(&self.id, INVALID_PARAMS, reason)
    }
}

pub(super) fn message(text: &str) -> Option<Message> {
    let parsed = serde_json::from_str(text)
        .or_else(|error| serde_json::from_str(&replace_lone_surrogates(text)).map_err(|_| error));
    let mut body = match parsed {
        Ok(Value::Object(body)) => body,
        Ok(_) => {
            return Some(refusal(
                "null",
                INVALID_REQUEST,
                "a message must be an object",
            ));
        }
        Err(reason) => {
            let mut scan = IdScan::default();
            scan.feed(text.as_bytes());
            return malformed(scan, &format!("this message cannot be read: {reason}"));
        }
    };
    if !body.contains_key("method") && (body.contains_key("result") || body.contains_key("error")) {
        return None;
    }
    let Some(same_as) = body.get("id").cloned() else {
        return notification(&body);
    };
    let id = as_written(&same_as, text);
    let refuse = |code, reason: &str| Some(refusal(&id, code, reason));
    if body.get("jsonrpc") != Some(&json!("2.0")) {
        return refuse(INVALID_REQUEST, "\"jsonrpc\" must be \"2.0\"");
    }
    let Some(method) = body.get("method").and_then(Value::as_str) else {
        return refuse(INVALID_REQUEST, "\"method\" must be a string");
    };
    if !(same_as.is_string() || same_as.is_number()) || id.len() > LONGEST_NAME {
        return refuse(INVALID_REQUEST, "\"id\" must be a short string or a number");
    }
    if method.len() > LONGEST_NAME {
        return refuse(METHOD_NOT_FOUND, "there is no method with so long a name");
    }
    let version = body.get("params").and_then(|params| {
        params
            .get("_meta")?
            .get("io.modelcontextprotocol/protocolVersion")
    });
    if method == "initialize" && version.is_some() {
        return refuse(
            METHOD_NOT_FOUND,
            "a request that names its version needs no initialize",
        );
    }
    if let Some(reason) = wrong_params(method, body.get("params")) {
        return refuse(INVALID_PARAMS, reason);
    }
    let (opens, free) = (
        method == "initialize",
        method == "ping" || version.is_some(),
    );
    let slow = is_slow(method, body.get("params"));
    numbers_as_written(&mut body, text);
    Some(Message::Request(Request {
        id,
        same_as,
        opens,
        free,
        slow,
        body,
    }))
}

/// What waits for something outside of the server. All else is answered as soon as it has its turn.
fn is_slow(method: &str, params: Option<&Value>) -> bool {
    let tool = params.and_then(|params| params.get("name")?.as_str());
    match method {
        "subscriptions/listen" => true,
        "tools/call" => {
            let arguments = params.and_then(|params| params.get("arguments"));
            matches!(tool, Some("start" | "stop" | "send"))
                || arguments.is_some_and(|arguments| arguments.get("wait").is_some())
        }
        _ => false,
    }
}

/// The one notification that means something here. What is no message at all is answered.
fn notification(body: &Map<String, Value>) -> Option<Message> {
    match body.get("method") {
        Some(Value::String(method)) if method == "notifications/cancelled" => Some(
            Message::Cancelled(body.get("params")?.get("requestId")?.clone()),
        ),
        Some(Value::String(_)) => None,
        _ => Some(refusal(
            "null",
            INVALID_REQUEST,
            "\"method\" must be a string",
        )),
    }
}

/// An id as its client has written it: a number that is parsed may lose digits.
fn as_written(id: &Value, text: &str) -> String {
    if id.is_f64() {
        let mut scan = IdScan::default();
        scan.feed(text.as_bytes());
        if let Seen::Request(Some(id)) = scan.finish() {
            return id;
        }
    }
    id.to_string()
}

/// A number for a variable is its JSON text: `1.10` is a version to somebody, not `1.1`.
fn numbers_as_written(body: &mut Map<String, Value>, text: &str) {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: Arguments<'a>,
    }
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        env: HashMap<Cow<'a, str>, &'a RawValue>,
    }
    let env = body
        .get_mut("params")
        .and_then(|params| params.get_mut("arguments")?.get_mut("env")?.as_object_mut());
    let Some(env) = env.filter(|env| env.values().any(Value::is_number)) else {
        return;
    };
    let Ok(call) = serde_json::from_str::<Call>(text) else {
        return;
    };
    for (key, value) in env.iter_mut().filter(|(_, value)| value.is_number()) {
        if let Some(written) = call.params.arguments.env.get(key.as_str()) {
            *value = Value::String(written.get().to_owned());
        }
    }
}

/// What is wrong with parameters that rmcp would take for those of a method it does not know.
fn wrong_params(method: &str, params: Option<&Value>) -> Option<&'static str> {
    let params = params.unwrap_or(&Value::Null);
    let is = |key: &str, form: fn(&Value) -> bool| params.get(key).is_some_and(form);
    match method {
        "tools/call" if !params.is_object() => {
            Some("\"params\" of tools/call must be an object with \"name\" and \"arguments\"")
        }
        "tools/call" if !is("name", Value::is_string) => {
            Some("\"params.name\" of tools/call must be a string, the tool's name")
        }
        "tools/call" => match params.get("arguments") {
            None | Some(Value::Null | Value::Object(_)) => None,
            Some(_) => Some("\"params.arguments\" of tools/call must be an object"),
        },
        "initialize"
            if !(is("protocolVersion", Value::is_string)
                && is("capabilities", Value::is_object)
                && is("clientInfo", Value::is_object)) =>
        {
            Some(
                "\"params\" of initialize must have \"protocolVersion\", a string, and \"capabilities\" and \
                 \"clientInfo\", objects",
            )
        }
        "subscriptions/listen" if !is("notifications", Value::is_object) => {
            Some("\"params.notifications\" of subscriptions/listen must be an object")
        }
        _ => None,
    }
}

pub(super) fn refusal(id: &str, code: i32, message: &str) -> Message {
    let message = Value::from(message);
    Message::Answer(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#
    ))
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
