//! Who belongs to a tree, told by ids that the system never gives out twice.
//!
//! A process keeps its own id and the id of the process that forked it for as long as it lives,
//! whoever its parent becomes. So a daemon is known by its origin even after everything between it
//! and the leader has gone, provided that everything between was seen once.
//!
//! Pure, so that it is tested on every platform.

use std::collections::HashSet;

/// A process as the system lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    /// Its process id, which another may have tomorrow.
    pub(super) pid: i32,
    /// Its unique id.
    pub(super) id: u64,
    /// The unique id of the process that forked it.
    pub(super) origin: u64,
}

/// The unique ids of a tree. The dead stay in it for as long as an unseen child may turn up.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    ids: HashSet<u64>,
}

impl Lineage {
    /// Takes in a process of which it is known that it belongs.
    pub(super) fn add(&mut self, id: u64) {
        self.ids.insert(id);
    }

    /// Takes in those of the listed processes that belong, in whatever order they are listed, and
    /// gives those that were not known before. `vouched` speaks for a process that is known to
    /// belong although its origin is not; it is asked at most once for each.
    pub(super) fn admit(
        &mut self,
        listed: Vec<Process>,
        vouched: impl Fn(&Process) -> bool,
    ) -> Vec<Process> {
        let mut strangers = listed;
        strangers.retain(|process| !self.ids.contains(&process.id));
        let mut admitted = Vec::new();
        let mut first = true;
        loop {
            let before = admitted.len();
            strangers.retain(|process| {
                let ours = self.ids.contains(&process.origin) || (first && vouched(process));
                if ours {
                    self.ids.insert(process.id);
                    admitted.push(*process);
                }
                !ours
            });
            if admitted.len() == before {
                return admitted;
            }
            first = false;
        }
    }

    /// Drops ids of processes that were dead before the last listing began: each child that such a
    /// process has left behind was in that listing, and it will have no other.
    pub(super) fn forget(&mut self, dead: &[u64]) {
        for id in dead {
            self.ids.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: u64 = 100;

    fn process(pid: i32, id: u64, origin: u64) -> Process {
        Process { pid, id, origin }
    }

    fn tree() -> Lineage {
        let mut lineage = Lineage::default();
        lineage.add(LEADER);
        lineage
    }

    fn pids(processes: &[Process]) -> Vec<i32> {
        let mut pids: Vec<i32> = processes.iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        pids
    }

    fn nobody(_: &Process) -> bool {
        false
    }

    #[test]
    fn children_and_their_children_belong_in_any_order() {
        let chain = [
            process(11, 101, LEADER),
            process(12, 102, 101),
            process(13, 103, 102),
        ];
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let listed = order.iter().map(|index| chain[*index]).collect();
            assert_eq!(
                pids(&tree().admit(listed, nobody)),
                [11, 12, 13],
                "{order:?}"
            );
        }
    }

    #[test]
    fn strangers_and_what_is_known_are_not_admitted() {
        let mut lineage = tree();
        let child = process(11, 101, LEADER);
        let listed = vec![
            process(1, 1, 0),
            process(10, LEADER, 7),
            process(30, 300, 1),
            child,
        ];
        assert_eq!(lineage.admit(listed.clone(), nobody), [child]);
        assert_eq!(lineage.admit(listed, nobody), []);
    }

    #[test]
    fn an_orphan_is_known_by_an_origin_that_is_dead() {
        let mut lineage = tree();
        lineage.admit(vec![process(11, 101, LEADER)], nobody);
        let orphan = process(12, 102, 101);
        assert_eq!(lineage.admit(vec![orphan], nobody), [orphan]);
    }

    #[test]
    fn a_reused_process_id_is_a_stranger() {
        let mut lineage = tree();
        lineage.admit(vec![process(11, 101, LEADER)], nobody);
        assert_eq!(lineage.admit(vec![process(11, 900, 1)], nobody), []);
    }

    #[test]
    fn the_vouched_bring_their_descendants_and_are_asked_for_once() {
        let mut lineage = tree();
        let daemon = process(20, 200, 150);
        let listed = vec![
            process(21, 201, 200),
            daemon,
            process(22, 202, 201),
            process(9, 9, 1),
        ];
        let asked = std::cell::RefCell::new(Vec::new());
        let admitted = lineage.admit(listed, |process| {
            asked.borrow_mut().push(process.pid);
            process.pid == 20
        });
        assert_eq!(pids(&admitted), [20, 21, 22]);
        asked.borrow_mut().sort_unstable();
        let once = {
            let mut once = asked.borrow().clone();
            once.dedup();
            once
        };
        assert_eq!(*asked.borrow(), once);
    }

    #[test]
    fn who_is_forgotten_links_nobody_any_more_and_descendants_stay() {
        let mut lineage = tree();
        lineage.admit(
            vec![process(11, 101, LEADER), process(12, 102, 101)],
            nobody,
        );
        lineage.forget(&[101]);
        let late = process(13, 103, 102);
        assert_eq!(
            lineage.admit(vec![process(14, 104, 101), late], nobody),
            [late]
        );
    }
}
