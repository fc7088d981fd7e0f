//! A server under measurement, and what the system knows of a process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How much to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) quick: bool,
}

impl Effort {
    /// How often, or how much: this, or a fraction of it where it only has to run.
    pub(crate) fn of(self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// A program that serves the six tools.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    words: Vec<String>,
    pub(crate) is_own: bool,
}

impl Contender {
    pub(crate) fn own() -> Self {
        Self {
            name: "mcp-sidecar".into(),
            words: vec![env!("CARGO_BIN_EXE_mcp-sidecar").into()],
            is_own: true,
        }
    }

    pub(crate) fn other(command: &str) -> Self {
        let words: Vec<String> = command.split_whitespace().map(Into::into).collect();
        Self {
            name: words[0].rsplit('/').next().unwrap().into(),
            words,
            is_own: false,
        }
    }

    /// The size of its program in bytes.
    pub(crate) fn size(&self) -> u64 {
        std::fs::metadata(&self.words[0]).map_or(0, |file| file.len())
    }

    /// Spawned, and nothing said yet.
    pub(crate) fn spawn(&self, variables: &[(&str, &str)]) -> Wire {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .envs(variables.iter().copied());
        Wire::spawn(&mut command)
    }

    /// With a session open.
    pub(crate) fn open(&self, variables: &[(&str, &str)]) -> Server {
        let mut wire = self.spawn(variables);
        wire.round(INITIALIZE);
        wire.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        Server { wire, last: 1 }
    }
}

/// What opens a session.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#;

/// A process that reads and writes lines.
#[derive(Debug)]
pub(crate) struct Wire {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Wire {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            stdout: BufReader::with_capacity(1 << 20, child.stdout.take().unwrap()),
            child,
        }
    }

    pub(crate) fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line).unwrap();
        assert!(read > 0, "the server is gone");
        line
    }

    pub(crate) fn round(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// A server with a session.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) wire: Wire,
    last: u64,
}

impl Server {
    /// The request for a call.
    pub(crate) fn request(&mut self, tool: &str, arguments: &Value) -> String {
        self.last += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": self.last, "method": "tools/call", "params": params })
            .to_string()
    }

    /// What a tool answers.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let request = self.request(tool, arguments);
        let answer: Value = serde_json::from_str(&self.wire.round(&request)).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap_or_else(|_| panic!("{request}: {text}"))
    }

    pub(crate) fn start(&mut self, command: &str) -> Value {
        self.call("start", &json!({ "command": command }))["id"].clone()
    }

    /// Waits until a process has ended, in a way that every server knows.
    pub(crate) fn await_end(&mut self, id: &Value) {
        while self.call("status", &json!({ "id": id }))["state"] == "running" {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.wire.pid()
    }
}

/// How long something takes, in milliseconds.
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    let done = work();
    let time = start.elapsed();
    drop(done);
    time.as_secs_f64() * 1000.0
}

/// The figure at this share of all.
pub(crate) fn share(mut figures: Vec<f64>, share: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let at = (figures.len() as f64 * share) as usize;
    figures[at.min(figures.len() - 1)]
}

pub(crate) fn median(figures: Vec<f64>) -> f64 {
    share(figures, 0.5)
}

/// A line of `/proc/PID/status` in MiB.
pub(crate) fn memory(pid: u32, what: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    kib(&status, what) / 1024.0
}

/// What only this process has in memory, in KiB.
pub(crate) fn private(pid: u32) -> f64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    kib(&rollup, "Private_Dirty") + kib(&rollup, "Private_Clean")
}

fn kib(text: &str, what: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(what));
    let words = line
        .unwrap()
        .trim_start_matches(':')
        .split_whitespace()
        .next();
    words.unwrap().parse().unwrap()
}

pub(crate) fn threads(pid: u32) -> f64 {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .count() as f64
}

/// Seconds of processor time that a process has had, as exact as the scheduler counts.
pub(crate) fn cpu(pid: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanoseconds = tasks.flatten().map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        stat.split(' ')
            .next()
            .and_then(|time| time.parse::<f64>().ok())
    });
    nanoseconds.flatten().sum::<f64>() / 1e9
}
