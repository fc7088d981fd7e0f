//! Ids and names.

use serde_json::json;

use crate::harness::Sidecar;

#[test]
fn a_name_serves_wherever_an_id_does() {
    let mut sidecar = Sidecar::new();
    sidecar.call(
        "start",
        json!({ "command": "exec cat", "name": "my server" }),
    );
    sidecar.call("send", json!({ "id": "my server", "input": "hello" }));
    sidecar.output_with("my server", "hello\n");
    assert_eq!(sidecar.state("my server", "running")["name"], "my server");
    sidecar.call("stop", json!({ "id": "my server" }));
    sidecar.state("my server", "killed");
}

#[test]
fn the_same_start_twice_is_one_process() {
    let mut sidecar = Sidecar::new();
    let start = json!({ "command": "exec sleep 300", "name": "api", "env": { "A": "1" } });
    // Also when the second comes before the first has been answered.
    let asked: Vec<_> = (0..4).map(|_| sidecar.ask("start", &start)).collect();
    let answers: Vec<_> = asked
        .iter()
        .map(|asked| sidecar.answer(asked).unwrap())
        .collect();
    assert!(
        answers
            .iter()
            .all(|answer| answer["id"] == answers[0]["id"])
    );
    let existing = answers
        .iter()
        .filter(|answer| answer["existing"] == true)
        .count();
    assert_eq!(existing, 3, "{answers:?}");
    assert_eq!(sidecar.call("list", json!({})).as_array().unwrap().len(), 1);
}

#[test]
fn another_start_with_a_living_name_is_an_error_that_tells_its_owner() {
    let mut sidecar = Sidecar::new();
    let owner = sidecar.call(
        "start",
        json!({ "command": "exec sleep 300", "name": "api" }),
    );
    for other in [
        json!({ "command": "exec sleep 301", "name": "api" }),
        json!({ "command": "exec sleep 300", "name": "api", "cwd": "/" }),
        json!({ "command": "exec sleep 300", "name": "api", "env": { "A": "1" } }),
    ] {
        let sentence = sidecar.fail("start", other);
        for part in [
            owner["id"].as_str().unwrap(),
            "exec sleep 300",
            "0s",
            "replace",
        ] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }
    sidecar.call("stop", json!({ "id": "api" }));
    let second = sidecar.call(
        "start",
        json!({ "command": "exec sleep 301", "name": "api" }),
    );
    assert_ne!(owner["id"], second["id"]);
    // The living one has the name, then the newest finished one.
    assert_eq!(sidecar.state("api", "running")["id"], second["id"]);
    sidecar.call("stop", json!({ "id": "api" }));
    assert_eq!(sidecar.state("api", "killed")["id"], second["id"]);
}

#[test]
fn an_unknown_process_is_named_with_those_there_are() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("exec sleep 300");
    for tool in ["stop", "output", "status"] {
        let sentence = sidecar.fail(tool, json!({ "id": "nobody" }));
        assert!(
            sentence.contains("nobody") && sentence.contains(&id),
            "{sentence}"
        );
    }
    let sentence = sidecar.fail("send", json!({ "id": "nobody", "input": "x" }));
    assert!(sentence.contains("nobody"), "{sentence}");
}

#[test]
fn list_keeps_the_order_of_the_starts() {
    let mut sidecar = Sidecar::new();
    let asked: Vec<_> = (0..8)
        .map(|number| {
            sidecar.ask(
                "start",
                &json!({ "command": "exec sleep 300", "name": format!("p{number}") }),
            )
        })
        .collect();
    for asked in &asked {
        sidecar.answer(asked).unwrap();
    }
    let list = sidecar.call("list", json!({}));
    let names: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].clone())
        .collect();
    assert_eq!(
        json!(names),
        json!(["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"])
    );
}
