//! The second role of this program: the keeper of one tree.
//!
//! # Theory of operation
//!
//! A server starts one guard for each process. The guard starts the leader and then only listens:
//! to its server, to the system and to its tree. Whatever the reason for the end (the server says
//! so, the server is gone, somebody asks the guard itself to end), it is one way down: ask the
//! tree, wait for at most the grace, then kill until nothing is left. The guard outlives its
//! server for exactly as long as that takes.
//!
//! Two events, two words, everywhere: the leader has **exited**; the tree is **gone**.
//!
//! Architecture invariant: one thread, no tokio, no serde, no allocation to speak of. A guard is
//! small because there may be hundreds, and simple because nobody watches it.

pub mod protocol;
mod record;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::platform::{self, Event, Host};
use protocol::{FromGuard, Pin, Spec, ToGuard};
use record::Record;

/// After so long a forced end is reported as stuck, and tried less often.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// How often a forced end looks again, at first and once it is stuck.
const EAGER: Duration = Duration::from_millis(1);
const PATIENT: Duration = Duration::from_secs(2);

/// Runs this process as a guard until its tree is gone.
pub fn main() -> ExitCode {
    match Host::enter().and_then(keep) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// How far the end of the tree has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It lives.
    No,
    /// It was asked, and has until then.
    Asked(Instant),
    /// It is being killed, since then.
    Forced { since: Instant, reported: bool },
}

fn keep(mut host: Host) -> std::io::Result<()> {
    let body = host.receive()?;
    let spec = Spec::decode(&body).ok_or(std::io::ErrorKind::InvalidData)?;
    let mut record = Record::begin(&spec, &mut host)?;
    // Before the spawn, which has the last look: most of what was swapped needs none.
    if let Some(pin) = spec.pins.iter().position(|pin| !holds(pin)) {
        record.unborn(&mut host);
        host.tell(changed(pin).encode());
        return Ok(());
    }
    match host.spawn(&spec) {
        Ok(pid) => {
            record.born();
            let containment = host.containment();
            host.tell(FromGuard::Spawned { pid, containment }.encode());
        }
        Err(error) => {
            record.unborn(&mut host);
            let told = if error.kind() == std::io::ErrorKind::StaleNetworkFileHandle {
                // By now it may be back.
                let pin = spec.pins.iter().position(|pin| !holds(pin));
                changed(pin.unwrap_or_default())
            } else {
                FromGuard::Failed(error.raw_os_error().unwrap_or(0))
            };
            host.tell(told.encode());
            return Ok(());
        }
    }
    let grace = spec.grace;
    drop((spec, body));

    let mut ending = Ending::No;
    loop {
        match host.wait(ending.patience(Instant::now()))? {
            Event::Server(frame) => match ToGuard::decode(frame) {
                Some(ToGuard::Stop { grace }) => {
                    host.tell(FromGuard::Heard.encode());
                    ending.ask(&mut host, grace);
                }
                Some(ToGuard::Interrupt) => host.interrupt(),
                None => ending.ask(&mut host, grace),
            },
            Event::ServerGone | Event::AskedToEnd => ending.ask(&mut host, grace),
            Event::Exited(exit) => {
                // First: whoever sees the end sees the line.
                record.end(exit, &mut host);
                host.tell(FromGuard::Exited(exit).encode());
            }
            Event::Empty => {
                let forced = matches!(ending, Ending::Forced { .. });
                host.tell(FromGuard::Gone { forced }.encode());
                return Ok(());
            }
            Event::Tick => {}
        }
        ending.proceed(&mut host, Instant::now());
    }
}

fn changed(pin: usize) -> FromGuard {
    FromGuard::Changed(u32::try_from(pin).unwrap_or(u32::MAX))
}

fn holds(pin: &Pin) -> bool {
    platform::identity(pin.path.as_ref()).is_ok_and(|found| found == Some(pin.identity))
}

impl Ending {
    /// Asks the tree to end, once. A later, shorter grace shortens the wait; no grace is ever
    /// extended.
    fn ask(&mut self, host: &mut Host, grace: Duration) {
        let deadline = Instant::now() + grace;
        match self {
            Self::No => {
                host.ask();
                *self = Self::Asked(deadline);
            }
            Self::Asked(until) => *until = deadline.min(*until),
            // Whoever asks again wants to hear again what is stuck.
            Self::Forced { since, reported } => {
                if std::mem::take(reported) {
                    *since = Instant::now();
                }
            }
        }
    }

    /// Goes on to the forced end when it is time, and goes on with it.
    fn proceed(&mut self, host: &mut Host, now: Instant) {
        if matches!(self, Self::Asked(until) if now >= *until) {
            *self = Self::Forced {
                since: now,
                reported: false,
            };
        }
        if let Self::Forced { since, reported } = self {
            host.kill();
            if !*reported && now.duration_since(*since) >= STUCK_AFTER {
                *reported = true;
                if let Some(pid) = host.survivor() {
                    host.tell(FromGuard::Stuck(pid).encode());
                }
            }
        }
    }

    /// How long to wait for the next event; for ever while nothing is due.
    fn patience(self, now: Instant) -> Option<Duration> {
        match self {
            Self::No => None,
            Self::Asked(until) => Some(until.saturating_duration_since(now)),
            Self::Forced {
                reported: false, ..
            } => Some(EAGER),
            Self::Forced { reported: true, .. } => Some(PATIENT),
        }
    }
}
