//! The client's ends: pipes, sockets, files or a terminal, and none of them may block the thread.
//!
//! A non-blocking flag belongs to the open file, which the host may share with us, so it is never
//! set on what we were given. A socket takes the flag with each call. A pipe or a terminal is
//! opened a second time where the system allows it; else it is asked before each call and written
//! to in pieces that fit. A file is always ready.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::standard;
use crate::platform::system;

/// What a pipe is sure to take at once when it takes anything (POSIX: at least 512).
const PIECE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// What the client says.
#[derive(Debug)]
pub struct Stdin(End);

/// What the client hears.
#[derive(Debug)]
pub struct Stdout(End);

/// The client's end that we read.
pub fn stdin() -> io::Result<Stdin> {
    End::new(standard(0), OFlags::RDONLY, Interest::READABLE).map(Stdin)
}

/// The client's end that we write.
pub fn stdout() -> io::Result<Stdout> {
    let interest = Interest::WRITABLE;
    #[cfg(target_os = "linux")]
    let interest = interest | Interest::ERROR;
    End::new(standard(1), OFlags::WRONLY, interest).map(Stdout)
}

#[derive(Debug)]
struct End {
    source: Source,
    way: Way,
}

#[derive(Debug)]
enum Source {
    Watched(AsyncFd<Fd>),
    /// A file, or what cannot be watched (a null device, say).
    AlwaysReady(Fd),
}

#[derive(Debug)]
enum Fd {
    Given(BorrowedFd<'static>),
    Own(OwnedFd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Socket,
    Asked,
    Plain,
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Given(fd) => fd.as_raw_fd(),
            Self::Own(fd) => fd.as_raw_fd(),
        }
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Given(fd) => *fd,
            Self::Own(fd) => fd.as_fd(),
        }
    }
}

impl End {
    fn new(given: BorrowedFd<'static>, flags: OFlags, interest: Interest) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(given)?.st_mode);
        let (fd, way) = match kind {
            FileType::Socket => (Fd::Given(given), Way::Socket),
            FileType::Fifo | FileType::CharacterDevice => match system::reopen(&given, flags) {
                Some(own) => (Fd::Own(own), Way::Plain),
                None => (Fd::Given(given), Way::Asked),
            },
            _ => (Fd::Given(given), Way::Plain),
        };
        if kind == FileType::RegularFile {
            return Ok(Self {
                source: Source::AlwaysReady(fd),
                way,
            });
        }
        // SAFETY: an `Fd` names one open descriptor for as long as it lives, and `AsyncFd` owns it.
        let source = match unsafe { AsyncFd::register_with_interest(fd, interest) } {
            Ok(watched) => Source::Watched(watched),
            Err(error) => Source::AlwaysReady(error.into_parts().0),
        };
        Ok(Self { source, way })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.source {
            Source::Watched(watched) => watched.get_ref().as_fd(),
            Source::AlwaysReady(fd) => fd.as_fd(),
        }
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(match self.way {
            Way::Socket => rustix::net::recv(self.fd(), buffer, RecvFlags::DONTWAIT)?.0,
            Way::Asked => {
                ask(self.fd(), PollFlags::IN)?;
                rustix::io::read(self.fd(), buffer)?
            }
            Way::Plain => rustix::io::read(self.fd(), buffer)?,
        })
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(target_os = "linux")]
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        #[cfg(not(target_os = "linux"))]
        let flags = SendFlags::DONTWAIT;
        Ok(match self.way {
            Way::Socket => rustix::net::send(self.fd(), bytes, flags)?,
            Way::Asked => {
                ask(self.fd(), PollFlags::OUT)?;
                rustix::io::write(self.fd(), &bytes[..bytes.len().min(PIECE)])?
            }
            Way::Plain => rustix::io::write(self.fd(), bytes)?,
        })
    }
}

/// Whether a call would not block.
fn ask(fd: BorrowedFd<'_>, what: PollFlags) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut [PollFd::from_borrowed_fd(fd, what)], Some(&now))? {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(()),
    }
}

/// Makes a call until it does not want to be made again; `None` means: wait until ready.
fn attempt(mut call: impl FnMut() -> io::Result<usize>) -> Option<io::Result<usize>> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            result => return Some(result),
        }
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let end = &self.0;
        loop {
            let guard = match &end.source {
                Source::Watched(watched) => Some(ready!(watched.poll_read_ready(context))?),
                Source::AlwaysReady(_) => None,
            };
            let space = buffer.initialize_unfilled();
            if let Some(result) = attempt(|| end.try_read(space)) {
                return Poll::Ready(result.map(|read| buffer.advance(read)));
            }
            if let Some(mut guard) = guard {
                guard.clear_ready();
            }
        }
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let end = &self.0;
        loop {
            let guard = match &end.source {
                Source::Watched(watched) => Some(ready!(watched.poll_write_ready(context))?),
                Source::AlwaysReady(_) => None,
            };
            if let Some(result) = attempt(|| end.try_write(bytes)) {
                return Poll::Ready(result);
            }
            if let Some(mut guard) = guard {
                guard.clear_ready();
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
