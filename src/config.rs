//! The settings, read once at the start from `SIDECAR_*` environment variables.

mod protection;
mod warnings;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::level_filters::LevelFilter;

use crate::audit::{Audit, FILE};
use crate::policy::Settings;

pub use warnings::warnings;

/// All settings, valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Processes alive at once.
    pub max_processes: usize,
    /// Bytes of output kept per process.
    pub buffer_size: usize,
    /// Between the graceful and the forced end.
    pub kill_timeout: Duration,
    /// Until a finished process is forgotten; none is never.
    pub cleanup_after: Option<Duration>,
    /// Bytes that one `output` may return; none is no limit.
    pub max_output_size: Option<u64>,
    /// Where it is written down what was started, how it ended and what was refused.
    pub audit: Option<Audit>,
    /// What may be started.
    pub policy: Settings,
    /// What is told on stderr.
    pub log: LevelFilter,
}

/// A variable whose value cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    name: &'static str,
    value: OsString,
    allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Escaped: one variable, one line, whatever the value holds.
        let value = self.value.to_string_lossy().escape_debug().to_string();
        write!(
            f,
            "{}=\"{value}\" cannot be used: {}",
            self.name, self.allowed
        )
    }
}

/// A variable of this program, for people to read.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What is in force where it is not set; empty is nothing.
    pub default: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

impl Variable {
    /// The default in a word.
    pub fn shown_default(&self) -> &'static str {
        match self.default {
            "" => "none",
            default => default,
        }
    }
}

/// Every variable that is read, in the order of the documentation.
pub const VARIABLES: [Variable; 12] = [
    Variable {
        name: MAX_PROCESSES,
        default: "10",
        meaning: "processes alive at once",
    },
    Variable {
        name: BUFFER_SIZE,
        default: "1048576",
        meaning: "bytes of output kept per process",
    },
    Variable {
        name: KILL_TIMEOUT,
        default: "5000",
        meaning: "ms between the graceful and the forced end",
    },
    Variable {
        name: CLEANUP_AFTER,
        default: "1800",
        meaning: "seconds until a finished process is forgotten; 0 = never",
    },
    Variable {
        name: MAX_OUTPUT_SIZE,
        default: "0",
        meaning: "bytes that one output may return; 0 = no limit",
    },
    Variable {
        name: protection::EXECUTABLES,
        default: "",
        meaning: "programs that may run, comma-separated; turns secure mode on",
    },
    Variable {
        name: protection::COMMANDS,
        default: "",
        meaning: "commands that may run, with * for a word; turns secure mode on",
    },
    Variable {
        name: protection::DIRS,
        default: "",
        meaning: "directories in which everything runs",
    },
    Variable {
        name: protection::ENV,
        default: "",
        meaning: "variables that a call may set in secure mode, with * for any rest",
    },
    Variable {
        name: protection::PATTERNS,
        default: "",
        meaning: "regular expressions that no command may match",
    },
    Variable {
        name: AUDIT_LOG,
        default: "",
        meaning: "directory of the audit log; true = ./, temp = that of the system",
    },
    Variable {
        name: LOG,
        default: "warn",
        meaning: "what is told on stderr",
    },
];

const MAX_PROCESSES: &str = "SIDECAR_MAX_PROCESSES";
const BUFFER_SIZE: &str = "SIDECAR_BUFFER_SIZE";
const KILL_TIMEOUT: &str = "SIDECAR_KILL_TIMEOUT";
const CLEANUP_AFTER: &str = "SIDECAR_CLEANUP_AFTER";
const MAX_OUTPUT_SIZE: &str = "SIDECAR_MAX_OUTPUT_SIZE";
const AUDIT_LOG: &str = "SIDECAR_AUDIT_LOG";
const LOG: &str = "SIDECAR_LOG";

/// A buffer beyond this is a slip of the finger.
const LARGEST_BUFFER: u64 = 1 << 36;

impl Config {
    /// Reads the variables; tells everything that is wrong with them at once. A log that is
    /// asked for is made now: where it cannot be, that is wrong with its variable.
    pub fn from_env(get: impl Fn(&str) -> Option<OsString>) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader {
            get,
            problems: Vec::new(),
        };
        let config = Self {
            max_processes: reader.number(MAX_PROCESSES, 10, 1..=1 << 20),
            buffer_size: reader.number(BUFFER_SIZE, 1 << 20, 1..=LARGEST_BUFFER),
            kill_timeout: Duration::from_millis(reader.number(
                KILL_TIMEOUT,
                5000,
                0..=u64::from(u32::MAX),
            )),
            cleanup_after: Some(reader.number(CLEANUP_AFTER, 1800, 0..=u64::MAX))
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
            max_output_size: Some(reader.number(MAX_OUTPUT_SIZE, 0, 0..=u64::MAX))
                .filter(|bytes| *bytes > 0),
            policy: protection::read(&mut reader),
            audit: reader.audit(AUDIT_LOG),
            log: reader.level(LOG),
        };
        if reader.problems.is_empty() {
            Ok(config)
        } else {
            Err(reader.problems)
        }
    }
}

impl Config {
    /// What an operator should know of it, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.policy.warnings();
        warnings.extend(self.audit.as_ref().and_then(Audit::warning));
        warnings
    }
}

struct Reader<G> {
    get: G,
    problems: Vec<Problem>,
}

impl<G: Fn(&str) -> Option<OsString>> Reader<G> {
    fn number<T: TryFrom<u64>>(
        &mut self,
        name: &'static str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> T {
        let value = self.value(name);
        let number = match value.as_deref().map(parse) {
            None => Some(default),
            Some(number) => number.filter(|number| range.contains(number)),
        };
        if let Some(number) = number.and_then(|number| T::try_from(number).ok()) {
            return number;
        }
        let allowed = match (*range.start(), *range.end()) {
            (least, u64::MAX) => format!("a whole number, at least {least}"),
            (least, most) => format!("a whole number, at least {least} and at most {most}"),
        };
        self.problem(name, value.unwrap_or_default(), allowed);
        T::try_from(default)
            .ok()
            .expect("every default fits its setting")
    }

    fn level(&mut self, name: &'static str) -> LevelFilter {
        let Some(value) = self.value(name) else {
            return LevelFilter::WARN;
        };
        match value.to_str().map(str::trim) {
            Some("error") => LevelFilter::ERROR,
            Some("warn") => LevelFilter::WARN,
            Some("info") => LevelFilter::INFO,
            Some("debug") => LevelFilter::DEBUG,
            _ => {
                self.problem(name, value, "error, warn, info or debug".into());
                LevelFilter::WARN
            }
        }
    }

    fn audit(&mut self, name: &'static str) -> Option<Audit> {
        let value = self.value(name)?;
        let directory = match value.to_str().map(str::trim) {
            Some("true") => PathBuf::from("."),
            Some("temp") => std::env::temp_dir(),
            _ => PathBuf::from(&value),
        };
        match Audit::open(&directory) {
            Ok(audit) => Some(audit),
            Err(error) => {
                let allowed = format!(
                    "{} cannot be opened ({error}); true, temp or a directory to write in is allowed",
                    Path::display(&directory.join(FILE))
                        .to_string()
                        .escape_debug()
                );
                self.problem(name, value, allowed);
                None
            }
        }
    }

    /// An empty value counts as unset.
    fn value(&self, name: &str) -> Option<OsString> {
        (self.get)(name).filter(|value| !value.is_empty())
    }

    fn problem(&mut self, name: &'static str, value: OsString, allowed: String) {
        self.problems.push(Problem {
            name,
            value,
            allowed,
        });
    }
}

fn parse(value: &OsStr) -> Option<u64> {
    value.to_str()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        Config::from_env(|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        })
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn nothing_set_gives_the_defaults() {
        let config = read(&[]).unwrap();
        assert_eq!(config.max_processes, 10);
        assert_eq!(config.buffer_size, 1 << 20);
        assert_eq!(config.kill_timeout, Duration::from_secs(5));
        assert_eq!(config.cleanup_after, Some(Duration::from_mins(30)));
        assert_eq!(config.max_output_size, None);
        assert_eq!(config.policy, Settings::default());
        assert_eq!(config.log, LevelFilter::WARN);
    }

    #[test]
    fn an_empty_value_counts_as_unset() {
        assert_eq!(
            read(&[(MAX_PROCESSES, ""), (LOG, ""), (AUDIT_LOG, "")]),
            read(&[])
        );
    }

    #[test]
    fn zero_means_never_and_no_limit() {
        let config = read(&[
            (CLEANUP_AFTER, "0"),
            (MAX_OUTPUT_SIZE, "0"),
            (KILL_TIMEOUT, "0"),
        ])
        .unwrap();
        assert_eq!(config.cleanup_after, None);
        assert_eq!(config.max_output_size, None);
        assert_eq!(config.kill_timeout, Duration::ZERO);
    }

    #[test]
    fn every_bad_variable_is_told_with_its_value_and_what_is_allowed() {
        let problems = read(&[
            (MAX_PROCESSES, "0"),
            (BUFFER_SIZE, "1MB"),
            (KILL_TIMEOUT, "-1"),
            (CLEANUP_AFTER, "soon\nforged line"),
            (LOG, "loud"),
        ])
        .unwrap_err();
        assert_eq!(problems.len(), 5);
        assert_eq!(
            problems[0],
            "SIDECAR_MAX_PROCESSES=\"0\" cannot be used: a whole number, at least 1 and at most 1048576"
        );
        assert!(problems.iter().all(|problem| !problem.contains('\n')));
    }

    #[test]
    fn the_audit_log_is_made_in_the_directory_that_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path().join("logs");
        let config = read(&[(AUDIT_LOG, logs.to_str().unwrap())]).unwrap();
        assert_eq!(config.audit.unwrap().path(), logs.join(FILE));
        assert!(logs.join(FILE).is_file());
        let below = logs.join(FILE).join("a\nb");
        let problems = read(&[(AUDIT_LOG, below.to_str().unwrap())]).unwrap_err();
        assert!(
            problems.len() == 1 && problems[0].contains("a\\nb") && !problems[0].contains('\n'),
            "{problems:?}"
        );
    }

    #[test]
    fn the_table_for_people_tells_the_defaults() {
        for variable in &VARIABLES {
            assert_eq!(
                read(&[(variable.name, variable.default)]),
                read(&[]),
                "{}",
                variable.name
            );
        }
    }
}
