//! A client as small as one can be: starts a server, says lines, hears lines, all with deadlines.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long any answer may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server and the wire to it.
#[derive(Debug)]
pub struct Client {
    server: Child,
    /// None once closed.
    stdin: Option<ChildStdin>,
    /// One message a line, from a thread that reads.
    lines: Receiver<Value>,
    /// Messages that were read while another was waited for.
    early: Vec<Value>,
    last_id: u64,
}

impl Client {
    /// Starts a server; `prepare` may add to its command.
    pub fn start(program: &Path, prepare: impl FnOnce(&mut Command)) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        prepare(&mut command);
        let mut server = command.spawn()?;
        let stdin = server.stdin.take();
        let stdout = server.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (heard, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // What is no JSON on this wire is a fault, and shows as one.
                let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if heard.send(message).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            server,
            stdin,
            lines,
            early: Vec::new(),
            last_id: 0,
        })
    }

    /// Opens a session as clients with a handshake do.
    pub fn initialize(&mut self) -> Result<Value, String> {
        let client = json!({ "name": "doctor", "version": env!("CARGO_PKG_VERSION") });
        let answer = self.request(
            "initialize",
            &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client }),
        )?;
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string())?;
        Ok(answer)
    }

    /// Asks something and waits for the answer: its result, or its error as text.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        let id = self.ask(method, params)?;
        self.hear(&id, PATIENCE)
    }

    /// Asks something without waiting; the answer will have this id.
    pub fn ask(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.last_id += 1;
        let id = json!(self.last_id);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&request.to_string())?;
        Ok(id)
    }

    /// Calls a tool: the document that it answers, or its error sentence.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let params = json!({ "name": tool, "arguments": arguments });
        document(&self.request("tools/call", &params)?)
    }

    /// Says one line.
    pub fn say(&mut self, line: &str) -> Result<(), String> {
        self.say_bytes(format!("{line}\n").as_bytes())
    }

    /// Says just these bytes.
    pub fn say_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("its input is closed")?;
        stdin
            .write_all(bytes)
            .map_err(|error| format!("the server does not read: {error}"))
    }

    /// Waits for the answer with this id.
    pub fn hear(&mut self, id: &Value, patience: Duration) -> Result<Value, String> {
        let answer = self.hear_where(|message| message.get("id") == Some(id), patience)?;
        match answer.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Waits for a message like this.
    pub fn hear_where(
        &mut self,
        wanted: impl Fn(&Value) -> bool,
        patience: Duration,
    ) -> Result<Value, String> {
        if let Some(at) = self.early.iter().position(&wanted) {
            return Ok(self.early.remove(at));
        }
        let deadline = Instant::now() + patience;
        loop {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(message) if wanted(&message) => return Ok(message),
                Ok(message) => self.early.push(message),
                Err(RecvTimeoutError::Timeout) => return Err(format!("no answer in {patience:?}")),
                Err(RecvTimeoutError::Disconnected) => return Err("the server is gone".into()),
            }
        }
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Closes the server's input.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Kills the server, so that it can do nothing more.
    pub fn kill(&mut self) {
        let _ = self.server.kill();
    }

    /// Waits until the server has exited.
    pub fn exit(&mut self, patience: Duration) -> Result<ExitStatus, String> {
        wait_until(patience, || self.server.try_wait().ok().flatten())
            .ok_or_else(|| format!("the server has not exited in {patience:?}"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stdin = None;
        if self.exit(Duration::from_secs(3)).is_err() {
            self.kill();
            let _ = self.server.wait();
        }
    }
}

/// The document in a tool's result, or the sentence of its error.
pub fn document(result: &Value) -> Result<Value, String> {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    if result["isError"] == true {
        return Err(text.into());
    }
    serde_json::from_str(text).map_err(|error| format!("{error} in {text:?}"))
}

/// Looks again and again until there is something, or the time is over.
pub fn wait_until<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
