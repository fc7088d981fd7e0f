//! What is told of a tree: ports, processes, processor, memory; and of the surroundings.

#![cfg(target_os = "linux")]

use std::time::Duration;

use mcp_sidecar::doctor::client::wait_until;
use serde_json::{Value, json};

use crate::harness::Sidecar;

/// Listens, in a grandchild, on a port of its own, until its input ends.
const LISTEN: &str = "
import socket, sys
listener = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
listener.close()
print('closed', flush=True)
sys.stdin.readline()
";

#[track_caller]
fn status(sidecar: &mut Sidecar, id: &str) -> Value {
    sidecar.call("status", json!({ "id": id }))
}

#[track_caller]
fn listed(sidecar: &mut Sidecar, id: &str) -> Value {
    let list = sidecar.call("list", json!({}));
    let item = list
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["id"] == id);
    item.unwrap().clone()
}

#[test]
fn ports_are_those_of_the_tree_for_as_long_as_it_listens() {
    let mut sidecar = Sidecar::new();
    std::fs::write(sidecar.dir.path().join("listen.py"), LISTEN).unwrap();
    let other = sidecar.start("exec sleep 300");
    for address in ["127.0.0.1", "::1"] {
        // Not the leader itself: a child of a child, in a session of its own.
        let command = format!("sh -c 'setsid python3 listen.py {address}; true'; true");
        let id = sidecar.start(&command);
        let port: u16 = sidecar.output_with(&id, "\n").trim().parse().unwrap();
        assert_eq!(status(&mut sidecar, &id)["ports"], json!([port]));
        assert_eq!(listed(&mut sidecar, &id)["ports"], json!([port]));
        // A second look finds the same without a search.
        assert_eq!(listed(&mut sidecar, &id)["ports"], json!([port]));
        assert_eq!(status(&mut sidecar, &other).get("ports"), None);
        assert_eq!(listed(&mut sidecar, &other).get("ports"), None);
        sidecar.call(
            "send",
            json!({ "id": id, "input": "close", "wait": "closed" }),
        );
        assert_eq!(status(&mut sidecar, &id).get("ports"), None);
        assert_eq!(listed(&mut sidecar, &id).get("ports"), None);
    }
}

#[test]
fn a_tree_tells_how_busy_it_is_and_what_it_holds() {
    let mut sidecar = Sidecar::new();
    let hold = "python3 -c 'held = bytearray(64 << 20); print(\"held\", flush=True); input()'";
    let busy = "sh -c 'while :; do :; done'";
    let id = sidecar.start(&format!("{busy} & {hold}"));
    sidecar.output_with(&id, "held");
    let seen = wait_until(Duration::from_secs(20), || {
        let status = status(&mut sidecar, &id);
        let memory = status["memoryBytes"].as_u64().unwrap();
        assert!(memory > 64 << 20, "{status}");
        let percent = status["cpuPercent"].as_f64().unwrap();
        (percent > 5.0).then_some(())
    });
    assert!(seen.is_some());
    sidecar.call("stop", json!({ "id": id }));
    let status = status(&mut sidecar, &id);
    assert_eq!(status["processes"], 0);
    assert!(status.get("cpuPercent").is_none() && status.get("memoryBytes").is_none());
}

#[test]
fn list_tells_the_exit_code_of_finished_ones() {
    let mut sidecar = Sidecar::new();
    let ended = sidecar.start("exit 3");
    sidecar.state(&ended, "failed");
    let runs = sidecar.start("exec sleep 300");
    assert_eq!(listed(&mut sidecar, &ended)["exitCode"], 3);
    assert_eq!(listed(&mut sidecar, &runs).get("exitCode"), None);
}

#[test]
fn a_server_at_the_root_says_where_its_processes_run() {
    let mut sidecar = Sidecar::under(&["env", "-C", "/"], &[]);
    let started = sidecar.call(
        "start",
        json!({ "command": "exec sleep 300", "name": "api" }),
    );
    let notice = started["notices"][0].as_str().unwrap();
    assert!(
        notice.starts_with("api (sc-") && notice.contains("runs in /,") && notice.contains("cwd"),
        "{started}"
    );
    let dir = sidecar.dir.path().to_owned();
    let started = sidecar.call("start", json!({ "command": "exec sleep 300", "cwd": dir }));
    assert_eq!(started.get("notices"), None, "{started}");
    let mut elsewhere = Sidecar::new();
    let started = elsewhere.call("start", json!({ "command": "exec sleep 300" }));
    assert_eq!(started.get("notices"), None, "{started}");
}

#[test]
fn a_name_that_is_being_started_is_waited_for() {
    let mut sidecar = Sidecar::new();
    let start = json!({ "command": "exec cat", "name": "echo" });
    let start = sidecar.ask("start", &start);
    let send = sidecar.ask(
        "send",
        &json!({ "id": "echo", "input": "heard", "wait": "heard" }),
    );
    let stop = sidecar.ask("stop", &json!({ "id": "nobody" }));
    let id = sidecar.answer(&start).unwrap()["id"].clone();
    assert_eq!(sidecar.answer(&send).unwrap()["stdout"], "heard\n");
    assert!(sidecar.answer(&stop).unwrap_err().contains("nobody"));
    assert_eq!(status(&mut sidecar, "echo")["id"], id);

    // One that comes to nothing is told as one that is not there.
    let start = json!({ "command": "true", "name": "lost", "cwd": "/nowhere" });
    let start = sidecar.ask("start", &start);
    let stop = sidecar.ask("stop", &json!({ "id": "lost" }));
    sidecar.answer(&start).unwrap_err();
    assert!(sidecar.answer(&stop).unwrap_err().contains("\"lost\""));
}

#[test]
fn a_child_that_outlives_its_leader_may_still_read() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("exec 3<&0; cat <&3 & exit 0");
    sidecar.state(&id, "exited");
    sidecar.call("send", json!({ "id": id, "input": "still here" }));
    sidecar.output_with(&id, "still here");
    sidecar.call("stop", json!({ "id": id }));
    let sentence = sidecar.fail("send", json!({ "id": id, "input": "x" }));
    assert!(
        sentence.contains("exited with exit code 0; start it again"),
        "{sentence}"
    );

    let id = sidecar.start("sleep 300 </dev/null & exit 0");
    sidecar.state(&id, "exited");
    let sentence = sidecar.fail("send", json!({ "id": id, "input": "x" }));
    assert!(
        sentence.contains("has left behind reads no input"),
        "{sentence}"
    );
}
