//! What goes between a server and a leader: three pipes, or a terminal.
//!
//! Both are read and written in the same way. A terminal is one descriptor for both directions, and
//! it ends with an error where a pipe ends with nothing to read: `process` takes both for the end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use crate::platform::WindowSize;

/// Why a leader cannot have a terminal here.
pub const NO_TERMINALS: Option<&str> = None;

/// The server's end of a terminal.
type Terminal = Arc<AsyncFd<OwnedFd>>;

/// Where a leader reads.
#[derive(Debug)]
pub enum Input {
    /// A pipe.
    Pipe(pipe::Sender),
    /// What is typed.
    Terminal(Terminal),
}

/// What a tree writes.
#[derive(Debug)]
pub enum Output {
    /// A pipe.
    Pipe(pipe::Receiver),
    /// What is shown.
    Terminal(Terminal),
}

/// Both ends of everything.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: Input,
    pub(super) stdout: Output,
    pub(super) stderr: Option<Output>,
    leader: Leader,
}

#[derive(Debug)]
enum Leader {
    Pipes([OwnedFd; 3]),
    Terminal(OwnedFd),
}

impl Streams {
    pub(super) fn pipes() -> io::Result<Self> {
        let (leader_in, stdin) = io::pipe()?;
        let (stdout, leader_out) = io::pipe()?;
        let (stderr, leader_err) = io::pipe()?;
        let output = |end: io::PipeReader| pipe::Receiver::from_owned_fd(end.into());
        Ok(Self {
            stdin: Input::Pipe(pipe::Sender::from_owned_fd(stdin.into())?),
            stdout: Output::Pipe(output(stdout)?),
            stderr: Some(Output::Pipe(output(stderr)?)),
            leader: Leader::Pipes([leader_in.into(), leader_out.into(), leader_err.into()]),
        })
    }

    /// An error says that it was the terminal, where no advice of the system's says more.
    pub(super) fn terminal(size: WindowSize) -> io::Result<Self> {
        Self::open_terminal(size).map_err(|error| match super::shortage(&error) {
            Some(_) => error,
            None => io::Error::other(format!(
                "this system gives no terminal ({error}); start it without pty"
            )),
        })
    }

    fn open_terminal(size: WindowSize) -> io::Result<Self> {
        let server = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        rustix::io::fcntl_setfd(&server, rustix::io::FdFlags::CLOEXEC)?;
        rustix::pty::grantpt(&server)?;
        rustix::pty::unlockpt(&server)?;
        let name = rustix::pty::ptsname(&server, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let leader = rustix::fs::open(name, flags, Mode::empty())?;
        // Only now: macOS refuses that before the other end is open.
        let status = rustix::fs::fcntl_getfl(&server)?;
        rustix::fs::fcntl_setfl(&server, status | OFlags::NONBLOCK)?;
        let mut modes = rustix::termios::tcgetattr(&leader)?;
        // What a backspace takes back is a character, not a byte of it.
        modes.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(&leader, OptionalActions::Now, &modes)?;
        set_size(&server, size)?;
        // SAFETY: an owned descriptor is the same one and open for as long as it is registered.
        let server = Arc::new(unsafe { AsyncFd::register(server) }?);
        Ok(Self {
            stdin: Input::Terminal(server.clone()),
            stdout: Output::Terminal(server),
            stderr: None,
            leader: Leader::Terminal(leader),
        })
    }

    /// The leader's three streams, and the two that a guard reads when the server is gone.
    pub(super) fn for_guard(&self) -> [BorrowedFd<'_>; 5] {
        let [stdin, stdout, stderr] = match &self.leader {
            Leader::Pipes(ends) => ends.each_ref().map(AsFd::as_fd),
            Leader::Terminal(end) => [end.as_fd(); 3],
        };
        let reader = self.stdout.as_fd();
        let other = self.stderr.as_ref().map_or(reader, AsFd::as_fd);
        [stdin, stdout, stderr, reader, other]
    }
}

impl Input {
    /// Completes when something may be written.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.writable().await,
            Self::Terminal(terminal) => {
                terminal.writable().await?.retain_ready();
                Ok(())
            }
        }
    }

    /// Writes what there is room for now.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.try_write(bytes),
            Self::Terminal(terminal) => terminal.try_io(Interest::WRITABLE, |terminal| {
                Ok(rustix::io::write(terminal, bytes)?)
            }),
        }
    }
}

impl Output {
    /// Completes when something may be read.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Pipe(pipe) => pipe.readable().await,
            Self::Terminal(terminal) => {
                terminal.readable().await?.retain_ready();
                Ok(())
            }
        }
    }

    /// Reads what is there now.
    pub fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.try_read(bytes),
            Self::Terminal(terminal) => {
                // What was written may be on its way yet, of which the runtime knows nothing; to
                // read fetches it.
                let read = rustix::io::read(terminal, bytes).map_err(io::Error::from);
                if let Err(error) = &read
                    && error.kind() == io::ErrorKind::WouldBlock
                {
                    let nothing = || Err(io::ErrorKind::WouldBlock.into());
                    let _: io::Result<()> = terminal.try_io(Interest::READABLE, |_| nothing());
                }
                read
            }
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe(pipe) => pipe.as_fd(),
            Self::Terminal(terminal) => terminal.as_fd(),
        }
    }
}

/// Gives a terminal's window another size. Its programs hear of it.
pub fn resize(terminal: &Input, size: WindowSize) -> io::Result<()> {
    match terminal {
        Input::Pipe(_) => Err(io::ErrorKind::Unsupported.into()),
        Input::Terminal(terminal) => set_size(terminal, size),
    }
}

fn set_size(terminal: impl AsFd, size: WindowSize) -> io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}
