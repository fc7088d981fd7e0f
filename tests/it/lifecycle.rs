//! States, exit codes, trees and limits.

use std::time::{Duration, Instant};

use mcp_sidecar::doctor::client::wait_until;
use serde_json::{Value, json};

use crate::harness::Sidecar;
#[cfg(target_os = "linux")]
#[test]
fn an_answer_has_its_keys_in_the_documented_order() {
    let mut sidecar = Sidecar::new();
    let asked = sidecar.ask(
        "start",
        &json!({ "command": "exec sleep 300", "name": "s" }),
    );
    let result = sidecar
        .client
        .hear(&asked, Duration::from_secs(10))
        .unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    let started: Value = serde_json::from_str(text).unwrap();
    let (id, pid) = (started["id"].as_str().unwrap(), &started["pid"]);
    assert_eq!(text, format!(r#"{{"id":"{id}","name":"s","pid":{pid}}}"#));
    assert!(result.get("structuredContent").is_none());

    let asked = sidecar.ask("status", &json!({ "id": "s" }));
    let result = sidecar
        .client
        .hear(&asked, Duration::from_secs(10))
        .unwrap();
    let status = result["content"][0]["text"].as_str().unwrap().to_owned();
    let keys = [
        "id",
        "name",
        "pid",
        "state",
        "exitCode",
        "uptime",
        "outputSize",
    ];
    let places: Vec<_> = keys
        .iter()
        .map(|key| status.find(&format!("\"{key}\":")))
        .collect();
    assert!(
        places.is_sorted() && places.iter().all(Option::is_some),
        "{status}"
    );
    assert!(!status.contains(": "), "{status}");
}

#[test]
fn states_follow_the_leader() {
    let mut sidecar = Sidecar::new();
    for (command, state, code) in [
        ("exit 0", "exited", 0),
        ("exit 3", "failed", 3),
        ("exit 255", "failed", 255),
        ("kill -9 $$", "failed", -1),
        ("no-such-program-at-all", "failed", 127),
    ] {
        let id = sidecar.start(command);
        let status = sidecar.state(&id, state);
        assert_eq!(status["exitCode"], code, "{command}");
    }
    let id = sidecar.start("exec sleep 300");
    assert_eq!(sidecar.state(&id, "running")["exitCode"], Value::Null);
    let stopped = sidecar.call("stop", json!({ "id": id }));
    assert_eq!(stopped["exitCode"], -1);
    assert_eq!(sidecar.state(&id, "killed")["exitCode"], -1);
    // Once more is no error, and the same answer.
    assert_eq!(sidecar.call("stop", json!({ "id": id })), stopped);
}

#[test]
fn a_process_that_obeys_ends_at_once_with_its_own_code() {
    let mut sidecar = Sidecar::new();
    let id =
        sidecar.start("trap 'echo bye; exit 7' TERM; echo armed; while :; do sleep 0.02; done");
    sidecar.output_with(&id, "armed");
    let begun = Instant::now();
    assert_eq!(sidecar.call("stop", json!({ "id": id }))["exitCode"], 7);
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "the kill timeout was waited for"
    );
    assert_eq!(sidecar.state(&id, "killed")["exitCode"], 7);
    sidecar.output_with(&id, "bye");
}

#[test]
fn a_process_that_does_not_obey_is_killed_after_the_timeout_and_delays_nobody() {
    let (mut sidecar, id) = Sidecar::stubborn("600");
    let begun = Instant::now();
    let first = sidecar.ask("stop", &json!({ "id": id }));
    let second = sidecar.ask("stop", &json!({ "id": id }));
    sidecar.call("list", json!({}));
    assert!(
        begun.elapsed() < Duration::from_millis(500),
        "list waited for stop"
    );
    let answers = (
        sidecar.answer(&first).unwrap(),
        sidecar.answer(&second).unwrap(),
    );
    assert_eq!(answers.0, answers.1);
    assert!(begun.elapsed() >= Duration::from_millis(600));
    sidecar.nothing_left();
}

#[test]
#[cfg(target_os = "linux")]
fn stop_ends_the_whole_tree_wherever_it_went() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_KILL_TIMEOUT", "300")]);
    for command in [
        "sleep 301 & sleep 302 & wait",
        "nohup sleep 303 >/dev/null 2>&1 & exec sleep 304",
        "setsid sleep 305 & exec sleep 306",
        "setsid sh -c 'setsid sleep 307 & exec sleep 308' >/dev/null 2>&1 & exec sleep 309",
        "(setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 0.1; done' &) ; exec sleep 310",
        "env -i setsid sleep 311 </dev/null >/dev/null 2>&1 & exec sleep 312",
        "kill -STOP $$",
    ] {
        let id = sidecar.start(command);
        // The tree must be there before its end can be watched: a guard, a leader and more.
        let least = if command.starts_with("kill") { 2 } else { 3 };
        let there = || (sidecar.marked().len() >= least).then_some(());
        if !command.starts_with("env -i") {
            wait_until(Duration::from_secs(10), there).expect(command);
        }
        sidecar.call("stop", json!({ "id": id }));
        assert!(
            sidecar.trees().is_empty(),
            "{command} left {:?}",
            sidecar.trees()
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn every_process_of_a_tree_is_asked_before_it_is_killed() {
    let mut sidecar = Sidecar::new();
    // The one that must clean up has left the leader's group and session.
    let id = sidecar.start(
        "setsid sh -c 'trap \"echo cleaned up; exit 0\" TERM; echo armed; while :; do sleep 0.02; done' & \
         exec sleep 300",
    );
    sidecar.output_with(&id, "armed");
    sidecar.call("stop", json!({ "id": id }));
    sidecar.output_with(&id, "cleaned up");
}

#[test]
#[cfg(target_os = "linux")]
fn a_finished_leader_whose_tree_lives_is_still_stopped_and_counted() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_MAX_PROCESSES", "1")]);
    let id = sidecar.start("sleep 300 >/dev/null 2>&1 & echo started");
    sidecar.state(&id, "exited");
    let sentence = sidecar.fail("start", json!({ "command": "true" }));
    assert!(
        sentence.contains("SIDECAR_MAX_PROCESSES") && sentence.contains(&id),
        "{sentence}"
    );
    // It is shown as what it is: finished, with a tree that lives.
    assert_eq!(sidecar.call("list", json!({}))[0]["processes"], 1);
    assert_eq!(sidecar.call("status", json!({ "id": id }))["processes"], 1);
    sidecar.call("stop", json!({ "id": id }));
    sidecar.nothing_left();
    assert_eq!(sidecar.call("list", json!({}))[0].get("processes"), None);
    // It had ended by itself, and a stop afterwards does not change that.
    sidecar.state(&id, "exited");
    sidecar.start("exec sleep 300");
}

#[test]
fn a_leader_starts_with_nothing_of_its_host() {
    let mut sidecar = Sidecar::new();
    if cfg!(target_os = "linux") {
        let id = sidecar.start(
            "ls /proc/self/fd | wc -l; grep -E 'SigBlk|SigIgn' /proc/self/status; echo done",
        );
        let text = sidecar.output_with(&id, "done");
        // 0, 1, 2, and the one with which ls reads the directory.
        assert!(text.starts_with("4\n"), "{text}");
        assert!(
            text.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"),
            "{text}"
        );
    }
    let id = sidecar.start("(yes | head -n 1); echo pipe works");
    sidecar.output_with(&id, "pipe works");
}

#[test]
fn env_is_laid_over_the_servers_own() {
    let mut sidecar = Sidecar::with(&[("KEPT", "from the server"), ("GONE", "x")]);
    let env = json!({ "NUMBER": 1_700_000_000, "FLAG": true, "EMPTY": "", "GONE": null });
    let command = "echo \"$KEPT|$NUMBER|$FLAG|${EMPTY-unset}|${GONE-unset}\"";
    sidecar.call(
        "start",
        json!({ "command": command, "env": env, "name": "env" }),
    );
    sidecar.output_with("env", "from the server|1700000000|true||unset");
}

#[test]
fn a_wrong_directory_is_an_error_and_starts_nothing() {
    let mut sidecar = Sidecar::new();
    let sentence = sidecar.fail("start", json!({ "command": "true", "cwd": "/no/such/dir" }));
    assert!(
        sentence.contains("/no/such/dir") && sentence.contains("does not exist"),
        "{sentence}"
    );
    let file = sidecar.dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let sentence = sidecar.fail("start", json!({ "command": "true", "cwd": file }));
    assert!(sentence.contains("it is a file"), "{sentence}");
    assert_eq!(sidecar.call("list", json!({})), json!([]));
    let dir = sidecar.dir.path().join("sub dir");
    std::fs::create_dir(&dir).unwrap();
    sidecar.call(
        "start",
        json!({ "command": "pwd", "cwd": "sub dir", "name": "pwd" }),
    );
    sidecar.output_with("pwd", "sub dir\n");
}

#[test]
fn what_cannot_be_started_is_an_error_and_takes_no_slot() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_MAX_PROCESSES", "1")]);
    for arguments in [
        json!({ "command": "  " }),
        json!({ "command": "true \u{0} x" }),
        json!({ "command": "true", "name": "" }),
        json!({ "command": "true", "name": "sc-123abc" }),
        json!({ "command": "true", "name": "x".repeat(101) }),
        json!({ "command": "true", "env": { "A=B": "x" } }),
        json!({ "command": "true", "cmd": "x" }),
        json!({ "name": "x" }),
    ] {
        sidecar.fail("start", arguments);
    }
    if cfg!(target_os = "linux") {
        let sentence = sidecar.fail(
            "start",
            json!({ "command": "true", "env": { "BIG": "x".repeat(300_000) } }),
        );
        assert!(sentence.contains("rgument list too long"), "{sentence}");
    }
    let id = sidecar.start("exec sleep 300");
    let sentence = sidecar.fail("start", json!({ "command": "true" }));
    assert!(sentence.contains(&id), "{sentence}");
    sidecar.call("stop", json!({ "id": id }));
    sidecar.start("true");
}

#[test]
fn a_finished_process_is_forgotten_in_time() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_CLEANUP_AFTER", "1")]);
    let id = sidecar.start("true");
    let forgotten = wait_until(Duration::from_secs(10), || {
        sidecar.client.call("status", &json!({ "id": id })).err()
    });
    assert!(forgotten.unwrap().contains(&id));
    assert_eq!(sidecar.call("list", json!({})), json!([]));
}

#[test]
fn uptime_of_a_finished_process_stands_still() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("true");
    assert_eq!(sidecar.state(&id, "exited")["uptime"], "0s");
    let other = sidecar.start("sleep 1.2");
    assert_eq!(sidecar.state(&other, "exited")["uptime"], "1s");
    assert_eq!(sidecar.state(&id, "exited")["uptime"], "0s");
}
