//! Where a control group was given to the server's user, not even a server and a guard that are
//! killed in the same moment leave anything for long.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mcp_sidecar::doctor::client::wait_until;
use serde_json::json;

use crate::harness::{Sidecar, signal};

/// A control group that may be divided.
struct Delegated(PathBuf);

impl Delegated {
    /// None where this user may not make one.
    fn new(name: &str) -> Option<Self> {
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .into_iter()
            .find(|root| Path::new(root).join("cgroup.procs").exists())?;
        let path = Path::new(root).join(format!("sc-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let group = Self(path);
        let mark = "import os, sys; os.setxattr(sys.argv[1], 'user.delegate', b'1')";
        let marked = Command::new("python3")
            .args(["-c", mark])
            .arg(&group.0)
            .status();
        (marked.ok()?.success() && group.0.join("cgroup.kill").exists()).then_some(group)
    }

    fn sidecar(&self) -> Sidecar {
        let enter = format!(
            "echo $$ >'{}/cgroup.procs' && exec \"$0\"",
            self.0.display()
        );
        Sidecar::under(&["sh", "-c", &enter], &[])
    }

    #[track_caller]
    fn trees_are(&self, wanted: usize) {
        let fits = || (self.trees() == wanted).then_some(());
        let fit = wait_until(Duration::from_secs(10), fits);
        assert!(fit.is_some(), "{} instead of {wanted}", self.trees());
    }

    fn trees(&self) -> usize {
        let entries = std::fs::read_dir(&self.0).unwrap().flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        wait_until(Duration::from_secs(10), || {
            std::fs::remove_dir(&self.0).ok()
        });
    }
}

const DAEMON: &str =
    "(setsid sh -c 'exec sleep 301' </dev/null >/dev/null 2>&1 &); echo up; exec sleep 302";

#[test]
fn a_tree_has_a_control_group_that_goes_with_it() {
    let Some(group) = Delegated::new("tree") else {
        return;
    };
    let mut sidecar = group.sidecar();
    let id = sidecar.start(DAEMON);
    sidecar.output_with(&id, "up");
    assert_eq!(group.trees(), 1);
    sidecar.call("stop", json!({ "id": id }));
    sidecar.nothing_left();
    assert_eq!(group.trees(), 0);

    // The guard is killed, and the server cleans up.
    let id = sidecar.start(DAEMON);
    sidecar.output_with(&id, "up");
    let guard = sidecar.guard(&id);
    signal(guard, "KILL");
    sidecar.state(&id, "failed");
    sidecar.nothing_left();
    assert_eq!(group.trees(), 0);
}

/// Makes groups below the one that it is in, moves into the deepest, and leaves a daemon there.
const NESTED: &str = "own=$ROOT/$(sed -n 's/^0:://p' /proc/self/cgroup)/a/b; mkdir -p $own $own/../empty; \
    (setsid sh -c \"echo \\$\\$ >$own/cgroup.procs; exec sleep 301\" </dev/null >/dev/null 2>&1 &); echo up; exec sleep 302";

#[test]
fn a_tree_that_makes_groups_below_its_own_is_in_nobodys_way() {
    let Some(group) = Delegated::new("nested") else {
        return;
    };
    let mut sidecar = group.sidecar();
    let root = group.0.parent().unwrap();
    let start = json!({ "command": NESTED, "env": { "ROOT": root } });
    let mut nested = || {
        let id = sidecar.call("start", start.clone())["id"].clone();
        let id = id.as_str().unwrap().to_owned();
        sidecar.output_with(&id, "up");
        (sidecar.guard(&id), id)
    };
    let (_, stopped) = nested();
    let (killed_guard, killed) = nested();
    // What somebody else has left, under such a name.
    std::fs::create_dir_all(group.0.join("sc-guard-sc-000000-1/in")).unwrap();
    sidecar.call("stop", json!({ "id": stopped }));
    // The guard goes a moment after its tree.
    group.trees_are(2);
    signal(killed_guard, "KILL");
    sidecar.state(&killed, "failed");
    sidecar.call("stop", json!({ "id": killed }));
    assert!(sidecar.trees().is_empty(), "{:?}", sidecar.trees());
    assert_eq!(group.trees(), 1);
    // The next server removes it.
    let mut next = group.sidecar();
    next.start("true");
    assert!(!group.0.join("sc-guard-sc-000000-1").exists());
}

#[test]
fn what_is_frozen_is_asked_all_the_same() {
    let Some(group) = Delegated::new("frozen") else {
        return;
    };
    let mut sidecar = group.sidecar();
    let id = sidecar.start("trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    sidecar.output_with(&id, "up");
    let tree = std::fs::read_dir(&group.0).unwrap().flatten();
    let tree = tree.map(|entry| entry.path()).find(|path| path.is_dir());
    let tree = tree.unwrap();
    std::fs::write(tree.join("cgroup.freeze"), "1").unwrap();
    let frozen = || std::fs::read_to_string(tree.join("cgroup.events")).unwrap();
    wait_until(Duration::from_secs(10), || {
        frozen().contains("frozen 1").then_some(())
    })
    .unwrap();
    let stopped = sidecar.call("stop", json!({ "id": id }));
    assert_eq!(
        (stopped.get("forced"), &stopped["exitCode"]),
        (None, &json!(0))
    );
    sidecar.output_with(&id, "asked");
}

#[test]
fn what_a_server_and_a_guard_leave_is_ended_by_the_next_server() {
    let Some(group) = Delegated::new("next") else {
        return;
    };
    let mut first = group.sidecar();
    let id = first.start(DAEMON);
    first.output_with(&id, "up");
    let guard = first.guard(&id);
    // A server that is stopped cannot do the guard's work before it is killed.
    signal(first.client.pid(), "STOP");
    signal(guard, "KILL");
    first.client.kill();
    first.client.exit(Duration::from_secs(10)).unwrap();
    // The leader dies with its guard; the daemon is what is left.
    let left = wait_until(Duration::from_secs(10), || {
        Some(first.marked()).filter(|marked| marked.len() == 1)
    });
    assert!(left.is_some(), "{:?}", first.marked());

    // A tree whose guard lives is none of its business.
    let mut other = group.sidecar();
    let id = other.start(DAEMON);
    other.output_with(&id, "up");
    let mut next = group.sidecar();
    next.start("true");
    first.nothing_left();
    // The group of the dead goes with a later start: only some time after the last death can it.
    let only_living = || {
        next.start("true");
        (group.trees() <= 2).then_some(())
    };
    assert!(wait_until(Duration::from_secs(10), only_living).is_some());
    other.state(&id, "running");
    assert_eq!(other.trees().len(), 2);
}
