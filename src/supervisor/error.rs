//! What cannot be done, in sentences that a model can act on.

use crate::policy::Refusal;
use crate::process::input::InputError;
use crate::process::{Process, StartError};
use crate::time::Uptime;

/// Why a call could not be done. Each message is a sentence that the caller can act on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command is blank.
    #[error("command is empty: give a command line, such as \"npm run dev\"")]
    EmptyCommand,
    /// The name is too long for lists and sentences.
    #[error("name must be at most {LONGEST_NAME} characters long")]
    LongName,
    /// The name could be taken for an id.
    #[error("name {0:?} looks like an id, which only the server gives: use another name")]
    NameIsId(String),
    /// The name is blank.
    #[error("name is empty: give a name or leave it out")]
    EmptyName,
    /// There is no such directory.
    #[error("cwd {0:?} cannot be used: {1}; give an existing directory. Nothing was started")]
    Cwd(String, String),
    /// Somebody else would be taken for ready.
    #[error(
        "port {port} is already taken by {owner}, so nothing was started: stop that first, or use another port"
    )]
    PortTaken {
        /// The port.
        port: u16,
        /// Who listens there.
        owner: String,
    },
    /// Nobody is named.
    #[error("replace needs a name: the process of that name is stopped first")]
    ReplaceWhom,
    /// The name belongs to another process.
    #[error(
        "name {name:?} belongs to {id}, which has been running {line:?} for {uptime}, not the same command, cwd, env and pty: \
         pass replace: true to stop {id} first, or use another name"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Its owner.
        id: String,
        /// What its owner runs.
        line: String,
        /// Since when.
        uptime: Uptime,
    },
    /// No slot is free.
    #[error(
        "SIDECAR_MAX_PROCESSES allows {limit} processes at once, and so many are alive: stop one of them first ({alive})"
    )]
    Limit {
        /// The limit.
        limit: usize,
        /// Who is alive.
        alive: String,
    },
    /// The configuration does not allow it. The refusal's `reason` stands for itself in a log.
    #[error("{line:?} was refused: {refusal}. Nothing was started")]
    Refused {
        /// What was to run.
        line: String,
        /// Which rule it broke, and how.
        refusal: Refusal,
    },
    /// It did not start.
    #[error("{line:?} was not started: {error}")]
    Start {
        /// What was to run.
        line: String,
        /// What the system says.
        error: StartError,
    },
    /// Nobody has this id or name.
    #[error(
        "no process {wanted:?} is known{known}; finished processes are forgotten after a while"
    )]
    NotFound {
        /// What was asked for.
        wanted: String,
        /// Who there is instead.
        known: String,
    },
    /// It has ended, so it reads nothing.
    #[error(
        "{process} is not running: it {state} with exit code {code}{left}; start it again to send it input"
    )]
    NotRunning {
        /// Its name and id.
        process: String,
        /// How it ended.
        state: &'static str,
        /// Its exit code.
        code: i32,
        /// What is to say of its tree.
        left: &'static str,
    },
    /// This system has none.
    #[error("{0}")]
    NoTerminals(&'static str),
    /// It was started without one.
    #[error(
        "{0} has no terminal: start it with pty: true to see its screen and to set its size; output shows what it has written"
    )]
    NoTerminal(String),
    /// It did not take the input.
    #[error("input was not sent to {process}: {error}")]
    Input {
        /// Its name and id.
        process: String,
        /// Why.
        error: InputError,
    },
    /// It does not end.
    #[error(
        "process {pid} in the tree of {process} cannot be ended (it may belong to another user or wait for a device); \
         its guard goes on trying"
    )]
    Stuck {
        /// Its name and id.
        process: String,
        /// Who is left.
        pid: u32,
    },
}

/// More names in one sentence help nobody.
pub(super) const MOST_NAMED: usize = 10;

/// Names are read in lists and sentences.
pub(super) const LONGEST_NAME: usize = 100;

/// A process as messages name it.
pub(super) fn called(process: &Process) -> String {
    if process.name == process.id {
        process.id.clone()
    } else {
        format!("{} ({})", process.name.escape_debug(), process.id)
    }
}

/// The beginning of what a caller gave, for a sentence.
pub(super) fn short(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}
