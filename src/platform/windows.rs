//! Windows: a job that ends with its guard, and a hidden console that carries Ctrl-C to a tree.
//!
//! A guard puts itself into a job before it starts a leader, so that every process of the tree is
//! born inside. Nothing may leave the job, and only the guard holds it: when the guard ends, for
//! whatever reason, the kernel ends everything in the job.
//!
//! A guard has a console of its own, without a window. A Ctrl-C that it sends there reaches its
//! tree and nobody else, which is the only way to ask a console program to end.

mod channel;
mod handle;
mod host;
mod log;
mod start;
mod stdio;
mod tree;
mod walk;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::io::AsHandle;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_logoff, ctrl_shutdown};

use windows_sys::Win32::Foundation::{
    ERROR_COMMITMENT_LIMIT, ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY,
};

use super::{Containment, Invocation, Role};
use crate::guard::protocol::Identity;

pub use super::untold::{Listeners, listens, port_owner, ports, tree_size, usage};
pub use host::Host;
pub use log::{open_log, overwrite, shared_mode};
pub use start::{Control, Input, NO_TERMINALS, Output, resize, start_guard};
pub use stdio::{Stdin, Stdout, stdin, stdout};

/// What this system can promise.
pub const CONTAINMENT: Containment = Containment::Exact;

/// Why a tree is not contained exactly.
pub const INEXACT: &str = "this server's own host forbids job objects, so only what can be found by following parents is ended";

/// The first argument of a guard. What follows: an id, the number of the pipe's handle, and the
/// command for people to read.
const GUARD_WORD: &str = "guard";

/// Where this program's file was at the start.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Puts right what a host may have left wrong.
pub fn prepare() {
    if let Ok(program) = std::env::current_exe() {
        let _ = PROGRAM.set(program);
    }
    // A handle that can be inherited goes to everything that is started from here on, and would
    // keep the client's pipes open for as long as any of that lives.
    for stream in handle::STANDARD {
        if let Some(stream) = handle::standard(stream) {
            let _ = handle::set_inheritable(stream, false);
        }
    }
}

/// The file of this program.
pub fn program() -> io::Result<PathBuf> {
    match PROGRAM.get() {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe(),
    }
}

/// Which role this process was started for.
pub fn role() -> Role {
    match control_handle(std::env::args_os().skip(1)) {
        Some(_) => Role::Guard,
        None => Role::Server,
    }
}

/// Text of the system as bytes.
pub fn os_to_bytes(text: &OsStr) -> Vec<u8> {
    text.encode_wide().flat_map(u16::to_le_bytes).collect()
}

/// Text of the system from bytes.
pub fn os_from_bytes(bytes: &[u8]) -> OsString {
    let (units, _) = bytes.as_chunks::<2>();
    let units: Vec<u16> = units.iter().copied().map(u16::from_le_bytes).collect();
    OsString::from_wide(&units)
}

/// Whether a process of this id exists.
pub fn is_alive(pid: u32) -> bool {
    handle::open_process(pid).is_ok_and(|process| !handle::has_ended(process.as_handle()))
}

/// Whether a directory can be made the working directory: known only when it is tried.
pub fn can_enter(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Where a process runs that is to run there: absolute, in the form that people write.
pub fn directory(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// Whether a path is a file. What may be run is known only when it is tried.
pub fn is_executable(path: &Path) -> std::io::Result<bool> {
    Ok(std::fs::metadata(path)?.is_file())
}

/// Here no number stays with a file for sure, so none is given.
pub fn identity(path: &Path) -> std::io::Result<Option<Identity>> {
    std::fs::metadata(path).map(|_| None)
}

/// Where a directory is, without links. Which one it is, is not told here.
pub fn locate(path: &Path) -> std::io::Result<(PathBuf, Option<Identity>)> {
    std::fs::canonicalize(path).map(|place| (place, None))
}

/// How a command string is run: by the system's shell, whatever `PATH` says.
pub fn shell(command: &str) -> Invocation {
    let program = match std::env::var_os("ComSpec").map(PathBuf::from) {
        Some(program) if program.is_absolute() => program,
        _ => {
            let root = std::env::var_os("SystemRoot").unwrap_or_else(|| r"C:\Windows".into());
            PathBuf::from(root).join(r"System32\cmd.exe")
        }
    };
    // With `/s` cmd takes off the outer quotes, exactly these two, and reads the rest as typed.
    let command = format!("\"{command}\"");
    Invocation {
        program: program.into(),
        args: vec!["/d".into(), "/s".into(), "/C".into(), command.into()],
        verbatim: true,
    }
}

/// Completes when the server is asked to end, with the event's name.
pub async fn shutdown_signal() -> &'static str {
    // Each of the five has a type of its own.
    macro_rules! came {
        ($listen:path) => {
            async {
                match $listen() {
                    Ok(mut event) => drop(event.recv().await),
                    Err(_) => std::future::pending().await,
                }
            }
        };
    }
    tokio::select! {
        () = came!(ctrl_c) => "Ctrl-C",
        () = came!(ctrl_break) => "Ctrl-Break",
        () = came!(ctrl_close) => "console closed",
        () = came!(ctrl_logoff) => "logoff",
        () = came!(ctrl_shutdown) => "system shutdown",
    }
}

/// Never completes: here nobody has to wait for a process so that it can go.
pub async fn look_after_children() {
    std::future::pending::<()>().await;
}

/// What holds a guard is not seen here.
pub fn end_held_guard(_: u32) -> bool {
    false
}

/// Ends nothing: what a killed guard leaves behind has ended with its job.
pub async fn end_strays(_: u32, _: impl FnMut(u32)) -> usize {
    0
}

/// A host that dies closes its end, and nothing else is known of it here.
pub async fn host_gone(_: impl Future<Output = ()>) {
    std::future::pending::<()>().await;
}

/// Handles are as many as memory allows.
pub fn allow_many_processes() {}

/// What to do about an error that says that something has run out.
pub fn shortage(error: &std::io::Error) -> Option<&'static str> {
    let code = error.raw_os_error()?.cast_unsigned();
    matches!(
        code,
        ERROR_NOT_ENOUGH_MEMORY
            | ERROR_OUTOFMEMORY
            | ERROR_NO_SYSTEM_RESOURCES
            | ERROR_COMMITMENT_LIMIT
    )
    .then_some("the system has no memory for another process: end some first")
}

/// The number of the control pipe's handle, if these are the arguments of a guard.
fn control_handle(args: impl Iterator<Item = OsString>) -> Option<usize> {
    let args: Vec<OsString> = args.collect();
    match args.as_slice() {
        [word, _, handle, _] if word == GUARD_WORD => handle.to_str()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::windows::process::CommandExt;
    use std::process::Command;

    fn args(words: &[&str]) -> impl Iterator<Item = OsString> {
        words
            .iter()
            .map(OsString::from)
            .collect::<Vec<_>>()
            .into_iter()
    }

    #[test]
    fn only_the_whole_shape_is_a_guard() {
        assert_eq!(
            control_handle(args(&["guard", "a", "84", "npm run dev"])),
            Some(84)
        );
        for words in [
            &["guard"][..],
            &["guard", "a", "x", "npm"],
            &["guard", "a", "84"],
            &["guard", "a", "84", "b", "c"],
            &["serve", "a", "84", "b"],
        ] {
            assert_eq!(control_handle(args(words)), None, "{words:?}");
        }
    }

    #[test]
    fn text_survives_even_where_it_is_no_unicode() {
        let lone_surrogate = OsString::from_wide(&[0x41, 0xd800, 0x42]);
        for text in ["".into(), "C:\\Größe ☃ 🦀".into(), lone_surrogate] {
            assert_eq!(os_from_bytes(&os_to_bytes(&text)), text);
        }
    }

    #[test]
    fn the_shell_gets_a_command_as_it_was_typed() {
        let run = shell(r#"echo "a b" & exit 3"#);
        let (last, first) = run.args.split_last().unwrap();
        assert!(run.verbatim);
        let output = Command::new(run.program)
            .args(first)
            .raw_arg(last)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), r#""a b""#);
        assert_eq!(output.status.code(), Some(3));
    }
}
