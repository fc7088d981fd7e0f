//! What a process has written: kept raw, made readable when somebody looks.
//!
//! This is the only door to its parts. [`ring`] keeps bytes with their absolute positions,
//! [`clean`] turns a raw line into what a person would see, [`fresh`] leaves out what a reader has
//! seen of it, [`view`] selects and cuts. [`screen`] is what stands on a terminal.
//!
//! A cursor is the number of bytes of both streams together that had been shown or could have been:
//! one plain number for two streams. What it means in each of them is remembered for those that
//! were given out, which are few; the bytes that came between two readings need no index. It stops
//! before half a character and half an escape sequence, and nothing behind it is ever shown, so
//! that each byte is on exactly one side of it.
//!
//! Architecture invariant: capture is [`Output::push`] and nothing else. Nothing on the way in
//! looks for lines, characters or escape sequences in what is kept, so a flood costs a copy.
//!
//! Architecture invariant: pure. No clock, no lock, no input or output.

mod clean;
mod fresh;
mod grep;
mod ring;
mod screen;
mod view;

use std::collections::VecDeque;

pub use grep::Grep;
use ring::Ring;
pub use screen::Screen;
pub use view::{Request, View};

/// Cursors that are remembered. One that is older is taken for the next older one that is known,
/// or for the beginning: a reader then gets something twice, and nothing never.
const MOST_MARKS: usize = 4096;

/// Which of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The newest output of one process, both streams within one bound.
#[derive(Debug)]
pub struct Output {
    out: Ring,
    err: Ring,
    capacity: usize,
    /// What each cursor that was given out means, oldest first.
    marks: VecDeque<Mark>,
}

/// A moment in both streams. Its cursor is how many bytes had come by then: a plain number, which
/// no two moments share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    out: u64,
    err: u64,
}

/// Where a search goes on: everything before was looked at.
#[derive(Debug, Clone, Copy)]
pub struct Place(Mark);

impl Mark {
    fn cursor(self) -> u64 {
        self.out + self.err
    }
}

impl Output {
    /// Keeps at most `capacity` bytes of both streams together.
    pub fn new(capacity: usize) -> Self {
        Self {
            out: Ring::default(),
            err: Ring::default(),
            capacity,
            marks: VecDeque::new(),
        }
    }

    /// Takes what was read from a stream. The oldest bytes make room: of the stream that holds
    /// more than its half first, so that a flood on one never pushes the other out.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let (out, err) = match stream {
            Stream::Out => (self.out.len() + bytes.len(), self.err.len()),
            Stream::Err => (self.out.len(), self.err.len() + bytes.len()),
        };
        let (out_room, err_room) = self.rooms(out, err);
        let (own, own_room, other, other_room) = match stream {
            Stream::Out => (&mut self.out, out_room, &mut self.err, err_room),
            Stream::Err => (&mut self.err, err_room, &mut self.out, out_room),
        };
        other.keep(other_room);
        own.push(bytes, own_room);
    }

    /// Notes that nothing more will come on a stream: what looks unfinished is.
    pub fn end(&mut self, stream: Stream) {
        match stream {
            Stream::Out => self.out.ended = true,
            Stream::Err => self.err.ended = true,
        }
    }

    /// Bytes held and shown, both streams.
    pub fn size(&self) -> usize {
        let (out, err) = self.shown();
        out.len() + err.len()
    }

    /// What a reader asked to see.
    pub fn view(&mut self, request: &Request) -> View {
        let cursor = self.cursor();
        let (out, err) = match request.since {
            None => self.whole(self.shown()),
            Some(since) => self.shown_since(self.mark(since)),
        };
        view::view(&out, &err, request, cursor)
    }

    /// The cursor of what comes next.
    pub fn cursor(&mut self) -> u64 {
        let now = Mark {
            out: self.out.end() - self.out.open(clean::open_length) as u64,
            err: self.err.end() - self.err.open(clean::open_length) as u64,
        };
        if self.marks.back() != Some(&now) {
            self.marks.push_back(now);
            let surplus = self.marks.len().saturating_sub(MOST_MARKS);
            self.marks.drain(..surplus);
        }
        now.cursor()
    }

    /// Where a search begins that looks at what came after a cursor, or at all that is held.
    pub fn place(&self, since: Option<u64>) -> Place {
        Place(self.mark(since.unwrap_or(0)))
    }

    /// The first line that matches, also an unfinished one. Where none does, `place` moves on.
    pub fn search(&self, grep: &Grep, place: &mut Place) -> Option<String> {
        let (out, err) = self.shown_since(place.0);
        let found = [out, err]
            .iter()
            .find_map(|shown| grep.first(&fresh::fresh(*shown, false)));
        place.0 = Mark {
            out: self.out.unfinished().max(place.0.out),
            err: self.err.unfinished().max(place.0.err),
        };
        found
    }

    /// The newest moment that is known and not after the cursor. One that is ahead of everything
    /// is of an earlier process of that name, and means nothing here.
    fn mark(&self, cursor: u64) -> Mark {
        let ahead = self.marks.back().is_some_and(|now| now.cursor() < cursor);
        let cursor = if ahead { 0 } else { cursor };
        let known = self.marks.partition_point(|mark| mark.cursor() <= cursor);
        match known.checked_sub(1).and_then(|at| self.marks.get(at)) {
            Some(mark) => *mark,
            None => Mark { out: 0, err: 0 },
        }
    }

    fn shown_since(&self, mark: Mark) -> (ring::Shown<'_>, ring::Shown<'_>) {
        let (out_room, err_room) = self.rooms(self.out.len(), self.err.len());
        self.whole((
            self.out.shown_since(mark.out, out_room),
            self.err.shown_since(mark.err, err_room),
        ))
    }

    /// Without what a later write will complete.
    fn whole<'a>(
        &self,
        (out, err): (ring::Shown<'a>, ring::Shown<'a>),
    ) -> (ring::Shown<'a>, ring::Shown<'a>) {
        (
            out.without_last(self.out.open(clean::open_length)),
            err.without_last(self.err.open(clean::open_length)),
        )
    }

    fn shown(&self) -> (ring::Shown<'_>, ring::Shown<'_>) {
        let (out_room, err_room) = self.rooms(self.out.len(), self.err.len());
        (self.out.shown(out_room), self.err.shown(err_room))
    }

    /// What each stream may hold when they hold or want this much.
    fn rooms(&self, out: usize, err: usize) -> (usize, usize) {
        let half = self.capacity / 2;
        (
            half.max(self.capacity.saturating_sub(err)),
            (self.capacity - half).max(self.capacity.saturating_sub(out)),
        )
    }
}

#[cfg(test)]
mod readers;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(output: &mut Output) -> View {
        output.view(&Request::default())
    }

    #[test]
    fn a_flood_on_one_stream_leaves_the_other_alone() {
        let mut output = Output::new(1000);
        output.push(Stream::Err, b"the error\n");
        for number in 0..1000 {
            output.push(Stream::Out, format!("line {number}\n").as_bytes());
        }
        let view = all(&mut output);
        assert_eq!(view.stderr, "the error\n");
        assert!(view.stdout.ends_with("line 998\nline 999\n"));
        assert!(view.stdout.len() > 900);
    }

    #[test]
    fn one_stream_may_use_all_the_room_until_the_other_wants_its_half() {
        let mut output = Output::new(100);
        output.push(Stream::Out, &b"out\n".repeat(25));
        assert_eq!(all(&mut output).stdout.len(), 100);
        output.push(Stream::Err, &b"err\n".repeat(25));
        let view = all(&mut output);
        assert_eq!((view.stdout.len(), view.stderr.len()), (48, 48));
    }

    #[test]
    fn a_line_longer_than_the_buffer_keeps_its_newest_part_and_what_follows() {
        let mut output = Output::new(100);
        output.push(Stream::Out, &[&[b'x'; 500][..], b"TAIL\n"].concat());
        output.push(Stream::Out, b"after\n");
        let view = all(&mut output);
        assert!(view.stdout.ends_with("xxTAIL\nafter\n"), "{}", view.stdout);
        assert_eq!(view.stdout.len(), 100);
    }

    #[test]
    fn nothing_but_newlines_stays_bounded() {
        let mut output = Output::new(1000);
        for _ in 0..1000 {
            output.push(Stream::Out, &[b'\n'; 4096]);
        }
        assert_eq!(output.size(), 1000);
    }

    #[test]
    fn a_read_larger_than_the_buffer_leaves_whole_lines() {
        let mut output = Output::new(10);
        output.push(Stream::Out, b"first\nsecond\nthird\nlast\n");
        assert_eq!(all(&mut output).stdout, "last\n");
    }

    #[test]
    fn a_buffer_of_one_byte_works() {
        let mut output = Output::new(1);
        output.push(Stream::Out, b"ab");
        output.push(Stream::Err, b"cd");
        assert_eq!(all(&mut output).stderr, "d");
        assert_eq!(all(&mut output).stdout, "");
    }

    /// The contract in the plainest words: two lists of lines, of which the oldest go.
    #[derive(Default)]
    struct Model {
        out: Vec<u8>,
        err: Vec<u8>,
    }

    impl Model {
        /// The whole lines at the end of `text` that fit in `room`; a line that is longer than
        /// all the room keeps its end.
        fn newest(text: &[u8], room: usize) -> &[u8] {
            let from = text.len().saturating_sub(room);
            if from == 0 {
                return text;
            }
            let line = text[..from]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            if line == from {
                return &text[from..];
            }
            match text[from..].iter().position(|byte| *byte == b'\n') {
                Some(end) if from + end + 1 - line <= room => &text[from + end + 1..],
                _ => &text[from..],
            }
        }
    }

    proptest! {
        #[test]
        fn both_streams_hold_what_the_contract_says(
            capacity in 1_usize..64,
            pushes in prop::collection::vec((any::<bool>(), "[ab\n]{0,40}"), 0..30),
        ) {
            let mut output = Output::new(capacity);
            let mut model = Model::default();
            let (mut out_held, mut err_held) = (0, 0);
            for (to_out, text) in pushes {
                let stream = if to_out { Stream::Out } else { Stream::Err };
                output.push(stream, text.as_bytes());
                if to_out {
                    model.out.extend_from_slice(text.as_bytes());
                    out_held += text.len();
                } else {
                    model.err.extend_from_slice(text.as_bytes());
                    err_held += text.len();
                }
                let half = capacity / 2;
                let (out_room, err_room) = (
                    half.max(capacity.saturating_sub(err_held)),
                    (capacity - half).max(capacity.saturating_sub(out_held)),
                );
                (out_held, err_held) = (out_held.min(out_room), err_held.min(err_room));
                prop_assert!(output.size() <= capacity);
                let view = output.view(&Request::default());
                let seen = Model::newest(&model.out, out_held);
                prop_assert_eq!(view.stdout.as_bytes(), seen);
                let seen = Model::newest(&model.err, err_held);
                prop_assert_eq!(view.stderr.as_bytes(), seen);
            }
        }
    }
}
