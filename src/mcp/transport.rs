//! The wire: one JSON-RPC message a line, from the client's end to rmcp and back.
//!
//! rmcp's own transport drops what it cannot parse, so this one stands in its place. It gives each
//! request a number of its own and keeps the client's id for the answer, so that ids come back as
//! they were written and may even be used twice. It opens rmcp's session itself, so that both
//! eras of the protocol can be spoken from the first line on. And it keeps account of what is in
//! flight, because at the end of the input what was asked is still answered.
//!
//! Nothing here waits for the client to read: answers go into a queue that one task writes out.
//! What keeps a client that asks without reading from filling the memory is that its requests are
//! taken only while there is [room](Wire::room) for answers.

mod wire;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::line::{self, IdScan, Line, Message, Request};
use wire::{Asked, Batch};

pub(super) use wire::{Wire, WireState};

/// A longer line is answered with an error and not kept.
const LONGEST_LINE: usize = 16 << 20;

/// What may be read ahead while there is no room for answers.
const MOST_AHEAD: usize = 2 * LONGEST_LINE;

/// The server's side of the wire, for rmcp.
#[derive(Debug)]
pub(super) struct Transport<R> {
    input: R,
    /// What was read and not looked at yet.
    buffer: Vec<u8>,
    /// How much of the buffer was taken.
    taken: usize,
    /// Up to where the buffer holds no newline that was not taken.
    searched: usize,
    /// A line that is too long to keep.
    skipped: Option<IdScan>,
    /// Nothing more will be read.
    ended: bool,
    /// Whether the client has opened a session.
    opened: bool,
    /// The line whose messages are being taken.
    line: Option<(Line, Option<Arc<Mutex<Batch>>>)>,
    /// For rmcp.
    messages: VecDeque<ClientJsonRpcMessage>,
    wire: Wire,
}

/// Opens the wire. The second value writes out what is answered; it must be run as a task.
pub(super) fn open<R, W: AsyncWrite + Unpin>(
    input: R,
    output: W,
) -> (Transport<R>, Wire, impl Future<Output = ()>) {
    let (wire, writer) = Wire::new(output);
    let transport = Transport {
        input,
        buffer: Vec::new(),
        taken: 0,
        searched: 0,
        skipped: None,
        ended: false,
        opened: false,
        line: None,
        messages: handshake().into_iter().collect(),
        wire: wire.clone(),
    };
    (transport, wire, writer)
}

/// What rmcp wants to hear first. Its answer goes nowhere: nobody has asked under this number.
fn handshake() -> Option<ClientJsonRpcMessage> {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "transport", "version": "0" },
    });
    let id = wire::NOBODY;
    serde_json::from_value(
        json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": params }),
    )
    .ok()
}

impl<R: AsyncRead + Unpin + Send + 'static> rmcp::transport::Transport<RoleServer>
    for Transport<R>
{
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        self.wire.answer(message);
        std::future::ready(Ok(()))
    }

    /// The next message. At the end of the input there is none, but rmcp is left waiting, so that
    /// it goes on serving what is in flight; the wire's state tells of the end.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // However fast a client speaks, others get their turn.
            tokio::task::coop::consume_budget().await;
            if let Some(message) = self.messages.pop_front() {
                return Some(message);
            }
            if self.wire.is_open() {
                if self.take_message() || self.take_line() {
                    continue;
                }
                if self.ended {
                    self.wire.all_taken();
                    return std::future::pending().await;
                }
                self.read().await;
            } else if self.ended || self.buffer.len() - self.taken > MOST_AHEAD {
                self.wire.open().await;
            } else {
                let wire = self.wire.clone();
                tokio::select! {
                    () = wire.open() => {}
                    () = self.read() => {}
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> Transport<R> {
    /// Reads what there is. Losing the future loses nothing.
    async fn read(&mut self) {
        if self.taken > LONGEST_LINE {
            self.forget_taken();
        }
        self.buffer.reserve(64 << 10);
        match self.input.read_buf(&mut self.buffer).await {
            Ok(read) if read > 0 => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            end => {
                if let Err(error) = end {
                    tracing::info!(%error, "the input failed");
                }
                self.ended = true;
                self.wire.end();
                // The last line may lack its newline.
                if self.taken < self.buffer.len() || self.skipped.is_some() {
                    self.buffer.push(b'\n');
                }
            }
        }
    }
}

impl<R> Transport<R> {
    /// Takes the next message of the line. Whether there was one.
    fn take_message(&mut self) -> bool {
        let Some((line, batch)) = &mut self.line else {
            return false;
        };
        let batch = batch.clone();
        let message = line.next();
        match (message, batch) {
            (Some(message), batch) => {
                self.take(message, batch.as_ref());
                return true;
            }
            (None, Some(batch)) => self.wire.close(&batch),
            (None, None) => {}
        }
        self.line = None;
        false
    }

    /// Takes the next whole line out of the buffer. Whether there was one.
    fn take_line(&mut self) -> bool {
        let Some(newline) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
            self.keep_rest();
            return false;
        };
        let end = self.searched + newline;
        let bytes = &self.buffer[self.taken..end];
        // Several lines may have come at once, so also a whole one may be too long.
        if self.skipped.is_some() || bytes.len() > LONGEST_LINE {
            let mut scan = self.skipped.take().unwrap_or_default();
            scan.feed(bytes);
            let reason = format!("this line is longer than {LONGEST_LINE} bytes");
            if let Some(Message::Answer(answer)) = line::malformed(scan, &reason) {
                self.wire.deliver(answer, None);
            }
        } else {
            let line = Line::new(bytes);
            let batch = line
                .is_batch()
                .then(|| Arc::new(Mutex::new(Batch::default())));
            self.line = Some((line, batch));
        }
        self.taken = end + 1;
        self.searched = self.taken;
        true
    }

    fn forget_taken(&mut self) {
        self.buffer.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
    }

    /// Keeps what is no whole line yet, unless it is too long for one.
    fn keep_rest(&mut self) {
        self.forget_taken();
        if self.skipped.is_some() || self.buffer.len() > LONGEST_LINE {
            self.skipped.get_or_insert_default().feed(&self.buffer);
            self.buffer.clear();
        }
        if self.buffer.is_empty() {
            self.buffer.shrink_to(64 << 10);
        }
        self.searched = self.buffer.len();
    }

    fn take(&mut self, message: Message, batch: Option<&Arc<Mutex<Batch>>>) {
        match message {
            Message::Answer(answer) => self.wire.deliver(answer, batch),
            Message::Cancelled(id) => {
                let cancelled = self.wire.cancel(&id);
                self.messages
                    .extend(cancelled.into_iter().filter_map(cancellation));
            }
            Message::Request(request) => match self.request(request, batch) {
                Ok(message) => self.messages.push_back(message),
                Err(Message::Answer(answer)) => self.wire.deliver(answer, batch),
                Err(_) => {}
            },
        }
    }

    fn request(
        &mut self,
        request: Request,
        batch: Option<&Arc<Mutex<Batch>>>,
    ) -> Result<ClientJsonRpcMessage, Message> {
        if !(self.opened || request.opens || request.free) {
            return Err(request.without_session());
        }
        if request.slow && self.wire.is_full() {
            return Err(request.too_many());
        }
        self.opened |= request.opens;
        let slow = request.slow;
        let (id, same_as) = (request.id.clone(), request.same_as.clone());
        let number = self.wire.next_number();
        let message = request.message(number)?;
        self.wire
            .ask(number, Asked::new(id, same_as, slow, batch.cloned()));
        Ok(message)
    }
}

/// For rmcp, which knows the request by its number.
fn cancellation(number: i64) -> Option<ClientJsonRpcMessage> {
    let params = json!({ "requestId": number });
    serde_json::from_value(
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
    )
    .ok()
}
