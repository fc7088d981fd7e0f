//! What a guard says, and what follows from it for the audit log.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::StartError;
use crate::audit::{self, Record};
use crate::guard::protocol::{Exit, FRAME, FromGuard, Pin};
use crate::platform::{self, Containment};

/// Frames from a guard, put together from whatever pieces they come in.
#[derive(Debug, Default)]
pub(super) struct Frames {
    bytes: [u8; FRAME],
    filled: usize,
}

impl Frames {
    /// The next frame; none at the end of file, or where nothing can be understood any more.
    /// Losing the future loses nothing.
    pub(super) async fn next(&mut self, control: &platform::Control) -> Option<FromGuard> {
        loop {
            if self.filled == FRAME {
                self.filled = 0;
                return FromGuard::decode(self.bytes);
            }
            control.readable().await.ok()?;
            match control.try_read(&mut self.bytes[self.filled..]) {
                Ok(0) => return None,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Waits until the leader runs, and tells its process id and how well its tree is kept.
    pub(super) async fn birth(
        &mut self,
        control: &platform::Control,
        record: Option<&Record>,
        pins: &[Pin],
    ) -> Result<(u32, Containment), StartError> {
        let mut recorded = false;
        loop {
            match self.next(control).await {
                Some(FromGuard::Spawned { pid, containment }) => return Ok((pid, containment)),
                Some(FromGuard::Failed(errno)) => {
                    let error = io::Error::from_raw_os_error(errno);
                    return Err(match error.kind() {
                        io::ErrorKind::ArgumentListTooLong => StartError::TooLarge,
                        _ => StartError::Spawn(error),
                    });
                }
                Some(FromGuard::Changed(pin)) => {
                    let pin = pins.get(pin as usize);
                    let path = pin.map(|pin| pin.path.clone()).unwrap_or_default();
                    return Err(StartError::Changed(path));
                }
                Some(FromGuard::Recorded) => recorded = true,
                Some(FromGuard::Unrecorded(number)) if recorded => unrecorded(record, number),
                Some(FromGuard::Unrecorded(number)) => {
                    return Err(StartError::Unaudited {
                        log: record.map_or_else(PathBuf::new, |of| of.audit().path().into()),
                        error: audit::from_number(number),
                    });
                }
                _ => {
                    if recorded {
                        end_record(record, Duration::ZERO);
                    }
                    return Err(StartError::GuardLost);
                }
            }
        }
    }

    pub(super) async fn next_of(
        &mut self,
        control: Option<&platform::Control>,
    ) -> Option<FromGuard> {
        match control {
            Some(control) => self.next(control).await,
            None => std::future::pending().await,
        }
    }
}

/// Writes down the end of what a guard that was killed ran.
pub(super) fn end_record(record: Option<&Record>, lived: Duration) {
    if let Some(record) = record
        && let Err(error) = record.stop_if_missing(Exit::Signal(9).code(), lived)
    {
        unrecorded(Some(record), audit::to_number(&error));
    }
}

/// Tells people what the log does not.
pub(super) fn unrecorded(record: Option<&Record>, number: i32) {
    let id = record.map(Record::id);
    let error = audit::from_number(number);
    tracing::warn!(id, %error, "the audit log cannot be written: it lacks the end of a process");
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Audit;
    use std::io::Write;

    /// What becomes of a birth of which the guard says this before it is gone, and what the log
    /// holds after it.
    async fn birth(said: &[FromGuard]) -> (Result<(u32, Containment), StartError>, String) {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::open(dir.path()).unwrap();
        let (mut guard, control) = std::os::unix::net::UnixStream::pair().unwrap();
        for frame in said {
            guard.write_all(&frame.encode()).unwrap();
        }
        drop(guard);
        control.set_nonblocking(true).unwrap();
        let control = platform::Control::from_std(control).unwrap();
        let record = audit.record("sc-a1b2c3");
        let born = Frames::default().birth(&control, Some(&record), &[]).await;
        (born, std::fs::read_to_string(audit.path()).unwrap())
    }

    #[tokio::test]
    async fn a_guard_that_dies_between_its_line_and_the_spawn_leaves_a_pair() {
        let (born, log) = birth(&[FromGuard::Recorded]).await;
        assert!(matches!(born, Err(StartError::GuardLost)), "{born:?}");
        let stop = r#""event":"stop","id":"sc-a1b2c3","exit_code":-1,"duration":"0s"}"#;
        assert!(log.ends_with(&format!("{stop}\n")), "{log}");
        let (born, log) = birth(&[]).await;
        assert!(born.is_err() && log.is_empty(), "{log}");
    }

    #[tokio::test]
    async fn without_its_line_nothing_is_born_and_with_it_the_spawn_decides() {
        let (born, _) = birth(&[FromGuard::Unrecorded(28)]).await;
        assert!(
            matches!(born, Err(StartError::Unaudited { .. })),
            "{born:?}"
        );
        let lines = [FromGuard::Recorded, FromGuard::Unrecorded(28)];
        let (born, log) = birth(&[&lines[..], &[FromGuard::Failed(2)]].concat()).await;
        assert!(
            matches!(born, Err(StartError::Spawn(_))) && log.is_empty(),
            "{born:?}"
        );
        let spawned = FromGuard::Spawned {
            pid: 7,
            containment: Containment::Exact,
        };
        let (born, _) = birth(&[FromGuard::Recorded, spawned]).await;
        assert_eq!(born.unwrap(), (7, Containment::Exact));
    }
}
