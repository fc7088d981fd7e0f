//! Everything that an operating system must provide, and the only module that may use `unsafe`.
//!
//! Each platform's file exports the same names, so that callers hold no `cfg`. Where systems
//! differ in what they can do, the difference is a value ([`Containment`]), not a condition.
//!
//! For both roles:
//! - [`prepare`]: puts right what a host may have left wrong (signal state), before anything else.
//! - [`os_to_bytes`], [`os_from_bytes`]: text of the system as bytes and back, without loss.
//! - [`role`]: which of the two roles this process was started for.
//! - [`program`]: the file of this program.
//! - [`shortage`]: what to do about an error that says that something has run out.
//! - [`is_alive`]: whether a process of this id exists.
//! - [`CONTAINMENT`], [`INEXACT`]: what the end of a tree is sure to reach, and why not more.
//! - [`open_log`], [`overwrite`], [`shared_mode`], [`not_a_log`]: a file that several processes append to.
//! - [`identity`]: which file or directory is at a path now, where the system can tell.
//! - [`locate`]: where a directory is and which one it is, of one look.
//!
//! For the server (on tokio):
//! - [`allow_many_processes`]: lets the server have all the descriptors that it may have.
//! - [`start_guard`]: starts a guard and connects its socket and the three streams of a leader.
//! - [`resize`], [`NO_TERMINALS`]: another size for a leader's terminal; why it cannot have one.
//! - [`Control`], [`Input`], [`Output`]: those ends, non-blocking.
//! - [`stdin`], [`stdout`]: the client's ends, whatever they are; neither ever blocks the thread.
//! - [`shutdown_signal`]: completes when the system asks the server to end.
//! - [`look_after_children`]: reaps what ends; never completes.
//! - [`end_strays`]: ends what a guard that was killed has left to the server.
//! - [`end_held_guard`]: kills a guard that a debugger holds.
//! - [`tree_size`]: how many processes of a tree are alive.
//! - [`usage`]: what a tree takes of the machine.
//! - [`listens`], [`ports`], [`Listeners`]: where trees listen (TCP). [`port_owner`]: who else does.
//! - [`host_gone`]: completes when the host is gone although the client's end is still open.
//! - [`shell`]: how a command string is run here.
//! - [`can_enter`]: whether a directory can be made the working directory.
//! - [`is_executable`]: whether a path is a file that may be run.
//!
//! For the self-test (Linux and macOS):
//! - `lab`: trees of every kind, ways to end them, and what is left.
//!
//! For a guard (no tokio):
//! - [`directory`]: where a process runs, in full.
//! - [`Host`]: the tree of one process: spawn it, hear of it, ask it to end, end it.

#![expect(
    unsafe_code,
    reason = "the one place for calls that the compiler cannot check"
)]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
/// Its pure part, so that its tests run everywhere.
#[cfg(all(test, not(target_os = "macos")))]
#[path = "platform/macos/lineage.rs"]
mod macos_lineage;
#[cfg(unix)]
mod unix;
/// What macOS and Windows do not tell a server here.
#[cfg(not(target_os = "linux"))]
mod untold;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(windows)]
use windows as system;

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
compile_error!("mcp-sidecar supports Linux, macOS and Windows");

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use crate::guard::protocol::{Exit, FRAME};

#[cfg(unix)]
pub use unix::lab;
#[cfg(unix)]
pub use unix::{
    Control, Input, NO_TERMINALS, Output, Stdin, Stdout, allow_many_processes, can_enter,
    directory, identity, is_alive, is_executable, locate, look_after_children, open_log,
    os_from_bytes, os_to_bytes, overwrite, prepare, program, resize, role, shared_mode, shell,
    shortage, shutdown_signal, start_guard, stdin, stdout,
};
#[cfg(windows)]
pub use windows::{
    Control, Input, NO_TERMINALS, Output, Stdin, Stdout, allow_many_processes, can_enter,
    directory, identity, is_alive, is_executable, locate, look_after_children, open_log,
    os_from_bytes, os_to_bytes, overwrite, prepare, program, resize, role, shared_mode, shell,
    shortage, shutdown_signal, start_guard, stdin, stdout,
};

pub use system::{
    CONTAINMENT, Host, INEXACT, Listeners, end_held_guard, end_strays, host_gone, listens,
    port_owner, ports, tree_size, usage,
};

/// What the end of a tree is sure to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containment {
    /// Every descendant, wherever it moved.
    Exact,
    /// Every descendant that the system lets a guard follow; a fast daemon may slip away.
    Group,
}

impl Containment {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Group => "group",
        }
    }

    /// Why it is less than exact, where it is.
    pub fn shortfall(self) -> Option<&'static str> {
        (self == Self::Group).then_some(INEXACT)
    }
}

/// What a tree takes of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Time that it has had of processors, those included that have ended.
    pub processor: Duration,
    /// Bytes that its processes have in memory, each counted by itself.
    pub memory: u64,
}

/// Who listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortOwner {
    /// Nobody does.
    Nobody,
    /// Somebody does, as people would call it.
    Somebody(String),
    /// This system does not tell.
    Unknown,
}

/// How large a terminal's window is, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// Characters in a line.
    pub cols: u16,
    /// Lines.
    pub rows: u16,
}

/// What this process was started for.
#[derive(Debug, PartialEq, Eq)]
pub enum Role {
    /// The program that a user or a host started.
    Server,
    /// The keeper of one tree, started by a server.
    Guard,
}

/// The server's ends of a guard and of the process that it is to run.
#[derive(Debug)]
pub struct GuardEnds {
    /// Frames both ways; its end of file means that the other side is gone.
    pub control: Control,
    /// Where the leader reads.
    pub stdin: Input,
    /// What the tree writes.
    pub stdout: Output,
    /// What the tree writes as errors; none on a terminal, which does not tell one from the other.
    pub stderr: Option<Output>,
    /// The guard's process id.
    pub guard: u32,
}

/// A program and its arguments, ready to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program, looked up.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Whether the last argument goes onto a Windows command line as it is.
    pub verbatim: bool,
}

/// What a guard hears.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The server says something.
    Server([u8; FRAME]),
    /// The server is gone, or nothing that it says can be understood any more.
    ServerGone,
    /// The system or a user asks the guard to end.
    AskedToEnd,
    /// The leader has ended. Comes once.
    Exited(Exit),
    /// Nothing of the tree is left. Comes once, after `Exited`.
    Empty,
    /// Time has passed or the tree has changed.
    Tick,
}

/// What stands where a log should be, and must not become one. It has no number of the system's.
pub fn not_a_log() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it must be a regular file of this user; links are not followed",
    )
}
