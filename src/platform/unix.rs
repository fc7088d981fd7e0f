//! What Linux and macOS share: sockets that carry descriptors, signals, the client's streams.

mod stdio;

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Signal, WaitOptions};
use tokio::signal::unix::{SignalKind, signal};

use super::{Event, GuardEnds, Invocation, Role, system};
use crate::guard::protocol::{FRAME, Identity, Spec};

pub use stdio::{Stdin, Stdout, stdin, stdout};

/// The server's end of the socket to a guard.
pub type Control = tokio::net::UnixStream;
/// Where a leader reads.
pub type Input = tokio::net::unix::pipe::Sender;
/// What a tree writes.
pub type Output = tokio::net::unix::pipe::Receiver;

/// The name under which a guard shows up: not the server's, so that killing all processes of
/// that name leaves the guards alive to do their work.
const GUARD_NAME: &str = "sc-guard";

/// Where this program's file was at the start.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Puts right what a host may have left wrong.
pub fn prepare() {
    if let Ok(program) = std::env::current_exe() {
        let _ = PROGRAM.set(program);
    }
    // An ignored SIGCHLD is inherited, and then no child can be waited for.
    // SAFETY: sets a disposition and touches no memory.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    unblock_signals();
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

/// Starts a guard. `id` and `command` are only what people see in a list of processes.
pub fn start_guard(id: &str, command: &str) -> io::Result<GuardEnds> {
    let (ours, theirs) = UnixStream::pair()?;
    let (leader_in, stdin) = io::pipe()?;
    let (stdout, leader_out) = io::pipe()?;
    let (stderr, leader_err) = io::pipe()?;
    let program = match system::own_program() {
        Some(program) => PathBuf::from(program),
        None => PROGRAM.get().cloned().ok_or(io::ErrorKind::NotFound)?,
    };
    let guard = Command::new(program)
        .arg0(GUARD_NAME)
        .args([id, command])
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    remember_guard(guard.id());
    send_descriptors(
        &ours,
        &[
            leader_in.as_fd(),
            leader_out.as_fd(),
            leader_err.as_fd(),
            stdout.as_fd(),
            stderr.as_fd(),
        ],
    )?;
    ours.set_nonblocking(true)?;
    Ok(GuardEnds {
        control: Control::from_std(ours)?,
        stdin: Input::from_owned_fd(stdin.into())?,
        stdout: Output::from_owned_fd(stdout.into())?,
        stderr: Output::from_owned_fd(stderr.into())?,
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

/// What a guard gets of the pipes between its leader and its server.
#[derive(Debug)]
pub(super) struct Streams {
    /// The leader's three streams.
    pub(super) leader: [OwnedFd; 3],
    /// The server's ends of the two that are written. A guard holds them so that they outlive the
    /// server: without a reader, a tree that says a last word would die of it.
    pub(super) readers: [OwnedFd; 2],
}

/// Reads, for as long as the tree writes, what a server that is gone reads no longer. A thread
/// of its own does nothing else, and keeps the guard from nothing.
pub(super) fn drain(readers: [OwnedFd; 2]) {
    std::thread::spawn(move || {
        let mut readers = Vec::from(readers);
        let mut discarded = [0; 4096];
        while !readers.is_empty() {
            let mut fds: Vec<_> = readers
                .iter()
                .map(|fd| PollFd::new(fd, PollFlags::IN))
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
}

/// A guard's end of the socket.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixStream,
    frame: Vec<u8>,
}

impl Channel {
    /// A guard's standard input is the socket; it is moved away from there.
    pub(super) fn from_stdin() -> io::Result<Self> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::net::sockopt::socket_type(&socket)?;
        Ok(Self {
            socket: socket.into(),
            frame: Vec::new(),
        })
    }

    /// The streams and the body of the spec.
    pub(super) fn receive_spec(&mut self) -> io::Result<(Streams, Vec<u8>)> {
        let [stdin, stdout, stderr, out_reader, err_reader] = receive_descriptors(&self.socket)?;
        let streams = Streams {
            leader: [stdin, stdout, stderr],
            readers: [out_reader, err_reader],
        };
        let mut header = [0; 6];
        self.socket.read_exact(&mut header)?;
        let length = Spec::body_length(header).ok_or(io::ErrorKind::InvalidData)?;
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body)?;
        Ok((streams, body))
    }

    pub(super) fn tell(&self, frame: [u8; FRAME]) {
        // A server that is gone is seen by the end of file.
        let _ = (&self.socket).write_all(&frame);
    }

    /// What has come, once the socket is readable.
    pub(super) fn read_event(&mut self) -> Event {
        let mut bytes = [0; FRAME];
        let missing = FRAME - self.frame.len();
        match self.socket.read(&mut bytes[..missing]) {
            Ok(0) => Event::ServerGone,
            Ok(read) => {
                self.frame.extend_from_slice(&bytes[..read]);
                let Some(frame) = self.frame.first_chunk::<FRAME>().copied() else {
                    return Event::Tick;
                };
                self.frame.clear();
                Event::Server(frame)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Event::Tick,
            Err(_) => Event::ServerGone,
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
    if let Some(cwd) = &spec.cwd {
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

fn send_descriptors(socket: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(descriptors));
    sendmsg(
        socket,
        &[IoSlice::new(b"F")],
        &mut control,
        SendFlags::empty(),
    )?;
    Ok(())
}

fn receive_descriptors(socket: &UnixStream) -> io::Result<[OwnedFd; 5]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::empty(),
    )?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    for descriptor in &descriptors {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    descriptors
        .try_into()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A descriptor of this process by its number, for as long as the process lives.
fn standard(number: i32) -> BorrowedFd<'static> {
    // SAFETY: std opens 0, 1 and 2 before main where a host has left them closed, and nothing in
    // this program closes them.
    unsafe { BorrowedFd::borrow_raw(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::protocol::VERSION;

    #[test]
    fn a_socket_carries_descriptors_and_a_spec() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (read, mut write) = io::pipe().unwrap();
        send_descriptors(&ours, &[read.as_fd(); 5]).unwrap();
        let [low, high] = VERSION.to_le_bytes();
        (&ours)
            .write_all(&[low, high, 2, 0, 0, 0, b'h', b'i'])
            .unwrap();
        let mut channel = Channel {
            socket: theirs,
            frame: Vec::new(),
        };
        let (streams, body) = channel.receive_spec().unwrap();
        assert_eq!(body, b"hi");
        write.write_all(b"through").unwrap();
        let mut text = [0; 7];
        std::fs::File::from(streams.leader.into_iter().next().unwrap())
            .read_exact(&mut text)
            .unwrap();
        assert_eq!(&text, b"through");
    }
}
