//! What is in flight: who asked what, which answers are on their way, and how much they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

/// The number of a request that nobody has made.
pub(super) const NOBODY: i64 = 0;

/// Requests are taken while fewer that are answered soon are in flight than this.
const MOST_QUICK: usize = 1024;

/// Requests that wait for something are refused while as many are in flight as this: each takes
/// some memory, and they must not keep the others out.
const MOST_SLOW: usize = 10_000;

/// Answers of this size in all may wait for the client; more are not begun.
const MOST_UNREAD: usize = 16 << 20;

/// No line to the client is longer.
const LONGEST_ANSWER: usize = 4 << 20;

/// What everybody may know and do about the wire.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Wire {
    outbox: mpsc::UnboundedSender<Vec<u8>>,
    flight: Arc<Mutex<Flight>>,
    state: watch::Sender<WireState>,
}

/// How the wire stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::mcp) struct WireState {
    /// The client has said its last word.
    pub(in crate::mcp) ended: bool,
    /// The client hears nothing any more.
    pub(in crate::mcp) broken: bool,
    /// Everything that the client has said was looked at.
    all_taken: bool,
    /// Requests without an answer.
    asked: usize,
    /// Those of them that wait for something.
    slow: usize,
    /// Answers that are not written out.
    unwritten: usize,
    /// Their size, and that of answers that are being made.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Flight {
    last: i64,
    asked: BTreeMap<i64, Asked>,
    slow: usize,
    unwritten: usize,
    unwritten_bytes: usize,
    /// The size of answers that are made, but not handed over yet.
    reserved: usize,
}

/// A request that has no answer yet.
#[derive(Debug)]
pub(super) struct Asked {
    /// The client's id, as it was written.
    id: String,
    same_as: Value,
    slow: bool,
    batch: Option<Arc<Mutex<Batch>>>,
    reserved: usize,
}

impl Asked {
    pub(super) fn new(
        id: String,
        same_as: Value,
        slow: bool,
        batch: Option<Arc<Mutex<Batch>>>,
    ) -> Self {
        Self {
            id,
            same_as,
            slow,
            batch,
            reserved: 0,
        }
    }
}

/// Answers that are given together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Requests without an answer.
    missing: usize,
    /// Whether all of its messages were taken.
    closed: bool,
    answers: Vec<String>,
    size: usize,
}

impl WireState {
    /// Whether everything that was asked has been answered, as far as the client hears it.
    pub(in crate::mcp) fn is_answered(&self) -> bool {
        self.broken || self.asked == 0 && self.unwritten == 0 && (self.all_taken || !self.ended)
    }

    /// Whether an answer may be made.
    fn has_room(&self) -> bool {
        self.broken || self.bytes < MOST_UNREAD
    }

    /// Whether a request may be taken.
    fn is_open(&self) -> bool {
        self.has_room() && self.asked - self.slow < MOST_QUICK
    }
}

impl Batch {
    /// Takes an answer. Gives what is due to be sent: an array that is large enough.
    fn add(&mut self, answer: String) -> Option<String> {
        let due = (self.size + answer.len() > LONGEST_ANSWER)
            .then(|| self.take())
            .flatten();
        self.size += answer.len();
        self.answers.push(answer);
        due
    }

    /// Gives the rest, once nothing more can come.
    fn rest(&mut self) -> Option<String> {
        (self.closed && self.missing == 0)
            .then(|| self.take())
            .flatten()
    }

    fn take(&mut self) -> Option<String> {
        let answers = std::mem::take(&mut self.answers);
        self.size = 0;
        (!answers.is_empty()).then(|| format!("[{}]", answers.join(",")))
    }
}

impl Wire {
    /// A wire that is written out to `output` by the second value.
    pub(super) fn new<W: AsyncWrite + Unpin>(output: W) -> (Self, impl Future<Output = ()>) {
        let (outbox, answers) = mpsc::unbounded_channel();
        let wire = Self {
            outbox,
            flight: Arc::default(),
            state: watch::Sender::default(),
        };
        let writer = write_out(answers, output, wire.clone());
        (wire, writer)
    }

    /// To wait for the end, or for everything to be answered.
    pub(in crate::mcp) fn state(&self) -> watch::Receiver<WireState> {
        self.state.subscribe()
    }

    /// Completes when there is room for an answer.
    pub(in crate::mcp) async fn room(&self) {
        let _ = self.state().wait_for(WireState::has_room).await;
    }

    /// Counts an answer of this size that is about to be handed over.
    pub(in crate::mcp) fn reserve(&self, id: &RequestId, bytes: usize) {
        self.change(|flight| {
            if let RequestId::Number(number) = id
                && let Some(asked) = flight.asked.get_mut(number)
            {
                asked.reserved += bytes;
                flight.reserved += bytes;
            }
        });
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.borrow().is_open()
    }

    /// Completes when a request may be taken.
    pub(super) async fn open(&self) {
        let _ = self.state().wait_for(WireState::is_open).await;
    }

    pub(super) fn end(&self) {
        self.state.send_modify(|state| state.ended = true);
    }

    pub(super) fn all_taken(&self) {
        self.state.send_modify(|state| state.all_taken = true);
    }

    pub(super) fn next_number(&self) -> i64 {
        let mut flight = lock(&self.flight);
        flight.last += 1;
        flight.last
    }

    /// Whether no more requests can be taken that wait for something.
    pub(super) fn is_full(&self) -> bool {
        self.state.borrow().slow >= MOST_SLOW
    }

    pub(super) fn ask(&self, number: i64, asked: Asked) {
        if let Some(batch) = &asked.batch {
            lock(batch).missing += 1;
        }
        self.change(|flight| {
            flight.slow += usize::from(asked.slow);
            flight.asked.insert(number, asked);
        });
    }

    /// The client does not want this answer any more, and rmcp, told so, will not give it.
    /// Which requests that are.
    pub(super) fn cancel(&self, id: &Value) -> Vec<i64> {
        let matching = |asked: &Asked| asked.same_as == *id;
        let numbers: Vec<i64> = lock(&self.flight)
            .asked
            .iter()
            .filter(|(_, asked)| matching(asked))
            .map(|(number, _)| *number)
            .collect();
        for number in &numbers {
            if let Some(Asked {
                batch: Some(batch), ..
            }) = self.forget(*number)
            {
                self.settle(&batch);
            }
        }
        numbers
    }

    /// An answer as it stands, on its own or in its batch.
    pub(super) fn deliver(&self, answer: String, batch: Option<&Arc<Mutex<Batch>>>) {
        let due = match batch {
            Some(batch) => lock(batch).add(answer),
            None => Some(answer),
        };
        if let Some(due) = due {
            self.post(due);
        }
    }

    /// Nothing more comes in this batch.
    pub(super) fn close(&self, batch: &Mutex<Batch>) {
        lock(batch).closed = true;
        self.send_rest(batch);
    }

    /// A request of this batch needs no answer any more.
    fn settle(&self, batch: &Mutex<Batch>) {
        lock(batch).missing -= 1;
        self.send_rest(batch);
    }

    fn send_rest(&self, batch: &Mutex<Batch>) {
        let rest = lock(batch).rest();
        if let Some(rest) = rest {
            self.post(rest);
        }
    }

    /// What rmcp says, under the client's own id.
    pub(super) fn answer(&self, message: ServerJsonRpcMessage) {
        let (number, key, body) = match message {
            JsonRpcMessage::Response(response) => {
                let body = match &response.result {
                    // It names its own request.
                    ServerResult::SubscriptionsListenResult(_) => self.named(&response.result),
                    result => json(result),
                };
                (Some(response.id), "result", body)
            }
            JsonRpcMessage::Error(error) => (error.id, "error", json(&error.error)),
            other => {
                if let Some(text) = self.named(&other) {
                    self.post(text);
                }
                return;
            }
        };
        let Some(RequestId::Number(number)) = number else {
            return;
        };
        let (Some(asked), Some(body)) = (self.forget(number), body) else {
            return;
        };
        let id = asked.id;
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{body}}}"#);
        self.deliver(answer, asked.batch.as_ref());
        if let Some(batch) = &asked.batch {
            self.settle(batch);
        }
    }

    /// As JSON, where what names a request of rmcp names that of the client.
    fn named(&self, message: &impl Serialize) -> Option<String> {
        const KEY: &str = "io.modelcontextprotocol/subscriptionId";
        // Stands for the id, which a value might not hold as it was written.
        const PLACE: &str = "\u{0}id";
        let mut value = serde_json::to_value(message).ok()?;
        let meta = match value.get_mut("params") {
            Some(params) => params.get_mut("_meta"),
            None => value.get_mut("_meta"),
        };
        let name = meta.and_then(|meta| meta.get_mut(KEY));
        let Some((name, number)) = name.and_then(|name| name.as_i64().map(|number| (name, number)))
        else {
            return json(&value);
        };
        let id = lock(&self.flight).asked.get(&number)?.id.clone();
        *name = Value::from(PLACE);
        Some(json(&value)?.replacen(&json(&PLACE)?, &id, 1))
    }

    fn forget(&self, number: i64) -> Option<Asked> {
        let mut forgotten = None;
        self.change(|flight| {
            forgotten = flight.asked.remove(&number);
            if let Some(asked) = &forgotten {
                flight.reserved -= asked.reserved;
                flight.slow -= usize::from(asked.slow);
            }
        });
        forgotten
    }

    fn post(&self, answer: String) {
        let mut bytes = answer.into_bytes();
        bytes.push(b'\n');
        self.change(|flight| {
            flight.unwritten += 1;
            flight.unwritten_bytes += bytes.len();
        });
        if self.outbox.send(bytes).is_err() {
            self.state.send_modify(|state| state.broken = true);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Flight)) {
        let mut flight = lock(&self.flight);
        change(&mut flight);
        let (asked, slow, unwritten) = (flight.asked.len(), flight.slow, flight.unwritten);
        let bytes = flight.unwritten_bytes + flight.reserved;
        drop(flight);
        self.state.send_modify(|state| {
            *state = WireState {
                asked,
                slow,
                unwritten,
                bytes,
                ..*state
            };
        });
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
        for bytes in joined(&mut several) {
            let written = async {
                output.write_all(&bytes.0).await?;
                output.flush().await
            };
            if let Err(error) = written.await {
                tracing::info!(%error, "the client does not hear us any more");
                wire.state.send_modify(|state| state.broken = true);
                return;
            }
            wire.change(|flight| {
                flight.unwritten -= bytes.1;
                flight.unwritten_bytes -= bytes.0.len();
            });
        }
    }
}

/// Small answers in one piece, with their number; a large one by itself, without a copy.
fn joined(several: &mut Vec<Vec<u8>>) -> Vec<(Vec<u8>, usize)> {
    const SMALL: usize = 16 << 10;
    let mut pieces: Vec<(Vec<u8>, usize)> = Vec::new();
    for bytes in several.drain(..) {
        match pieces.last_mut() {
            Some((piece, count)) if piece.len() + bytes.len() <= SMALL => {
                piece.extend_from_slice(&bytes);
                *count += 1;
            }
            _ => pieces.push((bytes, 1)),
        }
    }
    pieces
}

fn json(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value)
        .inspect_err(|error| tracing::error!(%error, "an answer could not be written as JSON"))
        .ok()
}

/// A panic elsewhere leaves the account usable: each change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
