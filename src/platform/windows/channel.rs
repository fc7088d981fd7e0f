//! A guard's end of the pipe to its server.
//!
//! Everything here is overlapped: on a plain handle Windows lets one operation wait for the other,
//! and a guard that listens could not speak.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};
use std::ptr::NonNull;

use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, HANDLE};
use windows_sys::Win32::Storage::FileSystem::{FILE_TYPE_PIPE, GetFileType, ReadFile, WriteFile};
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED};
use windows_sys::core::BOOL;

use super::handle::{self, Reset};
use crate::guard::protocol::{FRAME, Spec};
use crate::platform::Event;

/// A guard's end of the pipe.
#[derive(Debug)]
pub(super) struct Channel {
    pipe: OwnedHandle,
    /// Set when the read that is under way has ended.
    arrived: OwnedHandle,
    /// Set when any other operation has ended.
    done: OwnedHandle,
    read: NonNull<Read>,
    under_way: bool,
    frame: Vec<u8>,
}

/// What belongs to the system while a read is under way.
struct Read {
    overlapped: OVERLAPPED,
    bytes: [u8; FRAME],
}

impl Channel {
    /// The pipe that a guard has inherited under this number.
    pub(super) fn inherited(number: usize) -> io::Result<Self> {
        let pipe = number as HANDLE;
        // SAFETY: a number that means nothing has no type, which is all that happens.
        if unsafe { GetFileType(pipe) } != FILE_TYPE_PIPE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: it is a pipe, and the server gave it to this process for the guard alone.
        Self::new(unsafe { handle::own(pipe) }?)
    }

    fn new(pipe: OwnedHandle) -> io::Result<Self> {
        // The leader must not get it: its tree would keep it open after the guard has gone.
        handle::set_inheritable(pipe.as_handle(), false)?;
        let arrived = handle::event(Reset::Manual)?;
        let done = handle::event(Reset::Manual)?;
        let read = Read {
            overlapped: overlapped(arrived.as_handle()),
            bytes: [0; FRAME],
        };
        let read = NonNull::from(Box::leak(Box::new(read)));
        Ok(Self {
            pipe,
            arrived,
            done,
            read,
            under_way: false,
            frame: Vec::with_capacity(FRAME),
        })
    }

    /// Waits for the body of the spec.
    pub(super) fn receive_spec(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 6];
        self.read_exact(&mut header)?;
        let length = Spec::body_length(header).ok_or(io::ErrorKind::InvalidData)?;
        let mut body = vec![0; length];
        self.read_exact(&mut body)?;
        Ok(body)
    }

    pub(super) fn tell(&self, frame: [u8; FRAME]) {
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let bytes = rest.as_ptr();
            // SAFETY: `complete` returns when the write has ended, and `rest` lives longer.
            let written = self.complete(|pipe, overlapped| unsafe {
                WriteFile(pipe, bytes, length, std::ptr::null_mut(), overlapped)
            });
            match written {
                Ok(written) if written > 0 => rest = &rest[written..],
                // A server that is gone is seen by the end of the pipe.
                _ => return,
            }
        }
    }

    /// Makes sure that a read is under way; `arrived` tells when it has ended.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        if self.under_way {
            return Ok(());
        }
        let missing = u32::try_from(FRAME - self.frame.len()).unwrap_or(0);
        let read = self.read.as_ptr();
        // SAFETY: no read is under way, so the slot is ours to fill. From here on it is the
        // system's, until `read_event` or `drop` has seen the end; it lives longer than that.
        let started = handle::check(unsafe {
            (*read).overlapped = overlapped(self.arrived.as_handle());
            ReadFile(
                self.pipe.as_raw_handle(),
                (&raw mut (*read).bytes).cast(),
                missing,
                std::ptr::null_mut(),
                &raw mut (*read).overlapped,
            )
        });
        unless_pending(started)?;
        self.under_way = true;
        Ok(())
    }

    /// What is set when there is something to be read, after `listen`.
    pub(super) fn arrived(&self) -> BorrowedHandle<'_> {
        self.arrived.as_handle()
    }

    /// What has come, once `arrived` is set.
    pub(super) fn read_event(&mut self) -> Event {
        let mut count = 0;
        let read = self.read.as_ptr();
        // SAFETY: the slot lives as long as the channel, and the read was started with it.
        let ended = handle::check(unsafe {
            GetOverlappedResult(
                self.pipe.as_raw_handle(),
                &raw const (*read).overlapped,
                &raw mut count,
                1,
            )
        });
        self.under_way = false;
        if ended.is_err() {
            return Event::ServerGone;
        }
        // SAFETY: the read has ended, so the slot is ours again.
        let bytes = unsafe { (*read).bytes };
        self.frame.extend_from_slice(&bytes[..count as usize]);
        match self.frame.first_chunk::<FRAME>().copied() {
            Some(frame) => {
                self.frame.clear();
                Event::Server(frame)
            }
            None => Event::Tick,
        }
    }

    fn read_exact(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            let space = rest.as_mut_ptr();
            // SAFETY: `complete` returns when the read has ended, and `rest` lives longer.
            let read = self.complete(|pipe, overlapped| unsafe {
                ReadFile(pipe, space, length, std::ptr::null_mut(), overlapped)
            })?;
            rest = &mut rest[read..];
        }
        Ok(())
    }

    /// Starts an operation, waits for its end and tells how many bytes it has moved.
    fn complete(&self, start: impl FnOnce(HANDLE, *mut OVERLAPPED) -> BOOL) -> io::Result<usize> {
        let mut operation = overlapped(self.done.as_handle());
        let pipe = self.pipe.as_raw_handle();
        unless_pending(handle::check(start(pipe, &raw mut operation)))?;
        let mut count = 0;
        // SAFETY: waits for the operation that was started with this very structure.
        handle::check(unsafe {
            GetOverlappedResult(pipe, &raw const operation, &raw mut count, 1)
        })?;
        Ok(count as usize)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let read = self.read.as_ptr();
        if self.under_way {
            let pipe = self.pipe.as_raw_handle();
            // SAFETY: the slot is alive; a read that has ended by itself is not found, and fine.
            unsafe { CancelIoEx(pipe, &raw const (*read).overlapped) };
            // SAFETY: waits until the system lets go of the slot.
            unsafe { GetOverlappedResult(pipe, &raw const (*read).overlapped, &mut 0, 1) };
        }
        // SAFETY: made from a box in `new`; no read is under way any more.
        drop(unsafe { Box::from_raw(read) });
    }
}

/// An operation that is not under way yet, and sets this event at its end.
fn overlapped(event: BorrowedHandle<'_>) -> OVERLAPPED {
    OVERLAPPED {
        hEvent: event.as_raw_handle(),
        ..OVERLAPPED::default()
    }
}

/// An operation that goes on has not failed.
fn unless_pending(started: io::Result<()>) -> io::Result<()> {
    match started {
        Err(error) if error.raw_os_error() == Some(ERROR_IO_PENDING.cast_signed()) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::windows::start::{Way, pipe, tests::run};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const LONG: Duration = Duration::from_secs(30);

    /// What a guard hears; it says something whenever it listens.
    fn hear(pipe: OwnedHandle) -> Vec<Event> {
        let mut channel = Channel::new(pipe).unwrap();
        assert_eq!(channel.receive_spec().unwrap(), b"hi");
        let mut heard = Vec::new();
        while channel.listen().is_ok() {
            // A read is under way now, and must not hold this back.
            channel.tell(*b"guard ok");
            handle::wait_any(&[channel.arrived()], Some(LONG))
                .unwrap()
                .unwrap();
            match channel.read_event() {
                Event::ServerGone => break,
                Event::Tick => {}
                event => heard.push(event),
            }
        }
        heard
    }

    #[test]
    fn a_guard_hears_a_spec_and_frames_and_the_end_while_it_speaks() {
        run(async {
            let (mut server, theirs) = pipe(Way::Both).unwrap();
            let guard = tokio::task::spawn_blocking(move || hear(theirs.into()));
            server
                .write_all(&[1, 0, 2, 0, 0, 0, b'h', b'i'])
                .await
                .unwrap();
            let mut frame = [0; FRAME];
            server.read_exact(&mut frame).await.unwrap();
            assert_eq!(&frame, b"guard ok");
            // In two pieces, the second with all of the next frame.
            server.write_all(b"one").await.unwrap();
            server.read_exact(&mut frame).await.unwrap();
            server.write_all(b"11111two22222").await.unwrap();
            server.read_exact(&mut frame).await.unwrap();
            server.read_exact(&mut frame).await.unwrap();
            drop(server);
            let heard = guard.await.unwrap();
            assert_eq!(
                heard,
                [Event::Server(*b"one11111"), Event::Server(*b"two22222")]
            );
        });
    }

    #[test]
    fn a_channel_that_listens_can_be_dropped() {
        run(async {
            let (mut server, theirs) = pipe(Way::Both).unwrap();
            let mut channel = Channel::new(theirs.into()).unwrap();
            channel.listen().unwrap();
            drop(channel);
            assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        });
    }

    #[test]
    fn only_a_pipe_is_a_channel() {
        assert!(Channel::inherited(0).is_err());
        assert!(Channel::inherited(0x7ff0).is_err());
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(Channel::inherited(file.as_raw_handle() as usize).is_err());
    }
}
