//! What a guard writes into the audit log: one line before its process runs, one after.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::protocol::{Exit, FromGuard, Spec};
use crate::audit::{self, Audit};
use crate::platform::{self, Host};

/// A process of which the log tells. Where there is no log, nothing is written and nothing fails.
#[derive(Debug)]
pub(super) struct Record {
    record: Option<audit::Record>,
    born: Instant,
}

impl Record {
    /// Writes the first line. Without it, nothing may run.
    pub(super) fn begin(spec: &Spec, host: &mut Host) -> io::Result<Self> {
        let record = spec.audited.as_ref().map(|audited| {
            let cwd = spec.cwd.as_deref().unwrap_or(".".as_ref());
            let record = Audit::at(audited.log.clone().into()).record(&audited.id);
            record
                .start(&audited.command, &platform::directory(Path::new(cwd)))
                .inspect_err(|error| tell(host, error))?;
            host.tell(FromGuard::Recorded.encode());
            io::Result::Ok(record)
        });
        Ok(Self {
            record: record.transpose()?,
            born: Instant::now(),
        })
    }

    /// Notes that it runs from now on.
    pub(super) fn born(&mut self) {
        self.born = Instant::now();
    }

    /// Writes the second line. Where that fails the server is told, and all else goes on.
    pub(super) fn end(&mut self, exit: Exit, host: &mut Host) {
        self.write(exit.code(), self.born.elapsed(), host);
    }

    /// The second line of what could not be run.
    pub(super) fn unborn(&mut self, host: &mut Host) {
        self.write(-1, Duration::ZERO, host);
    }

    fn write(&mut self, exit_code: i32, duration: Duration, host: &mut Host) {
        if let Some(record) = self.record.take()
            && let Err(error) = record.stop(exit_code, duration)
        {
            tell(host, &error);
        }
    }
}

fn tell(host: &mut Host, error: &io::Error) {
    host.tell(FromGuard::Unrecorded(audit::to_number(error)).encode());
}
