//! Lines that match a regular expression.

use regex::Regex;

use crate::expression::{Dot, compile};

/// Of a longer line only so many characters are told.
const LONGEST_MATCH: usize = 500;

/// A filter of lines.
#[derive(Debug, Clone)]
pub struct Grep(Regex);

impl Grep {
    /// Compiles an expression, or tells in one line why it cannot be used.
    pub fn new(source: &str) -> Result<Self, String> {
        compile(source, Dot::Line).map(Self)
    }

    /// The first line that matches, without its line break.
    pub(super) fn first(&self, text: &str) -> Option<String> {
        let line = text.lines().find(|line| self.0.is_match(line))?;
        Some(line.chars().take(LONGEST_MATCH).collect())
    }

    /// Whether a line matches; its line break is no part of it.
    pub(super) fn matches(&self, line: &str) -> bool {
        self.0.is_match(line.strip_suffix('\n').unwrap_or(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_is_no_part_of_a_line() {
        let grep = Grep::new("error$").unwrap();
        assert!(grep.matches("an error\n") && grep.matches("an error"));
        assert!(!grep.matches("errors\n"));
        assert!(!Grep::new(r"\n").unwrap().matches("a\n"));
    }
}
