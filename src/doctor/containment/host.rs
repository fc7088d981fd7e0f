//! The host of a cell: starts a server and in it a tree, and does as the observer says.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::doctor::client::document;
use crate::platform::{self, lab};

/// Says `ready SERVER LEADER`, then obeys, one word a line: `stop`, `close` and `break` are done
/// and answered `done`. Ends with its input.
pub(super) fn main(script: Option<&OsString>, grace: Option<&OsString>) -> Result<(), String> {
    let script = script.ok_or("no script")?.to_string_lossy();
    let program = platform::program().map_err(text)?;
    let mut command = Command::new(program);
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("SIDECAR_") {
            command.env_remove(key);
        }
    }
    command
        .env("SIDECAR_LOG", "error")
        .env("SIDECAR_KILL_TIMEOUT", grace.ok_or("no grace")?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = lab::lead_group(&mut command).spawn().map_err(text)?;
    let mut server = Wire {
        stdin: child.stdin.take(),
        stdout: child.stdout.take().map(BufReader::new),
        last_id: 0,
    };
    let client = json!({ "name": "doctor", "version": env!("CARGO_PKG_VERSION") });
    server.request(
        "initialize",
        &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }),
    )?;
    let started = server.call("start", &json!({ "command": script }))?;
    let mut out = io::stdout();
    writeln!(out, "ready {} {}", child.id(), started["pid"]).map_err(text)?;
    for order in io::stdin().lines() {
        match &*order.map_err(text)? {
            "stop" => drop(server.call("stop", &json!({ "id": started["id"] }))?),
            "close" => server.stdin = None,
            "break" => {
                server.stdout = None;
                server.say("tools/list", &json!({}))?;
            }
            _ => return Err("no such order".into()),
        }
        writeln!(out, "done").map_err(text)?;
    }
    Ok(())
}

/// Not the client of the other checks: that one has a thread that reads, and here the reading end
/// must be closed.
struct Wire {
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    last_id: u64,
}

impl Wire {
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let result = self.request(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )?;
        document(&result)
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.say(method, params)?;
        let stdout = self.stdout.as_mut().ok_or("its output is closed")?;
        let mut line = String::new();
        if stdout.read_line(&mut line).map_err(text)? == 0 {
            return Err("the server is gone".into());
        }
        let mut answer: Value = serde_json::from_str(&line).map_err(text)?;
        Ok(answer["result"].take())
    }

    fn say(&mut self, method: &str, params: &Value) -> Result<(), String> {
        self.last_id += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        let stdin = self.stdin.as_mut().ok_or("its input is closed")?;
        writeln!(stdin, "{request}").map_err(text)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
