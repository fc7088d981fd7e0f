//! `cargo xtask interop`: the release build and the clients of other makers.
//!
//! Each script of `tests/interop` writes one line for each check, `ok ...` or `FAILED ...`. They
//! run as copies in `target/interop`, where the packages are that they import.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::ci::server;
use crate::run::{Result, at, does_not_start, root, tools};
use crate::setup::{node, python};

const SCRIPTS: [&str; 6] = [
    "python_sdk.py",
    "typescript_v1.mjs",
    "typescript_v2.mjs",
    "inspector.mjs",
    "conformance.mjs",
    "tokens.mjs",
];

/// A script that takes longer hangs.
const TIME_LIMIT: Duration = Duration::from_mins(2);

/// Checks that held, and that did not.
#[derive(Debug, Default)]
struct Count {
    passed: usize,
    failed: usize,
}

impl Count {
    /// Shows one line that a script wrote.
    fn line(&mut self, line: &str) {
        println!("{line}");
        self.passed += usize::from(line.starts_with("ok "));
        self.failed += usize::from(line.starts_with("FAILED "));
    }
}

/// `cargo xtask interop`
pub fn main() -> Result<()> {
    if cfg!(windows) {
        println!("not run: the commands in these tests are for a Unix shell");
        return Ok(());
    }
    let server = server();
    if !server.is_file() {
        return Err("there is no release build; run `cargo build --release` first".into());
    }
    if !python().is_file() || !tools().join("node_modules").is_dir() {
        return Err("the clients are not installed; run `cargo xtask setup` first".into());
    }
    copy_scripts()?;
    let mut count = Count::default();
    for script in SCRIPTS {
        run_script(script, &server, &mut count)?;
    }
    println!("{} passed, {} failed", count.passed, count.failed);
    if count.failed == 0 {
        Ok(())
    } else {
        Err("the lines that begin with FAILED say what does not hold".into())
    }
}

fn copy_scripts() -> Result<()> {
    let source = root().join("tests/interop");
    for entry in at(&source, fs::read_dir(&source))?.flatten() {
        let to = tools().join(entry.file_name());
        at(&to, fs::copy(entry.path(), &to))?;
    }
    Ok(())
}

fn run_script(script: &str, server: &Path, count: &mut Count) -> Result<()> {
    let is_python = Path::new(script)
        .extension()
        .is_some_and(|extension| extension == "py");
    let interpreter: PathBuf = if is_python { python() } else { node() };
    let mut command = Command::new(interpreter);
    command
        .arg(script)
        .arg(server)
        .arg(root())
        .current_dir(tools())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        // The caller's own settings of the server are not what is tested.
        if name.to_string_lossy().starts_with("SIDECAR_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .spawn()
        .map_err(|error| does_not_start(&command, &error))?;
    let lines = lines(&mut child);
    let failed = count.failed;
    let problem = match follow(&mut child, &lines, count) {
        Ok(status) if status.success() => None,
        // It has said already what does not hold.
        Ok(_) if count.failed > failed => None,
        Ok(status) => Some(format!("ended unexpectedly, {status}")),
        Err(problem) => Some(problem),
    };
    if let Some(problem) = problem {
        count.line(&format!("FAILED {script}: {problem}"));
    }
    Ok(())
}

/// What a program writes, line by line.
fn lines(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        // Never joined: somebody else may hold the pipe for longer than the program lives.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout)
                .lines()
                .map_while(std::result::Result::ok)
            {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    receiver
}

/// Counts what a script writes until it has ended. The servers it has started end with it.
fn follow(child: &mut Child, lines: &Receiver<String>, count: &mut Count) -> Result<ExitStatus> {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => count.line(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not end within {} s", TIME_LIMIT.as_secs()));
            }
        }
    }
    child.wait().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_there() {
        for script in SCRIPTS {
            assert!(
                root().join("tests/interop").join(script).is_file(),
                "{script}"
            );
        }
    }

    #[test]
    fn only_verdicts_are_counted() {
        let mut count = Count::default();
        for line in ["ok a", "FAILED b: why", "okay", "  ok c", "FAILED"] {
            count.line(line);
        }
        assert_eq!((count.passed, count.failed), (1, 1));
    }
}
