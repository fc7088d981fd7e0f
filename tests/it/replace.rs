//! The same again, another in its place, and an end that cannot wait.

#![cfg(unix)]

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::Sidecar;

#[test]
fn replace_ends_the_one_of_this_name_first() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_MAX_PROCESSES", "1")]);
    let first = sidecar.call(
        "start",
        json!({ "command": "echo first; exec sleep 300", "name": "api" }),
    );
    let sentence = sidecar.fail(
        "start",
        json!({ "command": "exec sleep 301", "name": "api" }),
    );
    assert!(sentence.contains("replace: true"), "{sentence}");
    let second = sidecar.call(
        "start",
        json!({ "command": "echo second; exec sleep 301", "name": "api", "replace": true }),
    );
    assert_ne!(first["id"], second["id"]);
    sidecar.output_with("api", "second");
    let status = sidecar.call("status", json!({ "id": first["id"] }));
    assert_eq!(
        (&status["state"], &status["processes"]),
        (&json!("killed"), &json!(0))
    );
    // Also by the same command: that is a restart.
    let third = sidecar.call(
        "start",
        json!({ "command": "echo second; exec sleep 301", "name": "api", "replace": true }),
    );
    assert_ne!(third["id"], second["id"]);
    assert_eq!(third.get("existing"), None);
    // Nobody of that name is no reason not to start.
    sidecar.call("stop", json!({ "id": "api" }));
    sidecar.call(
        "start",
        json!({ "command": "true", "name": "new", "replace": true }),
    );
    let sentence = sidecar.fail("start", json!({ "command": "true", "replace": true }));
    assert!(sentence.contains("name"), "{sentence}");
}

#[test]
#[cfg(target_os = "linux")]
fn replace_ends_what_a_finished_leader_has_left() {
    let mut sidecar = Sidecar::new();
    let left = sidecar.call(
        "start",
        json!({ "command": "sleep 300 >/dev/null 2>&1 &", "name": "daemon" }),
    );
    let left = left["id"].as_str().unwrap();
    sidecar.state(left, "exited");
    sidecar.call("start", json!({ "name": "daemon", "replace": true }));
    assert_eq!(
        sidecar.call("status", json!({ "id": left }))["processes"],
        0
    );
}

#[test]
fn what_is_refused_or_wrong_replaces_nobody() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_BLOCKED_PATTERNS", "forbidden")]);
    let id = sidecar.call(
        "start",
        json!({ "command": "exec sleep 300", "name": "api" }),
    )["id"]
        .clone();
    for arguments in [
        json!({ "command": "echo forbidden", "name": "api", "replace": true }),
        json!({ "command": "true", "cwd": "/no/such/dir", "name": "api", "replace": true }),
    ] {
        sidecar.fail("start", arguments);
        assert_eq!(
            sidecar.call("status", json!({ "id": id }))["state"],
            "running"
        );
    }
}

#[test]
fn a_name_is_enough_to_start_again() {
    let mut sidecar = Sidecar::new();
    std::fs::create_dir(sidecar.dir.path().join("sub")).unwrap();
    let command = "echo \"$(basename \"$PWD\") $A $B\"; exec sleep 300";
    sidecar.call(
        "start",
        json!({ "command": command, "name": "api", "cwd": "sub", "env": { "A": "1", "B": "2" } }),
    );
    sidecar.output_with("api", "sub 1 2\n");
    // It runs already.
    assert_eq!(
        sidecar.call("start", json!({ "name": "api" }))["existing"],
        true
    );
    sidecar.call("stop", json!({ "id": "api" }));
    sidecar.call("start", json!({ "name": "api" }));
    sidecar.output_with("api", "sub 1 2\n");
    // With another value, which is laid over what it had.
    sidecar.call(
        "start",
        json!({ "name": "api", "env": { "B": "3" }, "replace": true }),
    );
    sidecar.output_with("api", "sub 1 3\n");
    sidecar.call(
        "start",
        json!({ "name": "api", "cwd": ".", "replace": true }),
    );
    let text = sidecar.output_with("api", " 1 3\n");
    assert!(!text.starts_with("sub"), "{text}");
    for arguments in [json!({ "name": "other" }), json!({})] {
        let sentence = sidecar.fail("start", arguments);
        assert!(sentence.contains("command"), "{sentence}");
    }
}

#[test]
fn stop_takes_a_time_of_its_own_and_tells_of_force() {
    let (mut sidecar, id) = Sidecar::stubborn("60000");
    let begun = Instant::now();
    let stopped = sidecar.call("stop", json!({ "id": id, "timeout": 100 }));
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(stopped["forced"], true);
    assert_eq!(sidecar.call("stop", json!({ "id": id })), stopped);
    let id = sidecar.start("exec sleep 300");
    assert_eq!(
        sidecar.call("stop", json!({ "id": id })).get("forced"),
        None
    );
    let sentence = sidecar.fail("stop", json!({ "id": id, "timeout": -1 }));
    assert!(sentence.contains("timeout"), "{sentence}");
}

#[test]
fn status_tells_what_it_runs_and_when_it_did() {
    let mut sidecar = Sidecar::new();
    sidecar.call(
        "start",
        json!({ "command": "kill -9 $$", "name": "x", "cwd": "/" }),
    );
    let status = sidecar.state("x", "failed");
    assert_eq!(status["command"], "kill -9 $$");
    assert_eq!(status["cwd"], "/");
    assert_eq!(status["signal"], 9);
    let form = |time: &str| time.len() == 20 && time.starts_with("20") && time.ends_with('Z');
    assert!(form(status["startedAt"].as_str().unwrap()), "{status}");
    assert!(form(status["endedAt"].as_str().unwrap()), "{status}");
    let id = sidecar.start("exec sleep 300");
    let status = sidecar.call("status", json!({ "id": id }));
    assert_eq!(
        (
            status.get("endedAt"),
            status.get("signal"),
            status.get("cwd")
        ),
        (None, None, None)
    );
}
