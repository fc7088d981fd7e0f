//! A sidecar to test, and ways to wait for what it does. Nothing here sleeps and hopes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mcp_sidecar::doctor::client::{Client, PATIENCE, document, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// In the environment of everything that a test's server starts.
const MARK: &str = "MCP_SIDECAR_TEST_MARK";

/// A server in a directory of its own, with a session open.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) client: Client,
    pub(crate) dir: TempDir,
    mark: String,
}

impl Sidecar {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With these variables set.
    #[track_caller]
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        let mut sidecar = Self::silent(variables);
        sidecar.client.initialize().unwrap();
        sidecar
    }

    /// Without a handshake.
    #[track_caller]
    pub(crate) fn silent(variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().display().to_string();
        let client = Client::start(program(), |command| {
            clean(command).current_dir(dir.path()).env(MARK, &mark);
            command.envs(variables.iter().copied());
        })
        .unwrap();
        Self { client, dir, mark }
    }

    /// What a tool answers; it must not fail.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        match self.client.call(tool, &arguments) {
            Ok(document) => document,
            Err(sentence) => panic!("{tool} {arguments}: {sentence}"),
        }
    }

    /// The sentence with which a tool fails; it must fail.
    #[track_caller]
    pub(crate) fn fail(&mut self, tool: &str, arguments: Value) -> String {
        match self.client.call(tool, &arguments) {
            Ok(document) => panic!("{tool} {arguments}: {document}"),
            Err(sentence) => sentence,
        }
    }

    /// Calls without waiting; [`Self::answer`] waits for it.
    #[track_caller]
    pub(crate) fn ask(&mut self, tool: &str, arguments: &Value) -> Value {
        self.client
            .ask(
                "tools/call",
                &json!({ "name": tool, "arguments": arguments }),
            )
            .unwrap()
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, asked: &Value) -> Result<Value, String> {
        document(&self.client.hear(asked, PATIENCE).unwrap())
    }

    /// The document in a result.
    #[track_caller]
    pub(crate) fn answer_of(result: &Value) -> Value {
        document(result).unwrap()
    }

    /// Starts a command and answers its id.
    #[track_caller]
    pub(crate) fn start(&mut self, command: &str) -> String {
        let started = self.call("start", json!({ "command": command }));
        started["id"].as_str().unwrap().to_owned()
    }

    /// A server with a process that will have to be killed, after so many milliseconds.
    #[track_caller]
    pub(crate) fn stubborn(grace: &str) -> (Self, String) {
        let mut sidecar = Self::with(&[("SIDECAR_KILL_TIMEOUT", grace)]);
        let id = sidecar.start("trap '' TERM; echo armed; while :; do sleep 0.05; done");
        sidecar.output_with(&id, "armed");
        (sidecar, id)
    }

    /// The most memory that the server has used, in KiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.client.pid());
        let status = std::fs::read_to_string(status).unwrap();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits until a process has written this to standard output.
    #[track_caller]
    pub(crate) fn output_with(&mut self, id: &str, wanted: &str) -> String {
        self.output_when(id, wanted, |output| {
            output["stdout"].as_str().unwrap().contains(wanted)
        })["stdout"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Waits until the output is like that.
    #[track_caller]
    pub(crate) fn output_when(
        &mut self,
        id: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        wait_until(PATIENCE, || {
            last = self.call("output", json!({ "id": id }));
            wanted(&last).then(|| last.clone())
        })
        .unwrap_or_else(|| panic!("{what:?} has not come: {last}"))
    }

    /// Waits until a process is in this state.
    #[track_caller]
    pub(crate) fn state(&mut self, id: &str, wanted: &str) -> Value {
        let mut last = Value::Null;
        wait_until(PATIENCE, || {
            last = self.call("status", json!({ "id": id }));
            (last["state"] == wanted).then(|| last.clone())
        })
        .unwrap_or_else(|| panic!("{wanted} was expected: {last}"))
    }

    /// Everything alive that this server started, guards included.
    pub(crate) fn marked(&self) -> BTreeSet<u32> {
        marked(&self.mark, self.client.pid())
    }

    /// The same without guards, which end a moment after their trees.
    pub(crate) fn trees(&self) -> BTreeSet<u32> {
        let mut marked = self.marked();
        marked.retain(|pid| !describe(*pid).contains("sc-guard"));
        marked
    }

    /// The process id of the guard of a process whose leader lives.
    #[cfg(target_os = "linux")]
    pub(crate) fn guard_of(&mut self, id: &str) -> String {
        let leader = &self.call("status", json!({ "id": id }))["pid"];
        let stat = std::fs::read_to_string(format!("/proc/{leader}/stat")).unwrap();
        let fields = stat.rsplit(") ").next().unwrap();
        fields.split(' ').nth(1).unwrap().to_owned()
    }

    /// Waits until nothing that this server started is left.
    #[track_caller]
    pub(crate) fn nothing_left(&self) {
        let patience = Duration::from_secs(15);
        let empty = wait_until(patience, || self.marked().is_empty().then_some(()));
        let left: Vec<_> = self.marked().into_iter().map(describe).collect();
        assert!(empty.is_some(), "left behind: {left:?}");
    }
}

/// The program under test.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mcp-sidecar"))
}

/// Without what the caller's own configuration would change.
pub(crate) fn clean(command: &mut Command) -> &mut Command {
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("SIDECAR_") {
            command.env_remove(key);
        }
    }
    command
}

/// Where `cargo xtask setup` has put the tools that tests need.
#[track_caller]
pub(crate) fn tools() -> PathBuf {
    std::env::var_os("MCP_SIDECAR_TOOLS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop"),
        PathBuf::from,
    )
}

#[cfg(target_os = "linux")]
fn marked(mark: &str, server: u32) -> BTreeSet<u32> {
    let needle = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != server)
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ
                .split(|byte| *byte == 0)
                .any(|variable| variable == needle.as_bytes())
        })
        .collect()
}

#[cfg(target_os = "linux")]
fn describe(pid: u32) -> String {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!(
        "{pid} {}",
        String::from_utf8_lossy(&command).replace('\0', " ")
    )
}

/// The environment of another process can only be read on Linux; elsewhere tests that count what
/// is left look for the ids that they know.
#[cfg(not(target_os = "linux"))]
fn marked(_: &str, _: u32) -> BTreeSet<u32> {
    BTreeSet::new()
}

#[cfg(not(target_os = "linux"))]
fn describe(pid: u32) -> String {
    pid.to_string()
}
