//! Finding a tree by its parents, where there can be no job.
//!
//! Every process that was once found stays open here. Its id cannot be given away that way, so
//! that who names it as a parent, and is younger, certainly is a child of it.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::Threading::GetProcessTimes;

use super::handle;

/// A process and its descendants, as far as they were seen.
///
/// It starts with the leader and not with the guard, whose children are two: the system has given
/// it a process for its console.
#[derive(Debug, Default)]
pub(super) struct Walk {
    seen: Vec<Seen>,
}

#[derive(Debug)]
struct Seen {
    pid: u32,
    born: u64,
    process: OwnedHandle,
}

impl Walk {
    /// Takes in a process that is known to belong here.
    pub(super) fn add(&mut self, pid: u32) {
        if let Ok(found) = Seen::open(pid) {
            self.seen.push(found);
        }
    }

    /// Looks for new ones, and tells which live.
    pub(super) fn pids(&mut self) -> Vec<u32> {
        self.look();
        self.seen
            .iter()
            .filter(|seen| !handle::has_ended(seen.process.as_handle()))
            .map(|seen| seen.pid)
            .collect()
    }

    /// A process of the tree.
    pub(super) fn open(&self, pid: u32) -> Option<OwnedHandle> {
        let seen = self.seen.iter().find(|seen| seen.pid == pid)?;
        seen.process.try_clone().ok()
    }

    fn look(&mut self) {
        let all = snapshot();
        // Parents first: those that were seen before, then their children, and so on.
        let mut next = 0;
        while let Some(parent) = self.seen.get(next) {
            let (parent, born) = (parent.pid, parent.born);
            for (pid, _) in all.iter().filter(|(_, of)| *of == parent) {
                if self.seen.iter().any(|seen| seen.pid == *pid) {
                    continue;
                }
                // An older one is the child of a process that had this id before.
                if let Ok(found) = Seen::open(*pid)
                    && found.born >= born
                {
                    self.seen.push(found);
                }
            }
            next += 1;
        }
    }
}

impl Seen {
    fn open(pid: u32) -> io::Result<Self> {
        let process = handle::open_process(pid)?;
        Ok(Self {
            pid,
            born: born(process.as_handle())?,
            process,
        })
    }
}

/// When a process was started, in units of the system's clock.
fn born(process: BorrowedHandle<'_>) -> io::Result<u64> {
    let [mut born, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    let process = process.as_raw_handle();
    // SAFETY: the handle is open, and the four answers go to locals.
    handle::check(unsafe {
        GetProcessTimes(
            process,
            &raw mut born,
            &raw mut ended,
            &raw mut kernel,
            &raw mut user,
        )
    })?;
    Ok(u64::from(born.dwHighDateTime) << 32 | u64::from(born.dwLowDateTime))
}

/// Every process with its parent.
fn snapshot() -> Vec<(u32, u32)> {
    // SAFETY: makes a handle or says that it cannot.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) };
    // SAFETY: just made, or invalid.
    let Ok(snapshot) = (unsafe { handle::own(snapshot) }) else {
        return Vec::new();
    };
    let snapshot = snapshot.as_raw_handle();
    let size = u32::try_from(size_of::<PROCESSENTRY32W>()).unwrap_or(0);
    let mut entry = PROCESSENTRY32W {
        dwSize: size,
        ..PROCESSENTRY32W::default()
    };
    let mut found = Vec::new();
    // SAFETY: the snapshot is open, and the entry says how large it is.
    let mut more = unsafe { Process32FirstW(snapshot, &raw mut entry) };
    while more != 0 {
        found.push((entry.th32ProcessID, entry.th32ParentProcessID));
        // SAFETY: as above.
        more = unsafe { Process32NextW(snapshot, &raw mut entry) };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    /// A shell, and in it another that waits until its input ends; both run.
    fn two_shells() -> Child {
        use std::io::{BufRead, BufReader};
        let mut child = Command::new("cmd.exe")
            .args(["/d", "/C", "cmd", "/d", "/C", "echo here&set /p line="])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line.trim(), "here");
        child
    }

    #[test]
    fn descendants_are_found_and_stay_known() {
        let mut child = two_shells();
        let mut walk = Walk::default();
        walk.add(child.id());
        let mut pids = walk.pids();
        assert_eq!(pids.remove(0), child.id());
        assert!(!pids.is_empty());
        // Now an orphan, with its input still open.
        let input = child.stdin.take();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(walk.pids(), pids);
        for pid in pids {
            let orphan = walk.open(pid).unwrap();
            handle::terminate(orphan.as_handle());
            assert!(
                handle::wait_any(&[orphan.as_handle()], Some(LONG))
                    .unwrap()
                    .is_some()
            );
        }
        drop(input);
        assert_eq!(walk.pids(), Vec::<u32>::new());
    }
}
