//! The wire: one JSON-RPC message a line, from the client's end to rmcp and back.
//!
//! rmcp's own transport drops what it cannot parse, so this one stands in its place. It keeps
//! account of what is in flight, because at the end of the input what was asked is still answered,
//! and because rmcp, left to itself, would wait for an open subscription.
//!
//! Nothing here waits for the client to read: answers go into a queue that one task writes out.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::line::{self, IdScan, Line};

/// A longer line is answered with an error and not kept.
const LONGEST_LINE: usize = 16 << 20;

/// A client that leaves so much unread reads nothing any more.
const MOST_UNREAD: usize = 64 << 20;

/// The server's side of the wire, for rmcp.
#[derive(Debug)]
pub(super) struct Transport<R> {
    input: R,
    /// What was read and is not a whole line yet.
    buffer: Vec<u8>,
    /// Where in the buffer no newline was found so far.
    searched: usize,
    /// A line that is too long to keep.
    skipped: Option<IdScan>,
    messages: VecDeque<ClientJsonRpcMessage>,
    wire: Wire,
}

/// What everybody may know and do about the wire.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    outbox: mpsc::UnboundedSender<Vec<u8>>,
    flight: Arc<Mutex<Flight>>,
    state: watch::Sender<WireState>,
}

/// How the wire stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WireState {
    /// The client has said its last word.
    pub(super) ended: bool,
    /// The client hears nothing any more.
    pub(super) broken: bool,
    /// Requests without an answer and answers that are not written out.
    pub(super) open: usize,
}

#[derive(Debug, Default)]
struct Flight {
    asked: HashSet<RequestId>,
    /// The batch that a request came in.
    batches: HashMap<RequestId, Arc<Mutex<Batch>>>,
    /// Answers in the outbox, and their bytes.
    unwritten: usize,
    unwritten_bytes: usize,
}

#[derive(Debug, Default)]
struct Batch {
    missing: usize,
    answers: Vec<Vec<u8>>,
}

/// Opens the wire. The second value writes out what is answered; it must be run as a task.
pub(super) fn open<R, W: AsyncWrite + Unpin>(
    input: R,
    output: W,
) -> (Transport<R>, Wire, impl Future<Output = ()>) {
    let (outbox, answers) = mpsc::unbounded_channel();
    let wire = Wire {
        outbox,
        flight: Arc::default(),
        state: watch::Sender::default(),
    };
    let transport = Transport {
        input,
        buffer: Vec::new(),
        searched: 0,
        skipped: None,
        messages: VecDeque::new(),
        wire: wire.clone(),
    };
    let writer = write_out(answers, output, wire.clone());
    (transport, wire, writer)
}

impl Wire {
    /// To wait for the end, or for nothing to be in flight.
    pub(super) fn state(&self) -> watch::Receiver<WireState> {
        self.state.subscribe()
    }

    fn ask(&self, id: &RequestId) {
        self.change(|flight| {
            flight.asked.insert(id.clone());
        });
    }

    /// The client does not want this answer any more, and rmcp will not give it.
    /// Whether it was in flight at all.
    fn cancel(&self, id: &RequestId) -> bool {
        let mut known = false;
        self.change(|flight| known = flight.asked.remove(id));
        if known {
            self.deliver(Some(id), None);
        }
        known
    }

    fn answer(&self, message: &ServerJsonRpcMessage) {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        match serde_json::to_vec(message) {
            Ok(json) => self.deliver(id, Some(json)),
            Err(error) => tracing::error!(%error, "an answer could not be written as JSON"),
        }
        if let Some(id) = id {
            self.change(|flight| {
                flight.asked.remove(id);
            });
        }
    }

    /// Sends an answer on its way, or puts it to the others of its batch.
    fn deliver(&self, id: Option<&RequestId>, json: Option<Vec<u8>>) {
        let batch = id.and_then(|id| self.flight().batches.remove(id));
        match (batch, json) {
            (Some(batch), json) => self.deliver_part(&batch, json),
            (None, Some(json)) => self.post(json),
            (None, None) => {}
        }
    }

    fn deliver_part(&self, batch: &Mutex<Batch>, json: Option<Vec<u8>>) {
        let mut batch = lock(batch);
        batch.missing -= 1;
        batch.answers.extend(json);
        if batch.missing == 0 && !batch.answers.is_empty() {
            let mut all = b"[".to_vec();
            all.extend(batch.answers.join(&b","[..]));
            all.push(b']');
            self.post(all);
        }
    }

    fn post(&self, mut json: Vec<u8>) {
        json.push(b'\n');
        let mut unread = 0;
        self.change(|flight| {
            flight.unwritten += 1;
            flight.unwritten_bytes += json.len();
            unread = flight.unwritten_bytes;
        });
        if self.outbox.send(json).is_err() || unread > MOST_UNREAD {
            self.state.send_modify(|state| state.broken = true);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Flight)) {
        let open = {
            let mut flight = self.flight();
            change(&mut flight);
            flight.asked.len() + flight.unwritten
        };
        self.state.send_modify(|state| state.open = open);
    }

    fn flight(&self) -> MutexGuard<'_, Flight> {
        lock(&self.flight)
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> rmcp::transport::Transport<RoleServer>
    for Transport<R>
{
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        self.wire.answer(&message);
        std::future::ready(Ok(()))
    }

    /// The next message. At the end of the input there is none, but rmcp is left waiting, so that
    /// it goes on serving what is in flight; the wire's state tells of the end.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Some(message);
            }
            self.buffer.reserve(64 << 10);
            match self.input.read_buf(&mut self.buffer).await {
                Ok(read) if read > 0 => self.split(),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                end => {
                    if let Err(error) = end {
                        tracing::info!(%error, "the input failed");
                    }
                    if !self.buffer.is_empty() || self.skipped.is_some() {
                        self.buffer.push(b'\n');
                        self.split();
                    }
                    self.wire.state.send_modify(|state| state.ended = true);
                    if self.messages.is_empty() {
                        return std::future::pending().await;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl<R> Transport<R> {
    /// Takes the whole lines out of the buffer.
    fn split(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut start = 0;
        let mut search = self.searched;
        while let Some(newline) = memchr::memchr(b'\n', &buffer[search..]) {
            let end = search + newline;
            self.line(&buffer[start..end]);
            (start, search) = (end + 1, end + 1);
        }
        let rest = &buffer[start..];
        if self.skipped.is_some() || rest.len() > LONGEST_LINE {
            self.skipped.get_or_insert_default().feed(rest);
        } else if start == 0 {
            self.buffer = buffer;
        } else {
            self.buffer = rest.to_vec();
        }
        self.searched = self.buffer.len();
    }

    fn line(&mut self, bytes: &[u8]) {
        let line = match self.skipped.take() {
            Some(mut scan) => {
                scan.feed(bytes);
                line::malformed(
                    scan,
                    &format!("this line is longer than {LONGEST_LINE} bytes"),
                )
            }
            None => line::read(bytes),
        };
        match line {
            Line::Batch(elements) => self.batch(elements),
            line => self.take(line, None),
        }
    }

    fn batch(&mut self, elements: Vec<Line>) {
        let wants_answer = |line: &&Line| match line {
            Line::Message(message) => matches!(**message, JsonRpcMessage::Request(_)),
            Line::Answer(_) => true,
            Line::Nothing | Line::Batch(_) => false,
        };
        let missing = elements.iter().filter(wants_answer).count();
        let batch = Arc::new(Mutex::new(Batch {
            missing,
            answers: Vec::new(),
        }));
        for element in elements {
            self.take(element, Some(&batch));
        }
    }

    fn take(&mut self, line: Line, batch: Option<&Arc<Mutex<Batch>>>) {
        match line {
            Line::Message(message) => match &*message {
                JsonRpcMessage::Request(request) => {
                    self.wire.ask(&request.id);
                    if let Some(batch) = batch {
                        self.wire
                            .flight()
                            .batches
                            .insert(request.id.clone(), batch.clone());
                    }
                    self.messages.push_back(*message);
                }
                JsonRpcMessage::Notification(notification) => {
                    // The only notification that means something here, and only for what is in
                    // flight: before the handshake rmcp would end at any.
                    if let ClientNotification::CancelledNotification(cancelled) =
                        &notification.notification
                        && let Some(id) = &cancelled.params.request_id
                        && self.wire.cancel(id)
                    {
                        self.messages.push_back(*message);
                    }
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
            },
            Line::Answer(answer) => match (serde_json::to_vec::<Value>(&answer), batch) {
                (Ok(json), Some(batch)) => self.wire.deliver_part(batch, Some(json)),
                (Ok(json), None) => self.wire.post(json),
                (Err(_), _) => {}
            },
            Line::Nothing | Line::Batch(_) => {}
        }
    }
}

/// Writes answers out, several at once where several are waiting.
async fn write_out<W: AsyncWrite + Unpin>(
    mut answers: mpsc::UnboundedReceiver<Vec<u8>>,
    mut output: W,
    wire: Wire,
) {
    let mut several = Vec::new();
    while answers.recv_many(&mut several, 64).await > 0 {
        let count = several.len();
        let bytes = if count == 1 {
            std::mem::take(&mut several[0])
        } else {
            several.concat()
        };
        several.clear();
        let written = async {
            output.write_all(&bytes).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::info!(%error, "the client does not hear us any more");
            wire.state.send_modify(|state| state.broken = true);
            return;
        }
        wire.change(|flight| {
            flight.unwritten -= count;
            flight.unwritten_bytes -= bytes.len();
        });
    }
}

/// A panic elsewhere leaves the account usable: each change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
