//! What was refused: the rule, the reason, and what to do about it.

use std::fmt;

use super::words::WordError;

/// The kinds of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The line must fall into words without a shell.
    Words,
    /// The name must be one that a file can have. Windows only.
    FileName,
    /// The program must be allowed.
    Executable,
    /// The program must lie where the allowed one does.
    Place,
    /// The program must be there, and be one.
    Program,
    /// The arguments must fit an allowed command.
    Arguments,
    /// The text must match no blocked pattern.
    Pattern,
    /// The variables must not change what runs.
    Environment,
    /// The directory must lie in an allowed one.
    Directory,
}

impl Rule {
    /// The word for it in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::FileName => "file name",
            Self::Executable => "executable",
            Self::Place => "place",
            Self::Program => "program",
            Self::Arguments => "arguments",
            Self::Pattern => "blocked pattern",
            Self::Environment => "environment",
            Self::Directory => "directory",
        }
    }
}

/// Why something may not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which rule was broken.
    pub rule: Rule,
    /// What is wrong, as in `executable "rm" is not in allowed list`.
    pub reason: String,
    /// What the caller can do.
    pub advice: String,
}

impl Refusal {
    pub(super) fn new(rule: Rule, reason: String, advice: &str) -> Self {
        Self {
            rule,
            reason,
            advice: advice.to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            reason,
            advice,
        } = self;
        write!(f, "{reason} (rule: {}); {advice}", rule.name())
    }
}

impl From<WordError> for Refusal {
    fn from(error: WordError) -> Self {
        let advice = match error {
            WordError::Metacharacter(_) | WordError::LineBreak(_) => {
                "no shell runs in secure mode, so give one program and its arguments; inside quotes the character is an \
                 ordinary one"
            }
            WordError::OpenQuote(_) => {
                "close it, or put a quote that is meant as it is into the other kind"
            }
            WordError::Nul => "leave it out",
        };
        Self::new(Rule::Words, error.to_string(), advice)
    }
}
