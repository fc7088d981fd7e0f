//! Running other programs, and where things are.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What went wrong, as one sentence for whoever ran the command.
pub type Result<T> = std::result::Result<T, String>;

/// The directory of the workspace.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Where the programs of others are installed, so that the source tree stays clean.
pub fn tools() -> PathBuf {
    root().join("target/interop")
}

/// The cargo that runs this, in the workspace.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root());
    command
}

/// Runs a program to its end. Its output is for the user; it must succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|error| does_not_start(command, &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed, {status}", name(command)))
    }
}

/// What a program writes to its stdout; it must succeed.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| does_not_start(command, &error))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("`{}` failed, {}", name(command), output.status))
    }
}

/// Whether a program can be started and then succeeds.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether the search path has a program of that name.
pub fn exists(program: &str) -> bool {
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(&file).is_file()))
}

/// `result` of a file operation, with the path that it was about.
pub fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

pub fn does_not_start(command: &Command, error: &std::io::Error) -> String {
    format!("`{}` does not start: {error}", name(command))
}

fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
