//! The process table: who is whose child.
//!
//! `/proc` tells it, where it is mounted. Where it is not, the kernel still answers for each
//! process id whether that is a child of ours: slower, and blind to what is further down, but no
//! child is missed.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::OnceLock;

use rustix::process::{Pid, WaitId, WaitIdOptions};

/// What no process id exceeds (`PID_MAX_LIMIT` of the kernel, on 64 bits).
const LARGEST_PID: i32 = 4 << 20;

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) state: char,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Clock ticks that it has had of a processor.
    pub(super) ticks: u64,
    /// The same of those of its children that it has waited for, and of theirs.
    pub(super) waited_ticks: u64,
    /// Pages that it has in memory.
    pub(super) resident: u64,
}

impl Stat {
    /// Whether it has ended and only waits to be waited for.
    pub(super) fn has_ended(self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether a debugger has stopped it.
    pub(super) fn is_held(self) -> bool {
        self.state == 't'
    }
}

/// The children of this process, those included that nobody has waited for.
pub(super) fn own_children() -> Vec<i32> {
    // Whatever the reason: a list that cannot be read does not mean that there is nobody.
    listed_children(own_pid()).unwrap_or_else(|_| children_by_asking())
}

/// Every descendant of a process with its parent, parents first, as far as it can be seen.
pub(super) fn descendants(ancestor: i32) -> Vec<(i32, i32)> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut parents = VecDeque::from([ancestor]);
    while let Some(parent) = parents.pop_front() {
        let children = if parent == own_pid() {
            own_children()
        } else {
            listed_children(parent).unwrap_or_default()
        };
        for pid in children {
            if seen.insert(pid) {
                found.push((parent, pid));
                parents.push_back(pid);
            }
        }
    }
    found
}

/// What is known of a process; nothing where there is none, or none that may be seen.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    if !is_ours() {
        return None;
    }
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything, parentheses included.
    let after_name = text.iter().rposition(|byte| *byte == b')')?;
    parse_stat(std::str::from_utf8(&text[after_name + 1..]).ok()?)
}

/// The fields of `proc_pid_stat(5)` from the third on.
fn parse_stat(fields: &str) -> Option<Stat> {
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        ticks: number(14)? + number(15)?,
        waited_ticks: number(16)? + number(17)?,
        resident: number(24)?,
    })
}

/// This process.
pub(super) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}

/// Whether `/proc` is there and speaks of the process ids that we mean. In a container it may show
/// those of the host, and then a number in it is a stranger.
pub(super) fn is_ours() -> bool {
    static OURS: OnceLock<bool> = OnceLock::new();
    *OURS.get_or_init(|| {
        let own = std::fs::read_link("/proc/self");
        own.is_ok_and(|own| own.as_os_str() == own_pid().to_string().as_str())
    })
}

/// The kernel lists children by the thread that made them.
fn listed_children(pid: i32) -> io::Result<Vec<i32>> {
    if !is_ours() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut found = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        match std::fs::read_to_string(thread?.path().join("children")) {
            Ok(list) => found.extend(
                list.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            ),
            // A kernel without this file. A thread that has just ended is no reason to look further.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && !thread_has_children_file(pid) =>
            {
                return children_by_scan(pid);
            }
            // The thread has ended, and its children are another's.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn thread_has_children_file(pid: i32) -> bool {
    std::fs::exists(format!("/proc/{pid}/task/{pid}/children")).unwrap_or(false)
        || !std::fs::exists(format!("/proc/{pid}/task/{pid}")).unwrap_or(false)
}

fn children_by_scan(parent: i32) -> io::Result<Vec<i32>> {
    Ok(std::fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == parent))
        .collect())
}

/// The children of this process without `/proc`. Half a second at most, and only for as long as
/// there are children.
fn children_by_asking() -> Vec<i32> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    (1..=LARGEST_PID)
        .filter(|pid| {
            Pid::from_raw(*pid)
                .is_some_and(|pid| rustix::process::waitid(WaitId::Pid(pid), options).is_ok())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_are_found_with_and_without_proc() {
        let mut child = Command::new("sleep").arg("300").spawn().unwrap();
        let pid = child.id().cast_signed();
        for found in [
            own_children(),
            children_by_scan(own_pid()).unwrap(),
            children_by_asking(),
        ] {
            assert!(found.contains(&pid), "{found:?}");
            assert!(!found.contains(&1), "{found:?}");
        }
        assert_eq!(stat(pid).unwrap().parent, own_pid());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!own_children().contains(&pid));
    }

    #[test]
    fn the_fields_of_a_process_are_told_apart() {
        let fields =
            "S 1 2 3 0 -1 4194560 1 2 3 4 50 7 300 20 20 0 1 0 100 8192 321 18446744073709551615 1";
        let stat = parse_stat(fields).unwrap();
        assert_eq!((stat.state, stat.parent, stat.group), ('S', 1, 2));
        assert_eq!((stat.ticks, stat.waited_ticks), (57, 320));
        assert_eq!(stat.resident, 321);
        assert_eq!(parse_stat("S 1 2 3"), None);
    }

    #[test]
    fn a_process_that_is_not_there_is_no_answer_about_children() {
        let error = listed_children(LARGEST_PID + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(stat(LARGEST_PID + 1), None);
    }
}
