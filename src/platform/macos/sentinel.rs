//! A descriptor that every process of a tree inherits, by which it is known.
//!
//! The system tells no one about a process that forks and is gone before anybody looks, and then
//! the child's origin is unknown. But a fork copies descriptors, number and all. So the guard
//! holds one end of a pipe of its own at a fixed number, lets the leader inherit it, and later
//! asks of any process whether that number is that pipe. Whoever closes all descriptors or is
//! started by a program that does (Node and Python do) is not known by it.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::table::size_of_c;

/// High enough to be nobody's own, low enough for the usual limit of 256.
const NUMBER: c_int = 219;

/// `PROC_PIDFDPIPEINFO`.
const PIPE_INFO: c_int = 6;

/// `struct pipe_fdinfo`.
#[repr(C)]
struct PipeInfo {
    open_flags: u32,
    status: u32,
    offset: i64,
    kind: i32,
    guard_flags: u32,
    stat: [u64; 17],
    handle: u64,
    peer: u64,
    pipe_status: c_int,
    reserved: c_int,
}

const _: () = assert!(size_of::<PipeInfo>() == 184);

/// The guard's own end. As long as it is open, the system gives its handle to no other pipe.
#[derive(Debug)]
pub(super) struct Sentinel {
    _end: OwnedFd,
    handle: u64,
}

impl Sentinel {
    /// Takes the number, also from a descriptor that a host has leaked: so only a guard that has
    /// opened nothing at that number may call it.
    pub(super) fn new() -> io::Result<Self> {
        let (_, end) = io::pipe()?;
        if end.as_raw_fd() == NUMBER {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // SAFETY: changes descriptors and no memory; nothing in this program owns that number.
        if unsafe { libc::dup2(end.as_raw_fd(), NUMBER) } != NUMBER {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `dup2` has just opened it, and nothing else owns it.
        let end = unsafe { OwnedFd::from_raw_fd(NUMBER) };
        rustix::io::fcntl_setfd(&end, rustix::io::FdFlags::CLOEXEC)?;
        let own = rustix::process::getpid().as_raw_pid();
        let handle = pipe_at_number(own).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { _end: end, handle })
    }

    /// Whether this process has inherited it.
    pub(super) fn is_held_by(&self, pid: i32) -> bool {
        pipe_at_number(pid) == Some(self.handle)
    }
}

/// Lets the program that is about to be executed inherit it. For use between fork and exec.
pub(super) fn pass_on() {
    // SAFETY: changes a flag of a descriptor, no memory; where it is not open it changes nothing.
    unsafe { libc::fcntl(NUMBER, libc::F_SETFD, 0) };
}

fn pipe_at_number(pid: i32) -> Option<u64> {
    let mut info = std::mem::MaybeUninit::<PipeInfo>::zeroed();
    let size = size_of_c(&info);
    // SAFETY: the buffer is as large as said.
    let written =
        unsafe { libc::proc_pidfdinfo(pid, NUMBER, PIPE_INFO, info.as_mut_ptr().cast(), size) };
    // SAFETY: zeroed at first, and any bytes are a valid value of its type.
    let info = unsafe { info.assume_init() };
    (written == size).then_some(info.handle)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_who_inherits_it_holds_it() {
        let sentinel = Sentinel::new().unwrap();
        assert!(sentinel.is_held_by(std::process::id().cast_signed()));
        let mut other = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        let mut heir = Command::new("/bin/sleep");
        // SAFETY: the closure makes one system call that is safe between fork and exec.
        unsafe {
            heir.arg("600").pre_exec(|| {
                pass_on();
                Ok(())
            });
        }
        let mut heir = heir.spawn().unwrap();
        assert!(!sentinel.is_held_by(other.id().cast_signed()));
        assert!(sentinel.is_held_by(heir.id().cast_signed()));
        for child in [&mut other, &mut heir] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
