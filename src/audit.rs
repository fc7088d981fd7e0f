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

/// How much of the log is searched for a line that was written a moment ago.
const SEARCHED: u64 = 256 << 10;

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
    /// that one that cannot be is noticed now. One that could be opened and is not trusted, a link
    /// for example, fails when it is written to ([`Self::check`]).
    pub fn open(directory: &Path) -> io::Result<Self> {
        let directory = std::path::absolute(directory)?;
        std::fs::create_dir_all(&directory)?;
        let audit = Self::at(directory.join(FILE));
        match audit.check() {
            Err(error) if to_number(&error) != NOT_A_LOG => Err(error),
            _ => Ok(audit),
        }
    }

    /// Whether a line could be written now.
    pub fn check(&self) -> io::Result<()> {
        platform::open_log(&self.path).map(drop)
    }

    /// What an operator should know of it.
    pub fn warning(&self) -> Option<String> {
        let mode = platform::shared_mode(&self.path)?;
        Some(format!(
            "SIDECAR_AUDIT_LOG: others may read or write {} (mode {mode:o}), which was there before; chmod 600 makes \
             it its owner's alone",
            self.path.to_string_lossy().escape_debug()
        ))
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

    /// Writes down that a command was refused. Of a very long one only the beginning: nothing of it
    /// has run, and who is refused must not fill the disk.
    pub fn blocked(&self, command: &str, reason: &str) -> io::Result<()> {
        const MOST: usize = 64 << 10;
        if command.len() <= MOST {
            return self.write(Event::Blocked { command, reason });
        }
        let beginning = &command[..command.floor_char_boundary(MOST)];
        let command = &format!("{beginning}... (cut, {} bytes in all)", command.len());
        self.write(Event::Blocked { command, reason })
    }

    fn write(&self, event: Event<'_>) -> io::Result<()> {
        append::append(&self.path, &line(SystemTime::now(), event))
    }
}

impl Record {
    /// Whose they are.
    pub fn id(&self) -> &str {
        &self.id
    }

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

    /// The same, where whoever should have done so may have been killed before or after it did.
    pub fn stop_if_missing(&self, exit_code: i32, duration: Duration) -> io::Result<()> {
        let id = &self.id;
        let newest = append::newest(&self.audit.path, SEARCHED)?;
        let begun = newest.rfind(&format!("\"event\":\"start\",\"id\":\"{id}\""));
        let ended = newest.rfind(&format!("\"event\":\"stop\",\"id\":\"{id}\""));
        if ended.is_some() && ended > begun {
            return Ok(());
        }
        self.stop(exit_code, duration)
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

/// An error as a number, for a message between two processes: the system's own, which are
/// positive, or one of ours.
pub fn to_number(error: &io::Error) -> i32 {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => number,
        (None, io::ErrorKind::InvalidInput) => NOT_A_LOG,
        (None, _) => FULL,
    }
}

/// The error that a number stands for.
pub fn from_number(number: i32) -> io::Error {
    match number {
        NOT_A_LOG => platform::not_a_log(),
        FULL => io::ErrorKind::StorageFull.into(),
        number => io::Error::from_raw_os_error(number),
    }
}

const NOT_A_LOG: i32 = 0;
const FULL: i32 = -1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_is_told_already_is_not_told_twice() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::open(dir.path()).unwrap();
        let record = audit.record("sc-a1b2c3");
        let count = || {
            let text = std::fs::read_to_string(audit.path()).unwrap();
            text.matches("\"stop\"").count()
        };
        // Another server's, which had the same id.
        record.stop(0, Duration::ZERO).unwrap();
        record.start("true", dir.path()).unwrap();
        audit.record("sc-d4e5f6").stop(0, Duration::ZERO).unwrap();
        // No command can look like one.
        audit
            .record("sc-000000")
            .start(r#""event":"stop","id":"sc-a1b2c3""#, dir.path())
            .unwrap();
        assert_eq!(count(), 2);
        record.stop_if_missing(-1, Duration::ZERO).unwrap();
        assert_eq!(count(), 3);
        record.stop_if_missing(-1, Duration::ZERO).unwrap();
        assert_eq!(count(), 3);
    }

    #[test]
    fn a_directory_is_made_and_the_log_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::open(&dir.path().join("a/b")).unwrap();
        assert_eq!(audit.path(), dir.path().join("a/b/sidecar-audit.jsonl"));
        assert_eq!(std::fs::read(audit.path()).unwrap(), b"");
        std::fs::write(dir.path().join("file"), "").unwrap();
        Audit::open(&dir.path().join("file/c")).unwrap_err();
    }

    #[test]
    fn a_relative_directory_means_the_one_of_now() {
        let here = std::env::current_dir().unwrap();
        let audit = Audit::open(Path::new("target")).unwrap();
        assert_eq!(audit.path(), here.join("target").join(FILE));
    }

    #[test]
    fn a_log_is_one_file_for_all_that_happens() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::open(dir.path()).unwrap();
        let record = audit.record("sc-a1b2c3");
        record.start("echo \n", Path::new("/app")).unwrap();
        audit.blocked("rm\n-rf", "not \"allowed\"").unwrap();
        record.stop(-1, Duration::from_secs(63)).unwrap();
        let text = std::fs::read_to_string(audit.path()).unwrap();
        let events: Vec<_> = text.lines().map(|line| &line[29..]).collect();
        assert_eq!(
            events,
            [
                r#""event":"start","id":"sc-a1b2c3","command":"echo \n","cwd":"/app"}"#,
                r#""event":"blocked","command":"rm\n-rf","reason":"not \"allowed\""}"#,
                r#""event":"stop","id":"sc-a1b2c3","exit_code":-1,"duration":"1m3s"}"#,
            ]
        );
    }

    #[test]
    fn of_a_long_refused_command_the_beginning_is_kept_and_a_mark_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::open(dir.path()).unwrap();
        let whole = "x".repeat(64 << 10);
        audit.blocked(&whole, "").unwrap();
        audit.blocked(&format!("{whole}x"), "").unwrap();
        audit.blocked(&"☃".repeat(1 << 20), "").unwrap();
        // What has run is told whole.
        audit
            .record("sc-000000")
            .start(&format!("{whole}x"), Path::new("/"))
            .unwrap();
        let text = std::fs::read_to_string(audit.path()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains(&format!("\"{whole}\"")));
        assert!(lines[1].contains(&format!("\"{whole}... (cut, 65537 bytes in all)\"")));
        assert!(lines[2].len() < 70_000 && lines[2].contains("☃... (cut, 3145728 bytes in all)"));
        assert!(lines[3].contains(&format!("\"{whole}x\"")));
    }

    #[test]
    #[cfg(unix)]
    fn a_log_that_was_renamed_or_removed_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::open(dir.path()).unwrap();
        for round in ["renamed", "removed"] {
            audit.blocked(round, "").unwrap();
            let old = dir.path().join("old");
            std::fs::rename(audit.path(), &old).unwrap();
            assert!(std::fs::read_to_string(&old).unwrap().contains(round));
            std::fs::remove_file(old).unwrap();
        }
        audit.blocked("after", "").unwrap();
        let text = std::fs::read_to_string(audit.path()).unwrap();
        assert!(text.contains("after") && text.lines().count() == 1);
    }

    #[test]
    fn errors_travel_as_numbers() {
        for error in [
            platform::not_a_log(),
            io::ErrorKind::StorageFull.into(),
            io::Error::from_raw_os_error(28),
        ] {
            let heard = from_number(to_number(&error));
            assert_eq!(heard.to_string(), error.to_string());
        }
    }
}
