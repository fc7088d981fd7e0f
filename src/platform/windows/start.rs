//! Starting a guard, with a pipe for each of its four ends.
//!
//! Windows' anonymous pipes cannot be waited for, so these have names that nobody uses: the
//! server opens the other end itself, in the next line, and the only instance is taken.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::os::windows::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OVERLAPPED;
use windows_sys::Win32::System::Threading::CREATE_NO_WINDOW;

use super::{GUARD_WORD, handle, program};
use crate::platform::{GuardEnds, WindowSize};

/// The server's end of the pipe to a guard.
pub type Control = NamedPipeServer;
/// Where a leader reads.
pub type Input = NamedPipeServer;
/// What a tree writes.
pub type Output = NamedPipeServer;

/// How much of the command people see. A command line has an end, and the guard's must not reach
/// it before the leader's does.
const SHOWN: usize = 256;

/// Held while a handle is there for a guard to inherit: whatever is started in that moment
/// inherits it, and another guard would keep the pipe open.
static STARTING: Mutex<()> = Mutex::new(());

/// Why a leader cannot have a terminal here.
pub const NO_TERMINALS: Option<&str> =
    Some("a terminal (pty) is not available on Windows yet: start it without pty");

/// There is no terminal to resize.
pub fn resize(_: &Input, _: WindowSize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Starts a guard. `id` and `command` are only what people see in a list of processes.
pub fn start_guard(id: &str, command: &str, terminal: Option<WindowSize>) -> io::Result<GuardEnds> {
    if terminal.is_some() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (control, theirs) = pipe(Way::Both)?;
    let (stdin, leader_in) = pipe(Way::ToGuard)?;
    let (stdout, leader_out) = pipe(Way::FromGuard)?;
    let (stderr, leader_err) = pipe(Way::FromGuard)?;
    let program = program()?;
    let shown: String = command.chars().take(SHOWN).collect();
    // The pipe's handle is inherited, by its number. A name would have to be opened by the guard:
    // that is a moment in which others can be faster, and a guard that never gets so far would
    // leave the server waiting. Like this, the end of the guard is the end of the pipe.
    let number = (theirs.as_raw_handle() as usize).to_string();
    let mut guard = Command::new(program);
    guard
        .args([GUARD_WORD, id, &number, &shown])
        .stdin(leader_in)
        .stdout(leader_out)
        .stderr(leader_err)
        // A console of its own, without a window: see `Host::ask`. It needs no process group for
        // that, and a new group would be deaf to Ctrl-C.
        .creation_flags(CREATE_NO_WINDOW);
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    handle::set_inheritable(theirs.as_handle(), true)?;
    let started = guard.spawn();
    drop(theirs);
    drop(starting);
    let guard = started?.id();
    Ok(GuardEnds {
        control,
        stdin,
        stdout,
        stderr: Some(stderr),
        guard,
    })
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Both,
    ToGuard,
    FromGuard,
}

/// A pipe: the server's end on tokio, and the other one.
pub(super) fn pipe(way: Way) -> io::Result<(NamedPipeServer, File)> {
    let name = fresh_name();
    let ours = ServerOptions::new()
        .access_inbound(way != Way::ToGuard)
        .access_outbound(way != Way::FromGuard)
        .first_pipe_instance(true)
        .max_instances(1)
        .reject_remote_clients(true)
        .create(&name)?;
    let mut options = OpenOptions::new();
    options
        .read(way != Way::FromGuard)
        .write(way != Way::ToGuard)
        .share_mode(0);
    if way == Way::Both {
        // A guard waits for this one together with other things. The leader's are what programs
        // expect of standard streams: they block.
        options.custom_flags(FILE_FLAG_OVERLAPPED);
    }
    let theirs = options.open(&name)?;
    // The other end is there, so this only tells tokio about it, at once.
    match std::pin::pin!(ours.connect()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(connected) => connected?,
        Poll::Pending => return Err(io::ErrorKind::NotConnected.into()),
    }
    Ok((ours, theirs))
}

fn fresh_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Hashed with a key that the system has drawn for this process.
    let random = RandomState::new().hash_one(count);
    format!(
        r"\\.\pipe\mcp-sidecar.{}.{count}.{random:016x}",
        std::process::id()
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Runs a test that has its pipes from this runtime.
    pub(in super::super) fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(async {
                tokio::time::timeout(Duration::from_mins(1), test)
                    .await
                    .unwrap()
            })
    }

    #[test]
    fn what_was_written_can_be_read_after_the_writer_is_gone() {
        run(async {
            let (mut ours, mut theirs) = pipe(Way::FromGuard).unwrap();
            theirs.write_all(b"last words").unwrap();
            drop(theirs);
            let mut text = Vec::new();
            ours.read_to_end(&mut text).await.unwrap();
            assert_eq!(text, b"last words");
        });
    }

    #[test]
    fn a_reader_gets_everything_and_then_the_end() {
        run(async {
            let (mut ours, mut theirs) = pipe(Way::ToGuard).unwrap();
            let reader = std::thread::spawn(move || {
                let mut text = Vec::new();
                theirs.read_to_end(&mut text).map(|_| text)
            });
            // More than the pipe holds, so that a part is under way when our end goes.
            let sent = vec![b'x'; 300_000];
            ours.write_all(&sent).await.unwrap();
            drop(ours);
            let received = tokio::task::spawn_blocking(|| reader.join().unwrap())
                .await
                .unwrap();
            assert!(received.unwrap() == sent);
        });
    }

    #[test]
    fn nobody_else_gets_a_pipe_that_is_taken() {
        run(async {
            let name = fresh_name();
            let _first = ServerOptions::new()
                .first_pipe_instance(true)
                .max_instances(1)
                .create(&name)
                .unwrap();
            let _theirs = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&name)
                .unwrap();
            assert!(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(&name)
                    .is_err()
            );
            assert!(ServerOptions::new().create(&name).is_err());
            assert_ne!(fresh_name(), name);
        });
    }
}
