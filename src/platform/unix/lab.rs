//! What it takes to build trees of every kind, to end them in every way and to count what is left.
//! For the kill matrix of the self-test alone.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::platform::system;

/// How a process leaves the ones that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Into a process group of its own.
    Group,
    /// Into a session of its own.
    Session,
    /// It stays, and takes in the orphans of what it starts.
    Reaper,
}

/// A way to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGHUP.
    Hup,
    /// SIGSTOP.
    Stop,
    /// SIGKILL.
    Kill,
}

/// Whether this process can see everything that comes from it, wherever that moves.
pub fn can_count() -> bool {
    cfg!(target_os = "linux")
}

/// Makes this process the parent of every orphan that comes from it.
pub fn adopt_orphans() {
    system::adopt_orphans();
}

/// Everything alive that comes from this process, where that can be seen.
pub fn descendants() -> Vec<u32> {
    system::descendants()
}

/// The parent of a process, where that can be seen.
pub fn parent(pid: u32) -> Option<u32> {
    system::parent(pid)
}

/// Waits for every child that has ended; whether there are others.
pub fn reap() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Strikes a process.
pub fn strike(pid: u32, blow: Blow) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = rustix::process::kill_process(pid, signal(blow));
    }
}

/// Strikes the process group that this process leads.
pub fn strike_group(leader: u32, blow: Blow) {
    if let Some(leader) = Pid::from_raw(leader.cast_signed()) {
        let _ = rustix::process::kill_process_group(leader, signal(blow));
    }
}

/// Lets a command lead a process group of its own.
pub fn lead_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// Leaves, and becomes another program. Returns only where that cannot be.
pub fn leave(exit: Exit, words: &[OsString]) -> io::Error {
    let Some((program, args)) = words.split_first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    let mut command = Command::new(program);
    command.args(args);
    let left = match exit {
        Exit::Group => rustix::process::setpgid(None, None),
        Exit::Session => rustix::process::setsid().map(drop),
        Exit::Reaper => {
            system::adopt_orphans();
            return match command.spawn() {
                Ok(_) => {
                    while reap() {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    std::process::exit(0)
                }
                Err(error) => error,
            };
        }
    };
    match left {
        Ok(()) => command.exec(),
        Err(error) => error.into(),
    }
}

/// Again and again starts a successor in a session of its own and ends, until somebody ends it
/// in between or the time is over.
pub fn hop(until: Instant) {
    while Instant::now() < until {
        // SAFETY: this process has one thread, so what the child finds is whole.
        match unsafe { libc::fork() } {
            0 => {
                let _ = rustix::process::setsid();
            }
            -1 => {}
            // SAFETY: ends this process, and runs nothing that the successor shares.
            _ => unsafe { libc::_exit(0) },
        }
    }
}

fn signal(blow: Blow) -> Signal {
    match blow {
        Blow::Term => Signal::TERM,
        Blow::Int => Signal::INT,
        Blow::Hup => Signal::HUP,
        Blow::Stop => Signal::STOP,
        Blow::Kill => Signal::KILL,
    }
}
