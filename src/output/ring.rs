//! Bounded bytes of one stream, each with its absolute position since the start.
//!
//! Bytes leave from the front, one by one as room is needed. Whether the first line held is whole
//! is answered when somebody looks: the ring remembers where the line began that its first byte
//! belongs to, which costs one search for a newline backwards through what leaves.

use std::borrow::Cow;
use std::collections::VecDeque;

use memchr::{memchr, memrchr};

/// How much of what has left is remembered, to recognise an escape sequence that was cut.
const CONTEXT: usize = 32;

/// A sequence that is longer and not whole is taken for text.
const LONGEST_OPEN: usize = 256;

/// A line that goes on for longer is searched from there on only, lest each byte costs all of it.
const LONGEST_SEARCHED: usize = 64 << 10;

/// Of a line that a reader has seen only so much is looked at again, lest each byte that comes
/// costs all of it.
const LONGEST_KNOWN: usize = 64 << 10;

/// The newest bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    past: Past,
    /// Nothing more will come.
    pub(super) ended: bool,
}

/// What is known of the bytes that are held no longer.
#[derive(Debug, Default)]
struct Past {
    /// How many there were: the position of the first byte held.
    count: u64,
    /// Where the line began that the first byte held belongs to.
    line: u64,
    /// The last of them.
    context: Vec<u8>,
}

/// What of a ring is shown: whole lines, but for a line that is longer than all the room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    /// How many bytes that belong before this are gone.
    pub(super) dropped: u64,
    /// What came right before, where the first line shown is not whole.
    pub(super) context: &'a [u8],
    /// How many bytes of the first line the reader has seen before: they are here because what it
    /// sees of the rest depends on them.
    pub(super) seen: usize,
}

impl Ring {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds bytes at the end and keeps the newest `room` of all.
    pub(super) fn push(&mut self, bytes: &[u8], room: usize) {
        self.keep(room.saturating_sub(bytes.len()));
        let (gone, kept) = bytes.split_at(bytes.len().saturating_sub(room));
        self.past.add(gone);
        self.reserve(kept.len(), room);
        self.bytes.extend(kept);
    }

    /// Keeps the newest `room` bytes.
    pub(super) fn keep(&mut self, room: usize) {
        let count = self.bytes.len().saturating_sub(room);
        let (head, tail) = self.bytes.as_slices();
        let in_head = count.min(head.len());
        self.past.add(&head[..in_head]);
        self.past.add(&tail[..count - in_head]);
        self.bytes.drain(..count);
    }

    /// What is shown of a stream that may hold `room` bytes.
    pub(super) fn shown(&self, room: usize) -> Shown<'_> {
        let (head, tail) = self.bytes.as_slices();
        let Past {
            count,
            line,
            context,
        } = &self.past;
        let all = Shown {
            head,
            tail,
            dropped: *count,
            context,
            seen: 0,
        };
        if line == count {
            return Shown {
                context: &[],
                ..all
            };
        }
        let end = memchr(b'\n', head).or_else(|| memchr(b'\n', tail).map(|at| at + head.len()));
        match end.map(|end| end + 1) {
            Some(next) if count + next as u64 - line <= room as u64 => all.from(next),
            _ => all,
        }
    }

    /// What is shown of what came after a position, with the beginning of the line it is in.
    pub(super) fn shown_since(&self, position: u64, room: usize) -> Shown<'_> {
        let Some(at) = position.checked_sub(self.past.count) else {
            let shown = self.shown(room);
            return Shown {
                dropped: shown.dropped.saturating_sub(position),
                ..shown
            };
        };
        let at = usize::try_from(at)
            .unwrap_or(usize::MAX)
            .min(self.bytes.len());
        let (head, tail) = self.bytes.as_slices();
        let all = Shown {
            head,
            tail,
            dropped: 0,
            context: if self.past.line == self.past.count {
                &[]
            } else {
                &self.past.context
            },
            seen: 0,
        };
        let begun = all.newline_before(at).map_or(0, |newline| newline + 1);
        let begun = begun.max(at.saturating_sub(LONGEST_KNOWN));
        Shown {
            dropped: 0,
            seen: at - begun,
            ..all.from(begun)
        }
    }

    /// Where the line begins that is not finished yet, or the part of it that is worth a search.
    pub(super) fn unfinished(&self) -> u64 {
        let (head, tail) = self.bytes.as_slices();
        let begun = memrchr(b'\n', tail)
            .map(|newline| newline + head.len() + 1)
            .or_else(|| memrchr(b'\n', head).map(|newline| newline + 1))
            .unwrap_or(0);
        let begun = begun.max(self.bytes.len().saturating_sub(LONGEST_SEARCHED));
        self.past.count + begun as u64
    }

    /// The position of the next byte.
    pub(super) fn end(&self) -> u64 {
        self.past.count + self.bytes.len() as u64
    }

    /// How many bytes at the end wait for a later write: `open` tells it of the last ones.
    pub(super) fn open(&self, open: impl FnOnce(&[u8]) -> usize) -> usize {
        if self.ended {
            return 0;
        }
        let last = self.bytes.len().saturating_sub(LONGEST_OPEN);
        let last: Vec<u8> = self.bytes.range(last..).copied().collect();
        open(&last)
    }

    /// Grows by doubling, but never beyond the room: a full ring has no slack.
    fn reserve(&mut self, more: usize, room: usize) {
        let wanted = self.bytes.len() + more;
        if wanted > self.bytes.capacity() {
            let capacity = wanted.max((2 * self.bytes.capacity()).min(room));
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }
}

impl Past {
    fn add(&mut self, bytes: &[u8]) {
        if let Some(newline) = memrchr(b'\n', bytes) {
            self.line = self.count + newline as u64 + 1;
        }
        self.count += bytes.len() as u64;
        let last = &bytes[bytes.len().saturating_sub(CONTEXT)..];
        let excess = (self.context.len() + last.len()).saturating_sub(CONTEXT);
        self.context.drain(..excess);
        self.context.extend_from_slice(last);
    }
}

impl<'a> Shown<'a> {
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The bytes in one piece.
    pub(super) fn bytes(&self) -> Cow<'a, [u8]> {
        match (self.head, self.tail) {
            (head, []) => Cow::Borrowed(head),
            ([], tail) => Cow::Borrowed(tail),
            (head, tail) => Cow::Owned([head, tail].concat()),
        }
    }

    /// The last `count` lines. What follows the last newline is a line.
    pub(super) fn last_lines(self, count: u64) -> Self {
        // The newline at the very end closes the last line, it does not begin another.
        let mut at = self.len().saturating_sub(1);
        for _ in 0..count {
            match self.newline_before(at) {
                Some(newline) => at = newline,
                None => return self,
            }
        }
        Self {
            dropped: 0,
            ..self.from(at + 1)
        }
    }

    /// Without so many bytes at the end.
    pub(super) fn without_last(self, count: usize) -> Self {
        let length = self.len() - count.min(self.len());
        let in_head = length.min(self.head.len());
        Self {
            head: &self.head[..in_head],
            tail: &self.tail[..length - in_head],
            seen: self.seen.min(length),
            ..self
        }
    }

    fn newline_before(&self, at: usize) -> Option<usize> {
        let in_head = at.min(self.head.len());
        memrchr(b'\n', &self.tail[..at - in_head])
            .map(|newline| newline + self.head.len())
            .or_else(|| memrchr(b'\n', &self.head[..in_head]))
    }

    /// From a line's start on.
    fn from(self, at: usize) -> Self {
        let in_head = at.min(self.head.len());
        let (head, tail) = (&self.head[in_head..], &self.tail[at - in_head..]);
        let context = if at == 0 { self.context } else { &[] };
        Self {
            head,
            tail,
            dropped: self.dropped + at as u64,
            context,
            seen: self.seen.saturating_sub(at),
        }
    }
}
