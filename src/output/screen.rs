//! The screen of a process that has a terminal: what a person would see there.
//!
//! A process draws by control sequences. [`sequences`] splits what it writes, in whatever pieces
//! that comes; what changes the screen goes to the emulator, and what asks the terminal something
//! is answered by [`questions`]. Strings for the terminal itself (titles, clipboards, images) are
//! dropped on the way: they show nothing, and some never end.
//!
//! The emulator has one cell for each character. A character without a width (an accent, a vowel
//! sign) belongs into the cell before it, so that cell then holds a stand-in for both.
//!
//! Architecture invariant: pure. The emulator is used in this file and nowhere else.
//!
//! Architecture invariant: there is no history. Memory is the size of the screen, whatever comes.

mod questions;
mod sequences;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use avt::{ScreenKind, Terminal};
use unicode_width::UnicodeWidthChar;

use super::{Output, Request, Stream, View};
use crate::platform::WindowSize;
use sequences::{Piece, Splitter};

/// What stands for a character and what belongs to it: nobody's characters, of one cell and of two.
const NARROW: std::ops::Range<u32> = 0x10_0000..0x10_1000;
const WIDE: std::ops::Range<u32> = 0x3_f000..0x3_fffe;

/// More accents on one character are noise.
const LONGEST_CLUSTER: usize = 32;

/// A terminal's screen and what is needed to go on with it.
pub struct Screen {
    terminal: Terminal,
    splitter: Splitter,
    clusters: Clusters,
}

impl Screen {
    /// Empty.
    pub fn new(size: WindowSize) -> Self {
        let terminal = Terminal::new(size.cols.max(1).into(), size.rows.max(1).into());
        let Ok(terminal) = terminal else {
            unreachable!("neither is nought")
        };
        Self {
            terminal,
            splitter: Splitter::default(),
            clusters: Clusters::default(),
        }
    }

    /// Shows what a process has written. Gives what the terminal answers to its questions.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        let Self {
            terminal,
            splitter,
            clusters,
        } = self;
        splitter.split(bytes, &mut |piece| match piece {
            Piece::Text(text) if text.is_ascii() => terminal.feed(text),
            Piece::Text(text) => {
                for c in text.chars() {
                    print(terminal, clusters, c);
                }
            }
            Piece::Sequence(sequence) => match questions::answer(sequence, &facts(terminal)) {
                Some(answer) => answers.extend_from_slice(answer.as_bytes()),
                None => terminal.feed(&*tamed(sequence, terminal.size().0)),
            },
            Piece::String(start) => {
                if let Some(answer) = questions::answer_string(start) {
                    answers.extend_from_slice(answer.as_bytes());
                }
            }
        });
        answers
    }

    /// The window has another size from now on.
    pub fn resize(&mut self, size: WindowSize) {
        self.terminal.resize(size.cols.into(), size.rows.into());
    }

    /// What a person would see: lines without blanks at their ends, and no blank lines at the end.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.terminal.screen().visible_lines() {
            for c in line.chars() {
                match self.clusters.get(c) {
                    Some(cluster) => text.push_str(cluster),
                    None => text.push(c),
                }
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text.truncate(text.trim_end_matches('\n').len());
        text
    }

    /// What of it a reader asked to see. There is no before and after on a screen.
    pub fn view(&self, request: Request) -> View {
        // A text like any other to select from.
        let mut shown = Output::new(usize::MAX);
        shown.push(Stream::Out, self.text().as_bytes());
        shown.view(&Request {
            since: None,
            ..request
        })
    }

    /// Whether its program draws all of it and leaves nothing of it behind: an editor, a pager.
    pub fn is_drawn(&self) -> bool {
        self.terminal.active_screen_kind() == ScreenKind::Alternate
    }

    /// Whether the arrow keys are those of an application (DECCKM).
    pub fn application_cursor(&self) -> bool {
        self.terminal.cursor_key_app_mode()
    }
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").finish_non_exhaustive()
    }
}

/// A few bytes that ask for a character sixty thousand times get one line of them.
fn tamed(sequence: &str, cols: usize) -> Cow<'_, str> {
    let count = sequence
        .strip_prefix("\x1b[")
        .and_then(|rest| rest.strip_suffix('b'));
    match count {
        Some(count)
            if count
                .parse()
                .map_or(count.len() > 4, |count: usize| count > cols) =>
        {
            format!("\x1b[{cols}b").into()
        }
        _ => sequence.into(),
    }
}

/// What questions are about.
struct Facts {
    cols: usize,
    rows: usize,
    /// Counted from one.
    column: usize,
    row: usize,
    cursor_visible: bool,
    application_cursor: bool,
}

fn facts(terminal: &Terminal) -> Facts {
    let (cols, rows) = terminal.size();
    let cursor = terminal.cursor();
    Facts {
        cols,
        rows,
        // After the last column it stands on the last column, until something is printed.
        column: (cursor.col + 1).min(cols),
        row: cursor.row + 1,
        cursor_visible: cursor.visible,
        application_cursor: terminal.cursor_key_app_mode(),
    }
}

fn print(terminal: &mut Terminal, clusters: &mut Clusters, c: char) {
    match c {
        '\u{80}'..='\u{9f}' => {}
        _ if NARROW.contains(&c.into()) || WIDE.contains(&c.into()) => {
            terminal.feed(char::REPLACEMENT_CHARACTER);
        }
        _ if c.width() == Some(0) && !c.is_ascii() => add_mark(terminal, clusters, c),
        _ => terminal.feed(c),
    }
}

/// Puts a character without a width into the cell before the cursor.
fn add_mark(terminal: &mut Terminal, clusters: &mut Clusters, mark: char) {
    let cursor = terminal.cursor();
    let Some(line) = terminal.screen().line(cursor.row) else {
        return;
    };
    let cells = line.cells();
    // The second half of a wide character is a cell without a width.
    let whole = |column: &usize| cells.get(*column).is_some_and(|cell| cell.width() > 0);
    let Some(column) = (cursor.col.saturating_sub(2)..cursor.col).rev().find(whole) else {
        return;
    };
    let base = &cells[column];
    if let Some(both) = clusters.join(base.char(), base.width() > 1, mark) {
        terminal.feed(format!("\x1b[{}G", column + 1));
        terminal.feed(both);
    }
}

/// Characters together with what belongs to them, and what stands for each.
#[derive(Default)]
struct Clusters {
    known: HashMap<String, char>,
    narrow: Vec<String>,
    wide: Vec<String>,
}

impl Clusters {
    fn get(&self, c: char) -> Option<&str> {
        let at = |range: std::ops::Range<u32>| (u32::from(c) - range.start) as usize;
        if NARROW.contains(&c.into()) {
            self.narrow.get(at(NARROW)).map(String::as_str)
        } else if WIDE.contains(&c.into()) {
            self.wide.get(at(WIDE)).map(String::as_str)
        } else {
            None
        }
    }

    /// What stands for a character and a mark on it; none where there are too many already.
    fn join(&mut self, base: char, is_wide: bool, mark: char) -> Option<char> {
        let mut both = self.get(base).map_or_else(|| base.to_string(), Into::into);
        both.push(mark);
        if let Some(known) = self.known.get(&both) {
            return Some(*known);
        }
        let (list, mut free) = if is_wide {
            (&mut self.wide, WIDE)
        } else {
            (&mut self.narrow, NARROW)
        };
        let stand_in = char::from_u32(free.nth(list.len())?)?;
        if both.len() > LONGEST_CLUSTER {
            return None;
        }
        list.push(both.clone());
        self.known.insert(both, stand_in);
        Some(stand_in)
    }
}

#[cfg(test)]
mod tests;
