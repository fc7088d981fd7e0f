//! A control group for a tree, where this user may make one.
//!
//! A subreaper keeps a tree together, but it must live to end it, one process after the other, and
//! only those of its own user. A control group can be ended as a whole, in one step that no fork
//! outruns, also by somebody who comes later: what a server and a guard have left that were killed
//! in the same moment is ended by the next server of the same control group.
//!
//! A guard holds a lock on the group of its tree. So a group without a lock is one whose guard is
//! dead, and never one whose tree has still time to end.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

/// Where control groups of version 2 are, alone or beside those of version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// How the groups of trees begin; what follows is the id.
const PREFIX: &str = "sc-guard-";

/// The group of one tree. Its name ends with the process id of its guard.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    _lock: OwnedFd,
}

impl Group {
    /// Makes one below our own, if that is ours to divide.
    pub(super) fn make(id: &str) -> Option<Self> {
        let name = format!("{PREFIX}{id}-{}", std::process::id());
        let path = own()?.join(name);
        fs::create_dir(&path).ok()?;
        // Without it whoever sweeps next removes the group.
        let lock = lock(&path).ok()?;
        Some(Self { path, _lock: lock })
    }

    /// Where a process writes `0` to move in.
    pub(super) fn entrance(&self) -> Option<fs::File> {
        fs::File::options()
            .write(true)
            .open(self.path.join("cgroup.procs"))
            .ok()
    }

    /// Lets all that is in it run on: what is frozen hears nothing.
    pub(super) fn thaw(&self) {
        for group in with_those_below(&self.path) {
            let _ = fs::write(group.join("cgroup.freeze"), "0");
        }
    }

    /// Ends all that is in it, by force.
    pub(super) fn kill(&self) {
        kill(&self.path);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Ends, by force, what guards that are dead have left in their groups. Whether all of those are
/// gone: a group can be removed only some time after the last death in it.
pub(super) fn sweep() -> bool {
    let mut clean = true;
    for group in groups() {
        if let Ok(_lock) = lock(&group) {
            kill(&group);
            remove(&group);
            clean &= !group.exists();
        }
    }
    clean
}

/// The same for one guard that is dead. Whether nothing is left that runs.
pub(super) fn end(guard: u32) -> bool {
    let end = format!("-{guard}");
    for group in groups() {
        let of_guard = group.as_os_str().as_bytes().ends_with(end.as_bytes());
        // Who else holds the lock does the same, or is another guard that got the same number.
        if of_guard && let Ok(_lock) = lock(&group) {
            kill(&group);
            if is_populated(&group) {
                return false;
            }
            remove(&group);
        }
    }
    true
}

fn groups() -> impl Iterator<Item = PathBuf> {
    let entries = own().map(fs::read_dir).into_iter().flatten().flatten();
    entries
        .flatten()
        .filter(|group| group.file_name().as_bytes().starts_with(PREFIX.as_bytes()))
        .map(|group| group.path())
}

/// Whether anything lives in a group or below it.
fn is_populated(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.events"))
        .is_ok_and(|events| events.lines().any(|line| line == "populated 1"))
}

/// Removes a group with what the tree has made below it. One that is not empty stays.
fn remove(group: &Path) {
    // Those below come after those above.
    for group in with_those_below(group).iter().rev() {
        let _ = fs::remove_dir(group);
    }
}

fn with_those_below(group: &Path) -> Vec<PathBuf> {
    let mut found = vec![group.to_path_buf()];
    let mut at = 0;
    while let Some(group) = found.get(at) {
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let below: Vec<_> = below.map(|entry| entry.path()).collect();
        found.extend(below);
        at += 1;
    }
    found
}

fn kill(group: &Path) {
    let _ = fs::File::options()
        .write(true)
        .open(group.join("cgroup.kill"))
        .and_then(|mut file| file.write_all(b"1"));
}

fn lock(group: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(group, flags, Mode::empty())?;
    rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(directory)
}

/// The control group of this process, where it was given to this user to divide.
fn own() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let name = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    if Path::new(name).starts_with("..") {
        // Outside of what is mounted here.
        return None;
    }
    ROOTS
        .iter()
        .map(|root| Path::new(root).join(name))
        // The root of all groups has no such file, and is nobody's to divide.
        .find(|path| path.join("cgroup.kill").exists())
        // A container has a root of its own; systemd marks what it gives away.
        .filter(|path| name.is_empty() || is_marked(path))
}

fn is_marked(group: &Path) -> bool {
    let mut value = [0; 1];
    ["user.delegate", "trusted.delegate"]
        .iter()
        .any(|mark| rustix::fs::getxattr(group, *mark, &mut value).is_ok_and(|_| value == *b"1"))
}
