//! Running other programs, with failures that name them.

use std::env;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::Result;

/// How much of what a failed program wrote is worth showing.
const TAIL_LINES: usize = 20;

/// Runs a program whose output is for the user.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| start(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed, {status}", name(command)))
    }
}

/// Runs a program whose output matters only if it fails.
pub(super) fn quietly(command: &mut Command) -> Result<()> {
    finish(command).map(drop)
}

/// Runs a program for its output.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = finish(command)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program can be started and then succeeds, given `input`.
pub(super) fn succeeds(command: &mut Command, input: &str) -> bool {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    // Taken, so that it is closed; a program that does not read it is judged by its status alone.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}

/// Whether the search path has a program of that name.
pub(super) fn exists(program: &str) -> bool {
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(&file).is_file()))
}

/// `result` of a file operation, with the path that it was about.
pub(super) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

fn finish(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| start(command, &error))?;
    if output.status.success() {
        return Ok(output);
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    Err(format!(
        "`{}` failed, {}\n{}",
        name(command),
        output.status,
        tail(&text)
    ))
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

fn start(command: &Command, error: &std::io::Error) -> String {
    format!("`{}` does not start: {error}", name(command))
}

fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
