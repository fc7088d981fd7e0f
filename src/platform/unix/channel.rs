//! What goes between a server and a guard besides frames: descriptors, and the spec.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::guard::protocol::{FRAME, Spec};
use crate::platform::Event;

/// What a guard gets of the pipes between its leader and its server.
#[derive(Debug)]
pub(in crate::platform) struct Streams {
    /// The leader's three streams.
    pub(in crate::platform) leader: [OwnedFd; 3],
    /// The server's ends of the two that are written. A guard holds them so that they outlive the
    /// server: without a reader, a tree that says a last word would die of it.
    pub(in crate::platform) readers: [OwnedFd; 2],
    /// How many descriptors a leader may have; none is no limit.
    pub(in crate::platform) descriptors: Option<u64>,
}

/// A guard's end of the socket.
#[derive(Debug)]
pub(in crate::platform) struct Channel {
    socket: UnixStream,
    frame: Vec<u8>,
}

impl Channel {
    /// A guard's standard input is the socket; it is moved away from there.
    pub(in crate::platform) fn from_stdin() -> io::Result<Self> {
        let socket = io::stdin().as_fd().try_clone_to_owned()?;
        rustix::net::sockopt::socket_type(&socket)?;
        Ok(Self {
            socket: socket.into(),
            frame: Vec::new(),
        })
    }

    /// The streams and the body of the spec.
    pub(in crate::platform) fn receive_spec(&mut self) -> io::Result<(Streams, Vec<u8>)> {
        let ([stdin, stdout, stderr, out_reader, err_reader], descriptors) =
            receive_descriptors(&self.socket)?;
        let streams = Streams {
            descriptors,
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

    pub(in crate::platform) fn tell(&self, frame: [u8; FRAME]) {
        // A server that is gone is seen by the end of file.
        let _ = (&self.socket).write_all(&frame);
    }

    /// What has come, once the socket is readable.
    pub(in crate::platform) fn read_event(&mut self) -> Event {
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

/// Together with the limit that they are under, since one byte at least must go with them.
pub(super) fn send_descriptors(
    socket: &UnixStream,
    descriptors: &[BorrowedFd<'_>],
    limit: Option<u64>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(descriptors));
    sendmsg(
        socket,
        &[IoSlice::new(&limit.unwrap_or(u64::MAX).to_le_bytes())],
        &mut control,
        SendFlags::empty(),
    )?;
    Ok(())
}

fn receive_descriptors(socket: &UnixStream) -> io::Result<([OwnedFd; 5], Option<u64>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut limit = [0; 8];
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut limit)],
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
    let limit = u64::from_le_bytes(limit);
    match descriptors.try_into() {
        Ok(descriptors) => Ok((descriptors, (limit != u64::MAX).then_some(limit))),
        Err(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::protocol::VERSION;

    #[test]
    fn a_socket_carries_descriptors_and_a_spec() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (read, mut write) = io::pipe().unwrap();
        send_descriptors(&ours, &[read.as_fd(); 5], Some(1024)).unwrap();
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
        assert_eq!(streams.descriptors, Some(1024));
        write.write_all(b"through").unwrap();
        let mut text = [0; 7];
        std::fs::File::from(streams.leader.into_iter().next().unwrap())
            .read_exact(&mut text)
            .unwrap();
        assert_eq!(&text, b"through");
    }
}
