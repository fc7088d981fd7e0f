//! The client's ends. What a host gives may be a pipe, a file or a console, and not one of these
//! can be made non-blocking afterwards: tokio reads and writes them on threads of its own.
//!
//! A read that waits for the client cannot be called off, so a server that wants to end does not
//! wait for that thread.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What the client says.
#[derive(Debug)]
pub struct Stdin(tokio::io::Stdin);

/// What the client hears. A write is sure to have happened only after a flush.
#[derive(Debug)]
pub struct Stdout(tokio::io::Stdout);

/// The client's end that we read.
pub fn stdin() -> io::Result<Stdin> {
    Ok(Stdin(tokio::io::stdin()))
}

/// The client's end that we write.
pub fn stdout() -> io::Result<Stdout> {
    Ok(Stdout(tokio::io::stdout()))
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
