//! The audit log: what was started, how it ended, what was refused.
//!
//! The two lines of a process are its guard's: the guard alone is there before the process is
//! and sees its end in every case, also after the server was killed. The server writes what was
//! refused, and the end of a process whose guard was killed.
//!
//! Architecture invariant: no lock, no thread, no tokio, no serde. A guard does all of this while
//! nobody watches it.

mod append;
mod line;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::platform;

pub use line::{Event, line};

/// The log's name in its directory.
pub const FILE: &str = "sidecar-audit.jsonl";

/// A log, by its place. It is opened for each line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    path: PathBuf,
}

/// The two lines of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    audit: Audit,
    id: String,
}

impl Audit {
    /// The log in this directory, which is made where there is none. The log is made as well, so
    /// that one that cannot be is noticed now.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let directory = std::path::absolute(directory)?;
        std::fs::create_dir_all(&directory)?;
        let audit = Self::at(directory.join(FILE));
        platform::open_log(&audit.path)?;
        Ok(audit)
    }

    /// The log that this file is.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What belongs to the process with this id.
    pub fn record(&self, id: &str) -> Record {
        Record {
            audit: self.clone(),
            id: id.into(),
        }
    }

    /// Writes down that a command was refused.
    pub fn blocked(&self, command: &str, reason: &str) -> io::Result<()> {
        self.write(Event::Blocked { command, reason })
    }

    fn write(&self, event: Event<'_>) -> io::Result<()> {
        append::append(&self.path, &line(SystemTime::now(), event))
    }
}

impl Record {
    /// Its log.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Writes down that a command is about to run there.
    pub fn start(&self, command: &str, cwd: &Path) -> io::Result<()> {
        self.audit.write(Event::Start {
            id: &self.id,
            command,
            cwd: &cwd.to_string_lossy(),
        })
    }

    /// Writes down that it has ended.
    pub fn stop(&self, exit_code: i32, duration: Duration) -> io::Result<()> {
        self.audit.write(Event::Stop {
            id: &self.id,
            exit_code,
            duration,
        })
    }
}
