//! The self-test that a user runs when something is wrong.
//!
//! It starts this program as a client would, takes a real process through its whole life, kills a
//! server to see that its tree goes with it, and tells what is in force and how to add the server
//! to an agent.

pub mod client;
#[cfg(unix)]
pub mod containment;
/// There, nothing can be built of shells and signals.
#[cfg(not(unix))]
#[path = "doctor/no_containment.rs"]
pub mod containment;
mod snippets;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::{self, Config, VARIABLES};
use crate::platform::{self, CONTAINMENT, Containment};
use client::{Client, PATIENCE, wait_until};

/// A process that says it is ready and then repeats what it hears.
const ECHO: &str = if cfg!(windows) {
    "echo ready& findstr /n \"^\""
} else {
    "echo ready; while read -r line; do echo \"$line\"; done"
};

/// A process that runs on, with another one in the background.
const STUBBORN: &str = if cfg!(windows) {
    "ping -n 300 127.0.0.1"
} else {
    "PATH=$PATH:/usr/bin:/bin; sleep 300 & echo $!; exec sleep 300"
};

/// Runs all checks and writes a line for each. Whether all passed.
pub fn run(out: &mut impl Write, program: &Path) -> std::io::Result<bool> {
    let containment = match CONTAINMENT {
        Containment::Exact => "every descendant of a process ends with it",
        Containment::Group => "descendants are followed as far as this system allows",
    };
    writeln!(out, "mcp-sidecar {} doctor", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "containment: {containment}\n")?;

    let mut report = Report { out, failed: false };
    let config = report.check("configuration", || {
        Config::from_env(|name| std::env::var_os(name)).map_err(|problems| {
            problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n  ")
        })
    })?;
    if let Some(config) = &config {
        life(&mut report, program)?;
        death(&mut report, program)?;
        if config.policy.is_secure() {
            refusal(&mut report, program)?;
        }
    }
    let passed = !report.failed;

    writeln!(out, "\nConfiguration in force:")?;
    for variable in &VARIABLES {
        let set = std::env::var_os(variable.name).filter(|value| !value.is_empty());
        let from = if set.is_some() { "set" } else { "default" };
        let value = set.unwrap_or_else(|| OsString::from(variable.shown_default()));
        let value = value.to_string_lossy().escape_debug().to_string();
        writeln!(
            out,
            "  {:<28} {value:<10} ({from}; {})",
            variable.name, variable.meaning
        )?;
    }
    let warnings = config::warnings(std::env::vars_os());
    for warning in warnings
        .into_iter()
        .chain(config.iter().flat_map(Config::warnings))
    {
        writeln!(out, "  warning: {warning}")?;
    }
    snippets::write(out, program)?;
    writeln!(
        out,
        "\n{}",
        if passed {
            "All checks passed."
        } else {
            "Some checks FAILED."
        }
    )?;
    Ok(passed)
}

/// One process from its start to its end.
fn life(report: &mut Report<impl Write>, program: &Path) -> std::io::Result<()> {
    let Some(mut client) = report.check("server starts", || {
        Client::start(program, usual).map_err(display)
    })?
    else {
        return Ok(());
    };
    report.check("initialize", || client.initialize())?;
    report.check("six tools", || {
        let tools = client.request("tools/list", &json!({}))?;
        match tools["tools"].as_array().map(Vec::len) {
            Some(6) => Ok(()),
            _ => Err(format!("the server lists {tools}")),
        }
    })?;
    let Some(started) = report.check("start", || {
        client.call("start", &json!({ "command": ECHO }))
    })?
    else {
        return Ok(());
    };
    let id = &started["id"];
    report.check("output arrives", || output_with(&mut client, id, "ready"))?;
    report.check("send and reply", || {
        client.call("send", &json!({ "id": id, "input": "are you there?" }))?;
        output_with(&mut client, id, "are you there?")
    })?;
    report.check("status running", || state_is(&mut client, id, "running"))?;
    report.check("stop", || {
        client.call("stop", &json!({ "id": id }))?;
        state_is(&mut client, id, "killed")?;
        gone(&started["pid"])
    })?;
    report.check("server ends with its input", || {
        client.close();
        client.exit(PATIENCE).map(drop)
    })?;
    Ok(())
}

/// A server that is killed leaves nothing behind.
fn death(report: &mut Report<impl Write>, program: &Path) -> std::io::Result<()> {
    report.check("a killed server leaves nothing behind", || {
        let mut client = Client::start(program, |command| {
            usual(command);
            command.env("SIDECAR_KILL_TIMEOUT", "500");
        })
        .map_err(display)?;
        client.initialize()?;
        let started = client.call("start", &json!({ "command": STUBBORN }))?;
        let mut pids = vec![started["pid"].clone()];
        if cfg!(unix) {
            let text = output_with(&mut client, &started["id"], "\n")?;
            pids.push(text.trim().parse::<u32>().map_err(display)?.into());
        }
        client.kill();
        pids.iter().try_for_each(gone)
    })?;
    Ok(())
}

/// A server that allows only some commands refuses others.
fn refusal(report: &mut Report<impl Write>, program: &Path) -> std::io::Result<()> {
    report.check("secure mode refuses what is not allowed", || {
        let mut client = Client::start(program, |_| ()).map_err(display)?;
        client.initialize()?;
        match client.call("start", &json!({ "command": ECHO })) {
            Err(sentence) if sentence.contains("refused") => Ok(()),
            answer => Err(format!("a command for a shell was not refused: {answer:?}")),
        }
    })?;
    Ok(())
}

/// The checks run commands of their own, which nobody has to allow.
fn unprotected(command: &mut Command) {
    for variable in &VARIABLES {
        if ["_ALLOWED_", "_BLOCKED_"]
            .iter()
            .any(|part| variable.name.contains(part))
        {
            command.env_remove(variable.name);
        }
    }
}

/// However little output a user wants to see, the checks need to see what they wait for.
fn usual(command: &mut Command) {
    unprotected(command);
    command
        .env_remove("SIDECAR_BUFFER_SIZE")
        .env_remove("SIDECAR_MAX_OUTPUT_SIZE");
}

struct Report<'a, W> {
    out: &'a mut W,
    failed: bool,
}

impl<W: Write> Report<'_, W> {
    fn check<T>(
        &mut self,
        name: &str,
        check: impl FnOnce() -> Result<T, String>,
    ) -> std::io::Result<Option<T>> {
        let start = Instant::now();
        let result = check();
        let time = format!("{:.1} ms", start.elapsed().as_secs_f64() * 1000.0);
        match result {
            Ok(value) => {
                writeln!(self.out, "ok      {name:<40} {time:>10}")?;
                Ok(Some(value))
            }
            Err(reason) => {
                self.failed = true;
                writeln!(self.out, "FAILED  {name:<40} {time:>10}\n  {reason}")?;
                Ok(None)
            }
        }
    }
}

fn output_with(client: &mut Client, id: &Value, wanted: &str) -> Result<String, String> {
    let mut last = String::new();
    wait_until(PATIENCE, || {
        let output = client.call("output", &json!({ "id": id }));
        last = output
            .as_ref()
            .map_or_else(Clone::clone, ToString::to_string);
        output.ok()?["stdout"]
            .as_str()
            .filter(|text| text.contains(wanted))
            .map(str::to_owned)
    })
    .ok_or_else(|| format!("{wanted:?} has not come in {PATIENCE:?}; there is {last}"))
}

fn state_is(client: &mut Client, id: &Value, wanted: &str) -> Result<(), String> {
    let status = client.call("status", &json!({ "id": id }))?;
    if status["state"] == wanted {
        Ok(())
    } else {
        Err(format!("{wanted} was expected: {status}"))
    }
}

fn gone(pid: &Value) -> Result<(), String> {
    let number = pid
        .as_u64()
        .and_then(|pid| u32::try_from(pid).ok())
        .ok_or("no process id")?;
    let patience = Duration::from_secs(10);
    wait_until(patience, || (!platform::is_alive(number)).then_some(()))
        .ok_or_else(|| format!("process {pid} is still alive after {patience:?}"))
}

fn display(error: impl std::fmt::Display) -> String {
    error.to_string()
}
