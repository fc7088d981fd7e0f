//! Blocked patterns: a tripwire on the text of commands.
//!
//! A pattern sees the command as it was given and as words, so that quotes and spacing do not hide
//! a match, within quotes neither. It cannot see what a program makes of its arguments.

use regex::Regex;

use super::paths::Flavour;
use super::words::{self, Word};
use crate::expression::{Dot, compile};

/// Regular expressions that no command may match.
#[derive(Debug, Clone, Default)]
pub struct Patterns(Vec<Regex>);

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.0
            .iter()
            .map(Regex::as_str)
            .eq(other.0.iter().map(Regex::as_str))
    }
}

impl Eq for Patterns {}

impl Patterns {
    /// Compiles each of them, or tells of the first that cannot be used, in one line.
    pub fn new(sources: &[String]) -> Result<Self, String> {
        sources
            .iter()
            // A line break in the command must not hide what follows it.
            .map(|source| compile(source, Dot::All))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The pattern that matches a command which a shell will read.
    pub(super) fn match_line(&self, line: &str, flavour: Flavour) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        let escape = match flavour {
            Flavour::Unix => '\\',
            Flavour::Windows => '^',
        };
        self.match_words(line, &words::guess(line, None))
            .or_else(|| self.match_words(line, &words::guess(line, Some(escape))))
    }

    /// The pattern that matches a command or these words of it.
    pub(super) fn match_words(&self, line: &str, words: &[Word]) -> Option<&str> {
        let words = || words.iter().map(|word| word.text.as_str());
        let joined = words().collect::<Vec<_>>().join(" ");
        // An empty word between two others must not hide that they are neighbours.
        let dense = words()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        // Nor must more than one blank in quotes, for whoever splits the word again.
        let plain = joined.split_whitespace().collect::<Vec<_>>().join(" ");
        self.0
            .iter()
            .find(|pattern| {
                [line, &joined, &dense, &plain]
                    .iter()
                    .any(|text| pattern.is_match(text))
            })
            .map(Regex::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(sources: &[&str]) -> Result<Patterns, String> {
        let sources: Vec<_> = sources.iter().map(ToString::to_string).collect();
        Patterns::new(&sources)
    }

    #[test]
    fn what_cannot_be_compiled_is_named_in_one_line() {
        for (source, reason) in [
            ("([", "unclosed character class"),
            ("(?<name", "unclosed"),
            (r"(a)\1", "backreferences are not supported"),
            ("(?=a)", "look-around"),
            ("((a{1000}){1000}){1000}", "size limit"),
        ] {
            let error = patterns(&["ok", source]).unwrap_err();
            assert!(
                error.contains(reason) && error.contains(&format!("{source:?}")),
                "{error}"
            );
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn quotes_spacing_and_escapes_hide_nothing_from_a_pattern() {
        let blocked = patterns(&["push --force", "^rm .*-rf"]).unwrap();
        for line in [
            "git push --force",
            "git  push   --force",
            "git push --fo\"rce\"",
            "git pu''sh '--force'",
            "sh -c \"git push  --force\"",
            "sh -c 'git push\t\n --force'",
            "git push \"\" --force",
            "git push\n--force",
            r"git pu\sh --force",
            "'rm' x\n-rf",
            "rm \"a\nb\" -rf",
        ] {
            assert!(blocked.match_line(line, Flavour::Unix).is_some(), "{line}");
        }
        assert_eq!(blocked.match_line("git push --f^orce", Flavour::Unix), None);
        assert_eq!(
            blocked.match_line("git push --f^orce", Flavour::Windows),
            Some("push --force")
        );
        assert_eq!(blocked.match_line("git push", Flavour::Unix), None);
    }

    #[test]
    fn a_hostile_pattern_and_a_long_command_take_no_long_time() {
        let blocked = patterns(&["(a+)+$", "(x*)*y", "(a|aa)+b"]).unwrap();
        let line = format!("{}!", "a".repeat(1 << 17));
        let start = std::time::Instant::now();
        assert_eq!(blocked.match_line(&line, Flavour::Unix), None);
        assert!(start.elapsed() < std::time::Duration::from_secs(20));
    }
}
