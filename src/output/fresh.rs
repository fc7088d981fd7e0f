//! What a reader has not seen yet, of a stream that it has read before.
//!
//! Only the first line can be one that it knows: as it was when it was shown. Of a line that has
//! grown it gets the rest, of a line that was drawn again all of it.

use std::borrow::Cow;

use super::clean::{clean, goes_back};
use super::grep::Grep;
use super::ring::Shown;

/// All that is new.
pub(super) fn fresh(shown: Shown<'_>, raw: bool) -> String {
    let bytes = shown.bytes();
    if raw {
        return String::from_utf8_lossy(&bytes[shown.seen..]).into_owned();
    }
    let mut text = String::with_capacity(bytes.len());
    let rest = match Known::of(&shown, &bytes) {
        Some(known) => {
            text.push_str(known.fresh());
            &bytes[known.line.len()..]
        }
        None => &bytes,
    };
    let context = if rest.len() == bytes.len() {
        shown.context
    } else {
        &[]
    };
    clean(rest, context, &mut text);
    text
}

/// The lines that match and are new, of these the last so many, and how many bytes that belong
/// before them are gone.
///
/// A line is judged as a whole, wherever the cursor cuts it: else one that was read in two halves
/// would match in neither. It is shown as a whole too, unless it has matched before.
pub(super) fn matching(
    shown: Shown<'_>,
    grep: &Grep,
    tail: Option<u64>,
    raw: bool,
) -> (String, u64) {
    let bytes = shown.bytes();
    let known = Known::of(&shown, &bytes);
    let mut cleaned = String::with_capacity(bytes.len());
    clean(&bytes, shown.context, &mut cleaned);
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    for (number, (line, written)) in cleaned
        .split_inclusive('\n')
        .zip(bytes.split_inclusive(|byte| *byte == b'\n'))
        .enumerate()
    {
        if !grep.matches(line) {
            continue;
        }
        let known = known
            .as_ref()
            .filter(|known| number == 0 && (known.is_all() || grep.matches(&known.before)));
        let (line, written) = match known {
            Some(known) => (known.fresh(), &written[shown.seen..]),
            None => (line, written),
        };
        let line = if raw {
            String::from_utf8_lossy(written)
        } else {
            line.into()
        };
        if !line.is_empty() {
            lines.push(line);
        }
    }
    let wanted = tail.and_then(|count| usize::try_from(count).ok());
    match wanted.and_then(|wanted| lines.len().checked_sub(wanted)) {
        Some(from) => (lines[from..].concat(), 0),
        None => (lines.concat(), shown.dropped),
    }
}

/// A line of which the reader has seen the beginning.
struct Known<'a> {
    line: &'a [u8],
    seen: usize,
    /// How the beginning looks.
    before: String,
    /// How the line looks now.
    now: String,
}

impl<'a> Known<'a> {
    fn of(shown: &Shown<'_>, bytes: &'a [u8]) -> Option<Self> {
        if shown.seen == 0 {
            return None;
        }
        let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |newline| newline + 1);
        let line = &bytes[..end];
        let [mut before, mut now] = [String::new(), String::new()];
        clean(&line[..shown.seen], shown.context, &mut before);
        clean(line, shown.context, &mut now);
        Some(Self {
            line,
            seen: shown.seen,
            before,
            now,
        })
    }

    fn is_all(&self) -> bool {
        self.seen == self.line.len()
    }

    fn fresh(&self) -> &str {
        let (before, rest) = self.line.split_at(self.seen);
        let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
        match self.now.strip_prefix(self.before.as_str()) {
            // `12` that was drawn over `1` is 12, not 2.
            Some(grown) if !goes_back(before, rest) => grown,
            _ => &self.now,
        }
    }
}
