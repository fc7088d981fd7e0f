//! What was sent to a process and has not been read by it yet.
//!
//! No call may block on a process that does not read, and no input may be taken by halves. So
//! input goes into a queue first, whole or not at all, and a call waits only a moment for the
//! process to read it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// What waits for a process to read it stays below this. An input that is larger by itself is
/// taken when nothing else waits, for as long as the process goes on reading it.
pub const LIMIT: usize = 1 << 20;

/// How long a call waits for its input to be read before it answers what is pending.
const MOMENT: Duration = Duration::from_millis(100);

/// How long an input beyond the limit may stand still before the rest of it is given up.
const STALL: Duration = Duration::from_secs(2);

/// Why input was not taken, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The queue is full.
    #[error(
        "it has not read {pending} bytes of earlier input yet, and at most {LIMIT} may wait; nothing of this input was taken. \
         Wait until it reads, or stop it"
    )]
    Full {
        /// Bytes that wait.
        pending: usize,
    },
    /// The process stopped reading in the middle of a large input.
    #[error(
        "it stopped reading: {taken} bytes of this input were written, the rest was dropped, since at most {LIMIT} may wait"
    )]
    Stalled {
        /// Bytes of the input that went into its pipe.
        taken: usize,
    },
    /// Nobody can read any more.
    #[error("its standard input is closed; start it again if it should read more")]
    Closed,
}

/// What a caller wants a process to read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// As it is written.
    pub bytes: Vec<u8>,
    /// Then what a terminal does at Ctrl-C.
    pub interrupt: bool,
    /// Then nothing more: its end of file.
    pub eof: bool,
}

/// How many bytes wait, once a call has waited a moment for fewer.
pub type Reply = oneshot::Sender<Result<usize, InputError>>;

/// Input in the order of the calls.
#[derive(Debug)]
pub(super) struct Queue {
    bytes: VecDeque<u8>,
    written: u64,
    progress: Instant,
    calls: Vec<Call>,
    /// Nothing more comes.
    ends: bool,
}

#[derive(Debug)]
struct Call {
    from: u64,
    upto: u64,
    since: Instant,
    reply: Reply,
}

impl Queue {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            bytes: VecDeque::new(),
            written: 0,
            progress: now,
            calls: Vec::new(),
            ends: false,
        }
    }

    /// Takes nothing more from now on.
    pub(super) fn end(&mut self) {
        self.ends = true;
    }

    /// Whether all was written that ever will be.
    pub(super) fn is_done(&self) -> bool {
        self.ends && self.bytes.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes an input whole, or answers at once why not. Whether it was taken.
    pub(super) fn offer(&mut self, input: &[u8], reply: Reply, now: Instant) -> bool {
        let pending = self.bytes.len();
        if self.ends {
            let _ = reply.send(Err(InputError::Closed));
            return false;
        }
        if input.is_empty() {
            let _ = reply.send(Ok(pending));
            return true;
        }
        if pending > 0 && pending + input.len() > LIMIT {
            let _ = reply.send(Err(InputError::Full { pending }));
            return false;
        }
        if pending == 0 {
            self.progress = now;
        }
        let from = self.written + pending as u64;
        self.bytes.extend(input);
        self.calls.push(Call {
            from,
            upto: from + input.len() as u64,
            since: now,
            reply,
        });
        true
    }

    /// Takes what a terminal answers its program: after all that was typed before, as a terminal
    /// does it. A program that asks and asks and reads no answer is not answered any more.
    pub(super) fn answer(&mut self, answer: &[u8]) {
        if !self.ends && self.bytes.len() + answer.len() <= LIMIT {
            self.bytes.extend(answer);
        }
    }

    /// What to write next.
    pub(super) fn front(&self) -> &[u8] {
        let (head, tail) = self.bytes.as_slices();
        if head.is_empty() { tail } else { head }
    }

    /// So much of it was written.
    pub(super) fn advance(&mut self, count: usize, now: Instant) {
        self.bytes.drain(..count);
        self.written += count as u64;
        self.progress = now;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(4096);
        }
        let written = self.written;
        for call in self.calls.extract_if(.., |call| call.upto <= written) {
            let _ = call.reply.send(Ok(0));
        }
    }

    /// When a call that waits will have waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let standstill = self.progress + STALL;
        let oldest = self.calls.first()?.since + MOMENT;
        Some(if self.bytes.len() > LIMIT {
            standstill
        } else {
            oldest
        })
    }

    /// Answers the calls that have waited long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        let written = self.written;
        if self.bytes.len() <= LIMIT {
            for call in self.calls.extract_if(.., |call| now >= call.since + MOMENT) {
                let pending = usize::try_from(call.upto - written).unwrap_or(usize::MAX);
                let _ = call.reply.send(Ok(pending));
            }
        } else if now >= self.progress + STALL
            && let Some(call) = self.calls.pop()
        {
            // Beyond the limit nothing is taken behind an input, so the one that made the queue
            // that long is the last.
            let taken = usize::try_from(written.saturating_sub(call.from)).unwrap_or(usize::MAX);
            let keep = usize::try_from(call.from.saturating_sub(written)).unwrap_or(0);
            self.bytes.truncate(keep);
            let _ = call.reply.send(Err(InputError::Stalled { taken }));
        }
    }

    /// Nobody reads any more.
    pub(super) fn close(&mut self) {
        self.bytes.clear();
        for call in self.calls.drain(..) {
            let _ = call.reply.send(Err(InputError::Closed));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    type Answer = oneshot::Receiver<Result<usize, InputError>>;

    fn offer(queue: &mut Queue, size: usize, now: Instant) -> Answer {
        let (reply, answer) = oneshot::channel();
        queue.offer(&vec![b'x'; size], reply, now);
        answer
    }

    #[test]
    fn what_is_read_at_once_leaves_nothing_pending() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        let mut answer = offer(&mut queue, 10, now);
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
        queue.advance(10, now);
        assert_eq!(answer.try_recv(), Ok(Ok(0)));
        assert_eq!(queue.deadline(), None);
    }

    #[test]
    fn what_is_not_read_is_pending_after_a_moment() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        let mut answer = offer(&mut queue, 100, now);
        queue.advance(40, now);
        assert_eq!(queue.deadline(), Some(now + MOMENT));
        queue.expire(now + MOMENT);
        assert_eq!(answer.try_recv(), Ok(Ok(60)));
        assert_eq!(queue.front().len(), 60);
    }

    #[test]
    fn over_the_limit_nothing_is_taken() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        let _first = offer(&mut queue, LIMIT - 5, now);
        let mut second = offer(&mut queue, 6, now);
        assert_eq!(
            second.try_recv(),
            Ok(Err(InputError::Full { pending: LIMIT - 5 }))
        );
        assert_eq!(queue.bytes.len(), LIMIT - 5);
        let mut third = offer(&mut queue, 5, now);
        assert_eq!(third.try_recv(), Err(TryRecvError::Empty));
    }

    #[test]
    fn a_large_input_is_taken_for_as_long_as_it_is_read() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        let mut answer = offer(&mut queue, 3 * LIMIT, now);
        let later = now + STALL / 2;
        queue.expire(later);
        queue.advance(LIMIT, later);
        queue.expire(now + STALL);
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
        queue.advance(2 * LIMIT, later + STALL);
        assert_eq!(answer.try_recv(), Ok(Ok(0)));
    }

    #[test]
    fn a_large_input_that_is_not_read_is_given_up() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        let mut answer = offer(&mut queue, 3 * LIMIT, now);
        queue.advance(65_536, now);
        queue.expire(now + STALL);
        assert_eq!(
            answer.try_recv(),
            Ok(Err(InputError::Stalled { taken: 65_536 }))
        );
        assert!(queue.is_empty());
    }

    #[test]
    fn closing_answers_every_call() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        let mut answers = [offer(&mut queue, 10, now), offer(&mut queue, 10, now)];
        queue.close();
        for answer in &mut answers {
            assert_eq!(answer.try_recv(), Ok(Err(InputError::Closed)));
        }
    }

    #[test]
    fn an_answer_of_the_terminal_is_never_in_the_middle_of_an_input() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        let mut typed = offer(&mut queue, 10, now);
        queue.advance(4, now);
        queue.answer(b"answer");
        let mut after = offer(&mut queue, 10, now);
        assert_eq!(queue.bytes.len(), 22);
        queue.advance(6, now);
        assert_eq!(typed.try_recv(), Ok(Ok(0)));
        assert_eq!(&queue.front()[..6], b"answer");
        queue.advance(6, now);
        assert_eq!(after.try_recv(), Err(TryRecvError::Empty));
        queue.advance(10, now);
        assert_eq!(after.try_recv(), Ok(Ok(0)));
    }

    #[test]
    fn questions_without_a_reader_are_not_answered_for_ever() {
        let mut queue = Queue::new(Instant::now());
        for _ in 0..1000 {
            queue.answer(&[b'x'; 4096]);
        }
        assert!(queue.bytes.len() <= LIMIT);
    }
}
