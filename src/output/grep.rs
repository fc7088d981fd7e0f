//! Lines that match a regular expression.

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled expression may take, and again for what it learns while it matches.
/// Matching takes time in proportion to the text, whatever the expression.
const LARGEST: usize = 1 << 20;

/// Of a longer line only so many characters are told.
const LONGEST_MATCH: usize = 500;

/// A filter of lines.
#[derive(Debug, Clone)]
pub struct Grep(Regex);

impl Grep {
    /// Compiles an expression, or tells in one line why it cannot be used.
    pub fn new(source: &str) -> Result<Self, String> {
        RegexBuilder::new(source)
            .size_limit(LARGEST)
            .dfa_size_limit(LARGEST)
            .build()
            .map(Self)
            .map_err(|error| {
                let error = error.to_string();
                // Above it is a drawing of where the error is.
                let reason = error.lines().last().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ").to_owned();
                format!("{source:?} is not a valid regular expression: {reason}")
            })
    }

    /// The first line that matches, without its line break.
    pub(super) fn first(&self, text: &str) -> Option<String> {
        let line = text.lines().find(|line| self.0.is_match(line))?;
        Some(line.chars().take(LONGEST_MATCH).collect())
    }

    /// The lines that match, each with its line break; of these the last so many.
    pub(super) fn filter(&self, text: &str, tail: Option<u64>) -> String {
        let matching = |line: &&str| self.0.is_match(line.strip_suffix('\n').unwrap_or(line));
        let lines: Vec<_> = text.split_inclusive('\n').filter(matching).collect();
        let count = tail.and_then(|count| usize::try_from(count).ok());
        let from = count.map_or(0, |count| lines.len().saturating_sub(count));
        lines[from..].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_match_are_kept_whole() {
        let text = "a error\nb\nerror c\nd\nlast error";
        let grep = Grep::new("error$").unwrap();
        assert_eq!(grep.filter(text, None), "a error\nlast error");
        let grep = Grep::new("(?i)ERROR").unwrap();
        assert_eq!(grep.filter(text, Some(2)), "error c\nlast error");
        assert_eq!(grep.filter("", None), "");
    }

    #[test]
    fn what_cannot_be_used_is_told_in_one_line() {
        for source in ["(", "[a-", "x{1000}{1000}"] {
            let sentence = Grep::new(source).unwrap_err();
            assert!(
                !sentence.contains('\n') && sentence.contains("not a valid"),
                "{sentence}"
            );
        }
    }
}
