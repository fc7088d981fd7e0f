//! Many processes at once, all busy.

#![cfg(target_os = "linux")]

use std::time::Duration;

use mcp_sidecar::doctor::client::wait_until;
use serde_json::{Value, json};

use crate::harness::Sidecar;

const MANY: usize = 500;

/// Starts so many at once; each says `up`.
#[track_caller]
fn start_many(sidecar: &mut Sidecar) -> Vec<String> {
    let command = "(setsid sleep 300 >/dev/null 2>&1 &); echo up $(ulimit -n); exec sleep 300";
    let asked: Vec<_> = (0..MANY)
        .map(|_| sidecar.ask("start", &json!({ "command": command })))
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
        let text = sidecar.output_with(id, "up");
        // Each has the limit that the host had set, not the one that the server needs.
        assert_eq!(text, "up 256\n");
    }
    ids
}

#[test]
fn five_hundred_processes_start_stop_and_die_with_their_server() {
    let mut sidecar = Sidecar::under(
        &["prlimit", "--nofile=256:4096"],
        &[
            ("SIDECAR_MAX_PROCESSES", "500"),
            ("SIDECAR_BUFFER_SIZE", "4096"),
        ],
    );
    let ids = start_many(&mut sidecar);
    let sentence = sidecar.fail("start", json!({ "command": "true" }));
    assert!(sentence.contains("500"), "{sentence}");
    let list = sidecar.call("list", json!({}));
    let running = |item: &Value| item["state"] == "running";
    assert_eq!(
        list.as_array()
            .unwrap()
            .iter()
            .filter(|item| running(item))
            .count(),
        MANY
    );

    let stops: Vec<_> = ids
        .iter()
        .map(|id| sidecar.ask("stop", &json!({ "id": id })))
        .collect();
    for stop in &stops {
        assert_eq!(sidecar.answer(stop).unwrap()["exitCode"], -1);
    }
    assert_eq!(sidecar.trees().len(), 0);

    start_many(&mut sidecar);
    sidecar.client.kill();
    sidecar.nothing_left();
}

#[test]
fn floods_fill_no_memory_and_starve_nobody() {
    let mut sidecar = Sidecar::with(&[
        ("SIDECAR_MAX_PROCESSES", "25"),
        ("SIDECAR_BUFFER_SIZE", "1048576"),
    ]);
    let ids: Vec<_> = (0..10).map(|_| sidecar.start("exec yes")).collect();
    let echo = sidecar.start("exec cat");
    for round in 0..20 {
        sidecar.call("send", json!({ "id": echo, "input": round.to_string() }));
        sidecar.output_with(&echo, &format!("{round}\n"));
        let id = &ids[round % ids.len()];
        let output = sidecar.call("output", json!({ "id": id, "tail": 2 }));
        assert!(
            output["stdout"].as_str().unwrap().starts_with('y'),
            "{output}"
        );
    }
    for id in &ids {
        let full = |status: &Value| status["outputSize"].as_u64().unwrap() > 1_000_000;
        wait_until(Duration::from_secs(20), || {
            full(&sidecar.call("status", json!({ "id": id }))).then_some(())
        })
        .expect("a flood does not arrive");
    }
    let peak = sidecar.peak_memory();
    assert!(peak < (10 + 10) * 1024, "{peak} KiB");
    sidecar.client.close();
    sidecar.client.exit(Duration::from_secs(10)).unwrap();
    sidecar.nothing_left();
}
