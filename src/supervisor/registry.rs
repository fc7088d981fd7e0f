//! Who there is: entries in the order of their starts, and what is kept of those that are forgotten.
//!
//! Architecture invariant: changed in one step by its owner, which holds the lock; nothing here
//! waits.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::error::{MOST_NAMED, called};
use crate::process::Process;
use crate::process::command::Command;
use crate::process::state::{Life, State};

#[derive(Debug, Default)]
pub(super) struct Registry {
    /// In the order of their starts.
    pub(super) entries: Vec<Entry>,
    /// Forgotten, but something of their trees lives: still counted, still ended at the end.
    pub(super) forgotten: Vec<Arc<Process>>,
    pub(super) given: HashSet<u32>,
    /// Commands by name, the newest last, so that a name is enough to start one again.
    commands: VecDeque<(String, Command)>,
    /// Sentences for the next answer.
    unheard: VecDeque<String>,
    /// The server is about to end: what starts now is ended at once.
    pub(super) closing: bool,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) place: Place,
    /// Whether its end was mentioned.
    pub(super) mentioned: bool,
}

#[derive(Debug)]
pub(super) enum Place {
    /// A start is on its way; its end is seen by the channel's.
    Taken(watch::Receiver<()>),
    Filled(Arc<Process>),
}

/// Who is meant by an id or a name.
#[derive(Debug)]
pub(super) enum Found {
    /// This one.
    Process(Arc<Process>),
    /// One that is just being started; the channel ends with the start.
    Starting(watch::Receiver<()>),
    /// Nobody; these are known, as the rest of a sentence.
    Nothing { known: String },
}

/// More in one answer are told by their number.
const MOST_NOTICES: usize = 20;

/// Names that can be started again without their command.
const MOST_COMMANDS: usize = 1000;

impl Entry {
    /// The sentence about its end, once, if it has ended by itself.
    fn notice(&mut self) -> Option<String> {
        let process = self.process()?;
        let life = process.life();
        let told = match life.state() {
            State::Running => return None,
            State::Killed => None,
            state => Some(ended(&called(process), state, &life)),
        };
        (!std::mem::replace(&mut self.mentioned, true))
            .then_some(told)
            .flatten()
    }

    pub(super) fn process(&self) -> Option<&Arc<Process>> {
        match &self.place {
            Place::Filled(process) => Some(process),
            Place::Taken(_) => None,
        }
    }
}

impl Registry {
    pub(super) fn processes(&self) -> impl DoubleEndedIterator<Item = &Arc<Process>> {
        self.entries.iter().filter_map(Entry::process)
    }

    /// Those whose tree lives.
    pub(super) fn living(&self) -> impl Iterator<Item = &Arc<Process>> {
        self.processes()
            .chain(&self.forgotten)
            .filter(|process| !process.life().gone)
    }

    pub(super) fn starting(&self) -> impl Iterator<Item = &watch::Receiver<()>> {
        self.entries.iter().filter_map(|entry| match &entry.place {
            Place::Taken(start) => Some(start),
            Place::Filled(_) => None,
        })
    }

    pub(super) fn forget(&mut self, after: Option<Duration>, now: Instant) {
        self.forgotten.retain(|process| !process.life().gone);
        let Some(after) = after else { return };
        let due = |entry: &mut Entry| match &entry.place {
            Place::Filled(process) => process.life().finished_for(after, now),
            Place::Taken(_) => false,
        };
        for mut entry in self.entries.extract_if(.., due) {
            if let Some(notice) = entry.notice() {
                self.unheard.push_back(notice);
            }
            if let Place::Filled(process) = entry.place
                && !process.life().gone
            {
                self.forgotten.push(process);
            }
        }
        let surplus = self.unheard.len().saturating_sub(MOST_NOTICES);
        self.unheard.drain(..surplus);
    }

    /// What has ended by itself and was not mentioned yet.
    pub(super) fn notices(&mut self) -> Vec<String> {
        let new = self.entries.iter_mut().filter_map(Entry::notice);
        let mut notices: Vec<_> = self.unheard.drain(..).chain(new).collect();
        let surplus = notices.len().saturating_sub(MOST_NOTICES);
        if surplus > 0 {
            notices.drain(..surplus);
            notices.push(format!(
                "and {surplus} more that ended before these; see list"
            ));
        }
        notices
    }

    /// Keeps what it runs under its name.
    pub(super) fn remember(&mut self, process: &Process) {
        if process.name != process.id {
            self.commands.retain(|(name, _)| *name != process.name);
            self.commands
                .push_back((process.name.clone(), process.command.clone()));
            let surplus = self.commands.len().saturating_sub(MOST_COMMANDS);
            self.commands.drain(..surplus);
        }
    }

    pub(super) fn last_command(&self, name: &str) -> Option<&Command> {
        let (_, command) = self.commands.iter().find(|(known, _)| known == name)?;
        Some(command)
    }

    pub(super) fn new_id(&mut self) -> String {
        // Each state has its own random keys, which is all the randomness that an id needs.
        let random = RandomState::new();
        let number = (0..u64::MAX)
            .map(|attempt| (random.hash_one(attempt) & 0xff_ffff) as u32)
            .find(|number| self.given.insert(*number))
            .expect("nobody starts sixteen million processes");
        format!("sc-{number:06x}")
    }

    /// Who is meant by an id or a name.
    pub(super) fn find(&self, wanted: &str) -> Found {
        let named = || {
            let processes = self.processes().rev();
            processes.filter(|process| process.name == wanted)
        };
        let starting = || {
            self.entries.iter().find_map(|entry| match &entry.place {
                Place::Taken(start) if entry.name == wanted => Some(start.clone()),
                _ => None,
            })
        };
        let alive = self
            .processes()
            .find(|process| process.id == wanted)
            .or_else(|| named().find(|process| process.life().exited.is_none()));
        if let Some(process) = alive {
            return Found::Process(process.clone());
        }
        match (starting(), named().next()) {
            (Some(start), _) => Found::Starting(start),
            (None, Some(process)) => Found::Process(process.clone()),
            (None, None) => Found::Nothing {
                known: self.known(),
            },
        }
    }

    /// Says something with the next answer.
    pub(super) fn tell(&mut self, sentence: String) {
        self.unheard.push_back(sentence);
    }

    /// Whom an error may name instead, as the rest of a sentence.
    fn known(&self) -> String {
        let known: Vec<_> = self
            .processes()
            .rev()
            .take(MOST_NAMED)
            .map(|process| called(process))
            .collect();
        match self.processes().count() {
            0 => "; nothing was started or everything is forgotten".into(),
            count if count > MOST_NAMED => format!("; the newest are {}", known.join(", ")),
            _ => format!("; there are {}", known.join(", ")),
        }
    }
}

fn ended(who: &str, state: State, life: &Life) -> String {
    let code = life.exit_code().unwrap_or_default();
    let signal = life.signal().map(|signal| format!(" (signal {signal})"));
    let uptime = life.uptime(Instant::now());
    let mut told = format!(
        "{who} {} with exit code {code}{} after {uptime}",
        state.as_str(),
        signal.unwrap_or_default()
    );
    if let Some(reason) = life.reason() {
        told.push_str(": ");
        told.push_str(reason);
    }
    told
}

/// Whether a name could be taken for an id.
pub(super) fn is_id(name: &str) -> bool {
    name.strip_prefix("sc-").is_some_and(|digits| {
        digits.len() == 6
            && digits
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_form_and_never_come_twice() {
        let mut registry = Registry::default();
        let ids: HashSet<_> = (0..5000).map(|_| registry.new_id()).collect();
        assert_eq!(ids.len(), 5000);
        assert!(ids.iter().all(|id| is_id(id)));
    }

    #[test]
    fn names_are_not_ids() {
        for name in [
            "api",
            "sc-",
            "sc-12345",
            "sc-1234567",
            "sc-12345G",
            "sc-ABCDEF",
        ] {
            assert!(!is_id(name), "{name}");
        }
    }
}
