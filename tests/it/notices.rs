//! What ended by itself is mentioned once, in the next answer.

use std::time::Duration;

use mcp_sidecar::doctor::client::wait_until;
use serde_json::{Value, json};

use crate::harness::Sidecar;

/// Waits without a call that could be told.
#[track_caller]
fn ended(sidecar: &mut Sidecar, id: &str) {
    wait_until(Duration::from_secs(20), || {
        let list = sidecar.call("list", json!({}));
        assert!(list.is_array());
        let items = list.as_array().unwrap();
        let item = items.iter().find(|item| item["id"] == id).unwrap();
        (item["state"] != "running").then_some(())
    })
    .unwrap();
}

#[test]
fn an_end_is_mentioned_once_and_not_by_list() {
    let mut sidecar = Sidecar::new();
    let other = sidecar.start("exec cat");
    sidecar.call(
        "start",
        json!({ "command": "read line; exit 3", "name": "api" }),
    );
    let id = sidecar.call("status", json!({ "id": "api" }))["id"].clone();
    let id = id.as_str().unwrap();
    assert_eq!(
        sidecar
            .call("status", json!({ "id": other }))
            .get("notices"),
        None
    );
    sidecar.call("send", json!({ "id": "api", "input": "end" }));
    ended(&mut sidecar, id);
    let answer = sidecar.call("status", json!({ "id": other }));
    let notices = answer["notices"].as_array().unwrap();
    assert_eq!(notices.len(), 1, "{answer}");
    assert_eq!(
        notices[0],
        format!("api ({id}) failed with exit code 3 after 0s")
    );
    let answer = sidecar.call("status", json!({ "id": other }));
    assert_eq!(answer.get("notices"), None);
}

#[test]
fn what_was_stopped_is_not_mentioned_and_a_signal_is_named() {
    let mut sidecar = Sidecar::new();
    let stopped = sidecar.start("exec sleep 300");
    sidecar.call("stop", json!({ "id": stopped }));
    let killed = sidecar.start("kill -9 $$");
    ended(&mut sidecar, &killed);
    let answer = sidecar.call("output", json!({ "id": stopped }));
    assert_eq!(
        answer["notices"],
        json!([format!(
            "{killed} failed with exit code -1 (signal 9) after 0s"
        )])
    );
}

#[test]
fn what_was_forgotten_is_mentioned_all_the_same() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_CLEANUP_AFTER", "1")]);
    let id = sidecar.start("exit 0");
    wait_until(Duration::from_secs(20), || {
        (sidecar.call("list", json!({})) == json!([])).then_some(())
    })
    .unwrap();
    let answer = sidecar.call("start", json!({ "command": "exec sleep 300" }));
    let notices: &Value = &answer["notices"];
    assert_eq!(
        *notices,
        json!([format!("{id} exited with exit code 0 after 0s")])
    );
}

#[test]
fn many_ends_are_told_by_their_number() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_MAX_PROCESSES", "100")]);
    let asked: Vec<_> = (0..50)
        .map(|_| sidecar.ask("start", &json!({ "command": "sleep 1" })))
        .collect();
    let ids: Vec<_> = asked
        .iter()
        .map(|asked| {
            sidecar.answer(asked).unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    for id in &ids {
        ended(&mut sidecar, id);
    }
    let answer = sidecar.call("status", json!({ "id": ids[0] }));
    let notices = answer["notices"].as_array().unwrap();
    assert_eq!(notices.len(), 21, "{answer}");
    assert!(
        notices[20].as_str().unwrap().contains("30 more"),
        "{answer}"
    );
}
