//! Regular expressions that come from outside, within bounds.

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled expression may take, and again for what it learns while it matches.
/// Matching takes time in proportion to the text, whatever the expression.
const LARGEST: usize = 1 << 20;

/// Where a dot stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dot {
    /// At the end of a line.
    Line,
    /// Nowhere.
    All,
}

/// Compiles an expression, or tells in one line why it cannot be used.
pub fn compile(source: &str, dot: Dot) -> Result<Regex, String> {
    RegexBuilder::new(source)
        .dot_matches_new_line(dot == Dot::All)
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST)
        .build()
        .map_err(|error| {
            let error = error.to_string();
            // Above it is a drawing of where the error is.
            let reason = error.lines().last().unwrap_or_default();
            let reason = reason.trim_start_matches("error: ");
            format!("{source:?} is not a valid regular expression: {reason}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_named_in_one_line() {
        for (source, reason) in [
            ("(", "unclosed group"),
            ("[a-", "unclosed character class"),
            (r"(a)\1", "backreferences are not supported"),
            ("x{1000}{1000}", "size limit"),
        ] {
            let sentence = compile(source, Dot::Line).unwrap_err();
            assert!(
                sentence.starts_with(&format!("{source:?} is not a valid"))
                    && sentence.contains(reason),
                "{sentence}"
            );
            assert_eq!(sentence.lines().count(), 1, "{sentence}");
        }
    }

    #[test]
    fn a_dot_stops_where_it_is_told_to() {
        assert!(!compile("a.b", Dot::Line).unwrap().is_match("a\nb"));
        assert!(compile("a.b", Dot::All).unwrap().is_match("a\nb"));
    }
}
