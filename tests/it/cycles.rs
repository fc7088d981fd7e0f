//! A server that has done much holds no more than one that has done little.

#![cfg(target_os = "linux")]

use mcp_sidecar::doctor::client::wait_until;
use serde_json::json;
use std::time::Duration;

use crate::harness::Sidecar;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) descriptors: usize,
    pub(crate) memory_kib: u64,
    pub(crate) zombies: usize,
}

pub(crate) fn held(pid: u32) -> Held {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let memory = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    Held {
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count(),
        memory_kib: memory.trim().trim_end_matches(" kB").parse().unwrap(),
        zombies: children.split_whitespace().count(),
    }
}

#[test]
fn a_thousand_cycles_leave_nothing_behind() {
    // Nothing is kept of what has finished, so that the account is exact.
    let mut sidecar = Sidecar::with(&[
        ("SIDECAR_CLEANUP_AFTER", "1"),
        ("SIDECAR_BUFFER_SIZE", "20000"),
    ]);
    let pid = sidecar.client.pid();
    let cycle = |sidecar: &mut Sidecar| {
        let id = sidecar.start("setsid sleep 300 & seq 1 2000; exec sleep 300");
        sidecar.call("stop", json!({ "id": id }));
    };
    let settled = |sidecar: &mut Sidecar| {
        wait_until(Duration::from_secs(10), || {
            sidecar
                .call("list", json!({}))
                .as_array()
                .unwrap()
                .is_empty()
                .then_some(())
        })
        .unwrap();
        held(pid)
    };
    (0..200).for_each(|_| cycle(&mut sidecar));
    let before = settled(&mut sidecar);
    (0..800).for_each(|_| cycle(&mut sidecar));
    let after = settled(&mut sidecar);
    assert!(sidecar.marked().is_empty());
    assert_eq!(
        (after.zombies, after.descriptors),
        (0, before.descriptors),
        "{before:?} {after:?}"
    );
    assert!(
        after.memory_kib < before.memory_kib + 1024,
        "{before:?} {after:?}"
    );
}
