//! The processes of one tree, followed fork by fork.

use std::collections::HashMap;

use rustix::process::{Pid, Signal};

use super::lineage::{Lineage, Process};
use super::sentinel::Sentinel;
use super::table;
use super::watch::Watch;

/// Who belongs to the tree and lives, and what it takes to recognise others.
#[derive(Debug)]
pub(super) struct Tree {
    lineage: Lineage,
    /// Unique ids by process id.
    living: HashMap<i32, u64>,
    /// Known to be dead, and still in the lineage.
    dead: Vec<u64>,
    /// The leader's unique id, zero where it is not known: ids only grow, so whatever has a smaller
    /// one is older than the tree, and need not be looked at any closer.
    root: u64,
    /// Without it, a process between two others that is gone too soon hides the last.
    sentinel: Option<Sentinel>,
}

impl Tree {
    /// A tree before its leader is born. Without a sentinel it is only less sure of what it sees.
    pub(super) fn new(sentinel: Option<Sentinel>) -> Self {
        Self {
            lineage: Lineage::default(),
            living: HashMap::new(),
            dead: Vec::new(),
            root: 0,
            sentinel,
        }
    }

    /// Begins with the leader, which lives or at least was not waited for.
    pub(super) fn begin(&mut self, leader: i32) {
        if let Some(process) = table::dead_or_alive(leader) {
            self.root = process.id;
            self.lineage.add(process.id);
            self.living.insert(leader, process.id);
        }
    }

    /// Looks for processes of the tree that are not known yet, until there are none. `session` is
    /// the leader as long as it was not waited for: so long, its session is certainly its own.
    pub(super) fn rescan(&mut self, watch: &Watch, session: Option<Pid>) {
        let dead = std::mem::take(&mut self.dead);
        loop {
            let (root, sentinel) = (self.root, self.sentinel.as_ref());
            let admitted = self.lineage.admit(table::all(), |process| {
                process.id > root && (in_session(process, session) || holds(process, sentinel))
            });
            let mut grown = false;
            for process in admitted {
                // First follow, then make sure of whom. What it forked before that is found in the
                // next pass.
                watch.follow(process.pid);
                if table::lives(process.pid, process.id) {
                    grown = true;
                    let replaced = self.living.insert(process.pid, process.id);
                    self.dead.extend(replaced);
                } else {
                    self.dead.push(process.id);
                }
            }
            if !grown {
                break;
            }
        }
        self.lineage.forget(&dead);
    }

    /// Notes the end of a process.
    pub(super) fn ended(&mut self, pid: i32) {
        self.dead.extend(self.living.remove(&pid));
    }

    /// Whether nothing that is known lives any more.
    pub(super) fn is_empty(&mut self) -> bool {
        let dead = &mut self.dead;
        self.living.retain(|pid, id| {
            let lives = table::lives(*pid, *id);
            if !lives {
                dead.push(*id);
            }
            lives
        });
        self.living.is_empty()
    }

    /// Process and unique ids of what is known to live.
    pub(super) fn living(&self) -> Vec<(i32, u64)> {
        self.living.iter().map(|(pid, id)| (*pid, *id)).collect()
    }
}

/// Sends signals to a process if it still is the one that is meant.
pub(super) fn send(pid: i32, id: u64, signals: &[Signal]) {
    let Some(target) = Pid::from_raw(pid) else {
        return;
    };
    for signal in signals {
        // Right before each: the system has no handle to a process that outlives its number.
        if table::lives(pid, id) {
            let _ = rustix::process::kill_process(target, *signal);
        }
    }
}

fn in_session(process: &Process, session: Option<Pid>) -> bool {
    session.is_some()
        && Pid::from_raw(process.pid)
            .is_some_and(|pid| rustix::process::getsid(Some(pid)).ok() == session)
}

fn holds(process: &Process, sentinel: Option<&Sentinel>) -> bool {
    sentinel.is_some_and(|sentinel| sentinel.is_held_by(process.pid))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::super::watch::Note;
    use super::*;

    fn eventually(mut condition: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if condition() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    #[test]
    fn a_tree_is_followed_past_orphans_and_ends() {
        let watch = Watch::new().unwrap();
        let mut tree = Tree::new(None);
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "read go; sleep 600 & (sleep 600 &); wait"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = shell.id().cast_signed();
        tree.begin(pid);
        assert!(watch.follow(pid));
        tree.rescan(&watch, None);
        assert_eq!(tree.living().len(), 1);
        drop(shell.stdin.take());
        assert!(
            watch
                .wait(Some(Duration::from_secs(20)))
                .unwrap()
                .contains(&Note::Forked)
        );
        assert!(eventually(|| {
            tree.rescan(&watch, None);
            tree.living().len() >= 3
        }));
        for (pid, id) in tree.living() {
            send(pid, id, &[Signal::KILL]);
        }
        shell.wait().unwrap();
        assert!(eventually(|| tree.is_empty()));
    }
}
