//! What becomes of a tree when something happens to its guard.

#![cfg(target_os = "linux")]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mcp_sidecar::doctor::client::wait_until;
use serde_json::{Value, json};

use crate::harness::{Sidecar, signal};

#[test]
fn a_guard_that_is_killed_takes_its_tree_with_it_and_nothing_else() {
    let mut sidecar = Sidecar::new();
    let other = sidecar.start("exec sleep 300");
    // In the moment of an exec a process has no environment to be found by.
    let both = || Some(sidecar.marked()).filter(|marked| marked.len() == 2);
    let before = wait_until(Duration::from_secs(10), both).unwrap();
    let id = sidecar.start("setsid sleep 301 & exec sleep 302");
    let guard = sidecar.guard(&id);
    wait_until(Duration::from_secs(10), || {
        (sidecar.marked().len() >= before.len() + 3).then_some(())
    })
    .unwrap();
    signal(guard, "KILL");
    let status = sidecar.state(&id, "failed");
    assert_eq!(status["exitCode"], -1);
    let reason = status["reason"].as_str().unwrap();
    assert!(
        reason.contains("sc-guard") && reason.contains("killed"),
        "{reason}"
    );
    assert_eq!(status["processes"], 0);
    wait_until(Duration::from_secs(10), || {
        (sidecar.marked() == before).then_some(())
    })
    .unwrap();
    sidecar.state(&other, "running");
}

#[test]
fn a_guard_that_is_stopped_goes_on() {
    let mut sidecar = Sidecar::new();
    // The first does it before its start is answered, most times.
    let id = sidecar.start("kill -STOP $PPID; echo done; exec sleep 300");
    sidecar.output_with(&id, "done");
    let other = sidecar.start("sleep 0.1; kill -STOP $PPID; exit 3");
    assert_eq!(sidecar.state(&other, "failed")["exitCode"], 3);
    sidecar.call("stop", json!({ "id": id }));
    sidecar.nothing_left();
}

/// The state of a process in the process table.
fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[track_caller]
fn await_state(pid: u32, wanted: char) {
    let seen = wait_until(Duration::from_secs(10), || {
        (state_of(pid) == Some(wanted)).then_some(())
    });
    assert!(seen.is_some(), "{pid} is {:?}", state_of(pid));
}

fn leader(status: &Value) -> u32 {
    status["pid"].as_u64().unwrap().try_into().unwrap()
}

/// Holds a process as a debugger does, until this is dropped.
struct Debugger(Child);

impl Debugger {
    /// None where this user may not do that.
    fn hold(pid: u32) -> Option<Self> {
        const ATTACH: &str = "import ctypes, sys; failed = ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), None, None); \
             sys.exit(1) if failed else sys.stdin.read()";
        let debugger = Command::new("python3")
            .args(["-c", ATTACH, &pid.to_string()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut debugger = Self(debugger);
        wait_until(Duration::from_secs(10), || {
            let held = state_of(pid) == Some('t');
            (held || debugger.0.try_wait().unwrap().is_some()).then_some(held)
        })
        .unwrap()
        .then_some(debugger)
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const TREE: &str = "setsid sleep 301 & echo up; exec sleep 302";

#[test]
fn a_guard_that_a_debugger_holds_keeps_no_stop_waiting() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start(TREE);
    sidecar.output_with(&id, "up");
    let Some(_debugger) = Debugger::hold(sidecar.guard(&id)) else {
        return;
    };
    let stopped = sidecar.call("stop", json!({ "id": id }));
    assert_eq!(stopped["exitCode"], -1);
    assert_eq!(stopped["forced"], true);
    assert!(sidecar.trees().is_empty(), "{:?}", sidecar.trees());
    let status = sidecar.state(&id, "killed");
    let reason = status["reason"].as_str().unwrap();
    assert!(reason.contains("debugger"), "{reason}");
}

#[test]
fn a_guard_that_a_debugger_holds_keeps_no_server_from_its_end() {
    for ending in ["TERM", "end of input"] {
        let mut sidecar = Sidecar::new();
        let id = sidecar.start(TREE);
        sidecar.output_with(&id, "up");
        let Some(_debugger) = Debugger::hold(sidecar.guard(&id)) else {
            return;
        };
        match ending {
            "TERM" => {
                signal(sidecar.client.pid(), "TERM");
                // Whoever still asks something keeps it from nothing.
                for _ in 0..100 {
                    let _ = sidecar.client.ask("ping", &json!({}));
                }
            }
            _ => sidecar.client.close(),
        }
        sidecar.client.exit(Duration::from_secs(10)).unwrap();
        sidecar.nothing_left();
    }
}

#[test]
fn a_leader_that_had_ended_before_it_was_asked_has_ended_by_itself() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("trap 'exit 7' USR1; echo up; while :; do sleep 0.05; done");
    sidecar.output_with(&id, "up");
    let (server, guard) = (sidecar.client.pid(), sidecar.guard(&id));
    let leader = leader(&sidecar.call("status", json!({ "id": id })));
    // Nobody hears of the leader's end before the stop is asked for. The server would wake the
    // guard, so it sleeps first.
    for pid in [server, guard] {
        signal(pid, "STOP");
        await_state(pid, 'T');
    }
    signal(leader, "USR1");
    await_state(leader, 'Z');
    let stop = sidecar.ask("stop", &json!({ "id": id }));
    signal(server, "CONT");
    let stopped = sidecar.answer(&stop).unwrap();
    assert_eq!(stopped["exitCode"], 7);
    sidecar.state(&id, "failed");
}

#[test]
fn a_server_that_is_asked_to_end_first_does_the_work_of_a_dead_guard() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_MAX_PROCESSES", "20")]);
    let ids: Vec<_> = (0..20).map(|_| sidecar.start(TREE)).collect();
    for id in &ids {
        sidecar.output_with(id, "up");
    }
    let guards: Vec<_> = ids.iter().map(|id| sidecar.guard(id)).collect();
    let mut kill = Command::new("sh");
    let both = "kill -s KILL $G; kill -s TERM $S";
    let guards: Vec<_> = guards.iter().map(ToString::to_string).collect();
    kill.args(["-c", both])
        .env("G", guards.join(" "))
        .env("S", sidecar.client.pid().to_string());
    assert!(kill.status().unwrap().success());
    sidecar.client.exit(Duration::from_secs(10)).unwrap();
    sidecar.nothing_left();
}
