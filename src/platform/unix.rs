//! What Linux and macOS share: sockets that carry descriptors, signals, the client's streams.

mod channel;
pub mod lab;
mod log;
pub(super) mod pin;
mod stdio;
mod streams;

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, Signal, WaitOptions};
use tokio::signal::unix::{SignalKind, signal};

use super::{GuardEnds, Invocation, Role, WindowSize, system};
use crate::guard::protocol::{Identity, Spec};

pub(super) use channel::Channel;
use channel::send_descriptors;
pub use log::{open_log, overwrite, shared_mode};
pub use pin::locate;
pub use stdio::{Stdin, Stdout, stdin, stdout};
use streams::Streams;
pub use streams::{Input, NO_TERMINALS, Output, resize};

/// The server's end of the socket to a guard.
pub type Control = tokio::net::UnixStream;

/// The name under which a guard shows up: not the server's, so that killing all processes of
/// that name leaves the guards alive to do their work.
const GUARD_NAME: &str = "sc-guard";

/// More are never needed, and macOS refuses more.
const MOST_DESCRIPTORS: u64 = 10_240;

/// The limit of open files that the host had set; none is no limit.
static DESCRIPTORS: OnceLock<Option<u64>> = OnceLock::new();

/// Where this program's file was at the start.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Puts right what a host may have left wrong.
pub fn prepare() {
    if let Some(program) = std::env::current_exe().ok().or_else(system::started_as) {
        let _ = PROGRAM.set(program);
    }
    // An ignored SIGCHLD is inherited, and then no child can be waited for. A log that may not grow
    // is an error to deal with, not an end; what is started gets the default again.
    // SAFETY: sets dispositions and touches no memory.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    unblock_signals();
}

/// The file of this program.
pub fn program() -> io::Result<PathBuf> {
    Ok(PROGRAM.get().cloned().ok_or(io::ErrorKind::NotFound)?)
}

/// Which role this process was started for.
pub fn role() -> Role {
    match std::env::args_os().next() {
        Some(name) if name == GUARD_NAME => Role::Guard,
        _ => Role::Server,
    }
}

/// Text of the system as bytes.
pub fn os_to_bytes(text: &OsStr) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// Text of the system from bytes.
pub fn os_from_bytes(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

/// Whether a process of this id exists; one that nobody has waited for yet does.
pub fn is_alive(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed());
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Whether a directory can be made the working directory.
pub fn can_enter(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(directory, rustix::fs::Access::EXEC_OK)?)
}

/// Where a process runs that is to run there: absolute and without links, which may change.
pub fn directory(path: &Path) -> PathBuf {
    std::fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.into())
}

/// Whether a path is a file that this user may run.
pub fn is_executable(path: &Path) -> io::Result<bool> {
    let is_file = std::fs::metadata(path)?.is_file();
    Ok(is_file && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok())
}

/// Which file or directory is at a path now.
pub fn identity(path: &Path) -> io::Result<Option<Identity>> {
    let found = std::fs::metadata(path)?;
    Ok(Some(Identity {
        device: found.dev(),
        inode: found.ino(),
    }))
}

/// How a command string is run: by the system's shell, whatever `PATH` says.
pub fn shell(command: &str) -> Invocation {
    Invocation {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), command.into()],
        verbatim: false,
    }
}

/// What to do about an error that says that something has run out.
pub fn shortage(error: &io::Error) -> Option<&'static str> {
    Some(match error.raw_os_error()? {
        libc::EMFILE | libc::ENFILE => {
            "too many files are open: stop a process, or raise the limit (ulimit -n) and restart the server"
        }
        libc::EAGAIN => {
            "too many processes are running: end some, or raise the limit (ulimit -u, or that of the container)"
        }
        libc::ENOMEM => "there is no memory for another process: end some first",
        _ => return None,
    })
}

/// Lets the server have all the descriptors that it may have: each process takes four. Leaders
/// get the limit that the host had set, since some programs cannot stand a high one.
pub fn allow_many_processes() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let _ = DESCRIPTORS.set(limit.current);
    let raised = Rlimit {
        current: limit
            .maximum
            .or(Some(MOST_DESCRIPTORS))
            .min(Some(MOST_DESCRIPTORS)),
        ..limit
    };
    if limit
        .current
        .is_some_and(|current| Some(current) < raised.current)
    {
        let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    }
}

/// Starts a guard for a leader with three pipes or with a terminal of this size. `id` and `command`
/// are only what people see in a list of processes.
pub fn start_guard(id: &str, command: &str, terminal: Option<WindowSize>) -> io::Result<GuardEnds> {
    static CLEAN: AtomicBool = AtomicBool::new(false);
    if !CLEAN.load(Ordering::Relaxed) {
        CLEAN.store(system::sweep(), Ordering::Relaxed);
    }
    let (ours, theirs) = UnixStream::pair()?;
    let streams = match terminal {
        None => Streams::pipes()?,
        Some(size) => Streams::terminal(size)?,
    };
    let program = match system::own_program() {
        Some(program) => PathBuf::from(program),
        None => self::program()?,
    };
    let guard = Command::new(program)
        .arg0(GUARD_NAME)
        .args([id, command])
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    remember_guard(guard.id());
    let sent = send_descriptors(
        &ours,
        &streams.for_guard(),
        DESCRIPTORS.get().copied().flatten(),
    );
    // A guard that is gone already is missed when it says nothing.
    sent.or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(()),
        _ => Err(error),
    })?;
    ours.set_nonblocking(true)?;
    Ok(GuardEnds {
        control: Control::from_std(ours)?,
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        guard: guard.id(),
    })
}

/// Reaps guards and whatever else comes to the server, and wakes a guard that somebody has
/// stopped: it could not do its work. Never completes.
pub async fn look_after_children() {
    system::adopt_orphans();
    let Ok(mut changed) = signal(SignalKind::child()) else {
        return std::future::pending().await;
    };
    loop {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((pid, status))) = rustix::process::wait(options) {
            let id = pid.as_raw_pid().cast_unsigned();
            if !status.stopped() {
                lock_guards().retain(|guard| *guard != id);
            } else if lock_guards().contains(&id) {
                let _ = rustix::process::kill_process(pid, Signal::CONT);
            }
        }
        changed.recv().await;
    }
}

/// Guards of this server that have not been reaped. Everything else that is a child of the server
/// was left behind by a guard that somebody killed.
#[cfg(target_os = "linux")]
pub(super) fn guards() -> Vec<u32> {
    lock_guards().clone()
}

/// Completes when the server is asked to end, with the signal's name.
pub async fn shutdown_signal() -> &'static str {
    let wait = async |kind: SignalKind| match signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => "SIGTERM",
        () = wait(SignalKind::interrupt()) => "SIGINT",
        () = wait(SignalKind::hangup()) => "SIGHUP",
    }
}

/// Reads, for as long as the tree writes, what a server that is gone reads no longer. A thread
/// of its own does nothing else, and keeps the guard from nothing.
pub(super) fn drain(readers: [OwnedFd; 2]) {
    let readers = Arc::new(readers);
    let kept = readers.clone();
    let thread = std::thread::Builder::new().spawn(move || {
        let mut readers: Vec<_> = readers.iter().collect();
        let mut discarded = [0; 4096];
        while !readers.is_empty() {
            let mut fds: Vec<_> = readers
                .iter()
                .map(|fd| PollFd::new(*fd, PollFlags::IN))
                .collect();
            if poll(&mut fds, None).is_err() {
                continue;
            }
            let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let mut ready = ready.into_iter();
            readers.retain(|fd| {
                !ready.next().unwrap_or(false)
                    || matches!(
                        rustix::io::read(fd, &mut discarded),
                        Ok(1..) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
                    )
            });
        }
    });
    if thread.is_err() {
        // Where there is no thread to be had, an open pipe that fills up is better than none.
        std::mem::forget(kept);
    }
}

/// The leader's command, without what differs between systems.
pub(super) fn command(spec: &Spec, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Command {
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    if let Some(argv0) = &spec.argv0 {
        command.arg0(argv0);
    }
    if let Some(cwd) = &spec.cwd
        && pin::of(spec, cwd).is_none()
    {
        command.current_dir(cwd);
    }
    for (key, value) in &spec.env {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

/// Makes the terminal that a leader has been given as its streams the one that controls its session,
/// which must be new. May be called between fork and exec.
pub(super) fn take_terminal() -> io::Result<()> {
    Ok(rustix::process::ioctl_tiocsctty(standard(0))?)
}

/// Gives a leader the limit of descriptors that its host had set. May be called between fork and
/// exec.
pub(super) fn limit_descriptors(descriptors: Option<u64>) {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: descriptors,
        ..limit
    };
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

/// Gives every signal its default disposition: what a host ignores, a leader must not.
pub(super) fn reset_signals() {
    for number in 1..=64 {
        system::reset_signal(number);
    }
}

/// Blocks no signal. May be called between fork and exec.
pub(super) fn unblock_signals() {
    // SAFETY: the set is initialised before it is read; a null old set is allowed.
    unsafe {
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Keeps descriptors that a host leaked into the server away from everything a guard starts.
pub(super) fn close_inherited() {
    if system::close_on_exec_from(3) {
        return;
    }
    for folder in ["/proc/self/fd", "/dev/fd"] {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        let open: Vec<i32> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|fd| *fd > 2)
            .collect();
        for fd in open {
            // SAFETY: a guard has opened nothing yet, so no owner of this descriptor exists here;
            // the call only sets a flag.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        return;
    }
}

fn remember_guard(pid: u32) {
    lock_guards().push(pid);
}

fn lock_guards() -> MutexGuard<'static, Vec<u32>> {
    static GUARDS: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor of this process by its number, for as long as the process lives.
pub(super) fn standard(number: i32) -> BorrowedFd<'static> {
    // SAFETY: std opens 0, 1 and 2 before main where a host has left them closed, and nothing in
    // this program closes them.
    unsafe { BorrowedFd::borrow_raw(number) }
}
