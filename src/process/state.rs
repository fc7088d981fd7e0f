//! The states of a process and what leads from one to the next.
//!
//! Architecture invariant: pure; the clock is a parameter.

use std::time::{Duration, Instant};

use crate::guard::protocol::Exit;
use crate::time::Uptime;

/// What is known of the life of a process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The leader's process id.
    pub pid: u32,
    /// When the leader was spawned.
    pub started: Instant,
    /// Whether it was asked to end before it had ended by itself.
    pub stop_asked: bool,
    /// How and when the leader ended.
    pub exited: Option<(Exit, Instant)>,
    /// Whether nothing of the tree is left.
    pub gone: bool,
    /// Whether the end of the tree took force.
    pub forced: bool,
    /// What does not end, as last reported.
    pub stuck: Option<Stuck>,
    /// Why its guard is no more, and so the leader.
    pub guard_lost: Option<Lost>,
}

/// A process of a tree that does not end, whatever is sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck {
    /// Its process id.
    pub pid: u32,
    /// When that was reported.
    pub since: Instant,
}

/// Why a guard is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Somebody killed it.
    Killed,
    /// The server did, since a debugger kept it from its work.
    Held,
}

/// What a user is told. The leader alone decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The leader lives.
    Running,
    /// It ended by itself with 0.
    Exited,
    /// It ended by itself with anything else, a signal included.
    Failed,
    /// It ended because it was stopped.
    Killed,
}

impl Life {
    /// Of a leader that was spawned just now.
    pub fn new(pid: u32, now: Instant) -> Self {
        Self {
            pid,
            started: now,
            stop_asked: false,
            exited: None,
            gone: false,
            forced: false,
            stuck: None,
            guard_lost: None,
        }
    }

    /// The state that follows from what is known.
    pub fn state(&self) -> State {
        match self.exited {
            None => State::Running,
            Some(_) if self.stop_asked => State::Killed,
            Some((Exit::Code(0), _)) => State::Exited,
            Some(_) => State::Failed,
        }
    }

    /// The leader's own code, -1 where a signal ended it, none while it runs.
    pub fn exit_code(&self) -> Option<i32> {
        self.exited.map(|(exit, _)| exit.code())
    }

    /// The signal that has ended it.
    pub fn signal(&self) -> Option<i32> {
        match self.exited {
            Some((Exit::Signal(signal), _)) => Some(signal),
            _ => None,
        }
    }

    /// How long the leader has lived, or lived.
    pub fn uptime(&self, now: Instant) -> Uptime {
        let end = self.exited.map_or(now, |(_, end)| end);
        Uptime(end.saturating_duration_since(self.started))
    }

    /// What a state and an exit code do not tell of its end.
    pub fn reason(&self) -> Option<String> {
        let fate = match self.guard_lost? {
            Lost::Killed => "killed",
            Lost::Held => "held by a debugger",
        };
        let rest = match self.stuck {
            Some(Stuck { pid, .. }) if !self.gone => {
                format!("process {pid}, which it has left, cannot be ended")
            }
            None if !self.gone => "all of it is being ended by force".into(),
            _ => "all of it was ended by force".into(),
        };
        Some(format!(
            "its guard process (sc-guard) was {fate}, so {rest}"
        ))
    }

    /// Whether its tree has nobody but the server, and can be ended.
    pub fn is_astray(&self) -> bool {
        self.guard_lost.is_some() && !self.gone && self.stuck.is_none()
    }

    /// Whether a finished process has been finished for so long.
    pub fn finished_for(&self, time: Duration, now: Instant) -> bool {
        self.exited
            .is_some_and(|(_, end)| now.saturating_duration_since(end) >= time)
    }

    /// Notes that somebody wants it to end. What has ended already ended by itself.
    pub fn ask_to_stop(&mut self) {
        self.stop_asked |= self.exited.is_none();
    }
}

impl State {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(exit: Exit, stop_asked: bool) -> Life {
        let now = Instant::now();
        Life {
            exited: Some((exit, now)),
            stop_asked,
            ..Life::new(1, now)
        }
    }

    #[test]
    fn the_leader_alone_decides() {
        assert_eq!(Life::new(1, Instant::now()).state(), State::Running);
        assert_eq!(ended(Exit::Code(0), false).state(), State::Exited);
        assert_eq!(ended(Exit::Code(3), false).state(), State::Failed);
        assert_eq!(ended(Exit::Signal(9), false).state(), State::Failed);
        assert_eq!(ended(Exit::Code(0), true).state(), State::Killed);
        assert_eq!(ended(Exit::Signal(15), true).state(), State::Killed);
    }

    #[test]
    fn a_stop_after_the_end_changes_nothing() {
        let mut life = ended(Exit::Code(0), false);
        life.ask_to_stop();
        assert_eq!(life.state(), State::Exited);
    }

    #[test]
    fn exit_codes_are_the_leaders_own() {
        assert_eq!(Life::new(1, Instant::now()).exit_code(), None);
        assert_eq!(ended(Exit::Code(255), false).exit_code(), Some(255));
        assert_eq!(ended(Exit::Signal(9), false).exit_code(), Some(-1));
    }

    #[test]
    fn uptime_stops_with_the_leader() {
        let life = ended(Exit::Code(0), false);
        assert_eq!(
            life.uptime(life.started + Duration::from_mins(1)),
            Uptime(Duration::ZERO)
        );
    }
}
