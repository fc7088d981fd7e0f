//! A long life at random, beside a model of it: `cargo xtask soak`.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mcp_sidecar::doctor::client::wait_until;
use serde_json::{Value, json};

use crate::cycles::held;
use crate::harness::{Sidecar, signal};

const LIMIT: usize = 30;

/// The same numbers for the same seed (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

/// What is known of a process without asking the server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Model {
    kind: &'static str,
    /// What it must have written at least.
    said: String,
    state: &'static str,
    code: Value,
}

/// A command; what it says; how it ends by itself.
type Kind = (&'static str, &'static str, Option<(&'static str, i32)>);

const KINDS: [Kind; 7] = [
    ("echo ready; exec cat", "ready\n", None),
    (
        "(setsid sleep 300 &); echo ready; exec sleep 300",
        "ready\n",
        None,
    ),
    (
        "trap '' TERM; echo ready; while :; do sleep 0.05; done",
        "ready\n",
        None,
    ),
    ("echo ready; exec yes", "y\n", None),
    ("echo bye", "bye\n", Some(("exited", 0))),
    ("echo bye; exit 7", "bye\n", Some(("failed", 7))),
    (
        "(setsid sleep 300 >/dev/null 2>&1 &); echo left",
        "left\n",
        Some(("exited", 0)),
    ),
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
#[ignore = "takes minutes"]
fn a_random_life_agrees_with_its_model() {
    let seed = setting("SOAK_SEED", 1);
    let time = Duration::from_secs(setting("SOAK_SECONDS", 300));
    let mut random = Random(seed.max(1) * 0x9e37_79b9_7f4a_7c15);
    let limit = LIMIT.to_string();
    let mut sidecar = Sidecar::with(&[
        ("SIDECAR_MAX_PROCESSES", &limit),
        ("SIDECAR_KILL_TIMEOUT", "200"),
        ("SIDECAR_CLEANUP_AFTER", "2"),
        ("SIDECAR_BUFFER_SIZE", "65536"),
        ("SIDECAR_LOG", "error"),
    ]);
    let pid = sidecar.client.pid();
    // The first round makes the server as large as it gets.
    let mut steps = round(&mut sidecar, &mut random, time / 10);
    let before = held(pid);
    steps += round(&mut sidecar, &mut random, time / 10 * 9);
    let after = held(pid);
    assert!(steps > 100, "only {steps} steps");
    assert_eq!(
        (after.zombies, after.descriptors),
        (0, before.descriptors),
        "seed {seed}"
    );
    assert!(
        after.memory_kib < before.memory_kib + 2048,
        "seed {seed}: {before:?} {after:?}"
    );
    assert!(sidecar.marked().is_empty(), "seed {seed}");
}

/// Lives for so long and ends everything. The number of steps.
fn round(sidecar: &mut Sidecar, random: &mut Random, time: Duration) -> usize {
    let begun = Instant::now();
    let mut models: BTreeMap<String, Model> = BTreeMap::new();
    let mut steps = 0;
    while begun.elapsed() < time {
        step(sidecar, random, &mut models);
        steps += 1;
    }
    for id in models.into_keys() {
        // It may be forgotten by now.
        let _ = sidecar.client.call("stop", &json!({ "id": id }));
    }
    wait_until(Duration::from_secs(20), || {
        sidecar
            .call("list", json!({}))
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    })
    .expect("something is never forgotten");
    sidecar.nothing_left();
    steps
}

fn step(sidecar: &mut Sidecar, random: &mut Random, models: &mut BTreeMap<String, Model>) {
    let living = models
        .values()
        .filter(|model| model.state == "running")
        .count();
    let action = random.below(10);
    let id = models
        .keys()
        .nth(random.below(models.len().max(1)))
        .cloned();
    let Some(id) = id.filter(|_| action > 2 || living >= LIMIT / 2) else {
        return start(sidecar, random, models);
    };
    let model = models[&id].clone();
    match action {
        0..=3 => stop(sidecar, models, &id),
        4 if model.state == "running" => {
            let leader = sidecar.call("status", json!({ "id": id }))["pid"]
                .as_u64()
                .unwrap();
            signal(u32::try_from(leader).unwrap(), "KILL");
            let status = sidecar.state(&id, "failed");
            assert_eq!(status["exitCode"], -1, "{model:?}");
            stop(sidecar, models, &id);
        }
        5 if model.state == "running" => {
            let guard = sidecar.guard(&id);
            signal(guard, "KILL");
            let status = sidecar.state(&id, "failed");
            assert!(
                status["reason"].as_str().unwrap().contains("guard"),
                "{model:?}"
            );
            models.remove(&id);
        }
        6 if model.kind == KINDS[0].0 && model.state == "running" => {
            let word = format!("word {}", random.below(1 << 30));
            sidecar.call("send", json!({ "id": id, "input": word }));
            sidecar.output_with(&id, &word);
        }
        7 => {
            // What was forgotten meanwhile is no fault.
            let _ = sidecar.client.call(
                "output",
                &json!({ "id": id, "maxBytes": 100 + random.below(1000) }),
            );
        }
        _ if model.state == "running" => {
            sidecar.output_with(&id, &model.said);
            assert_eq!(
                sidecar.call("status", json!({ "id": id }))["state"],
                "running",
                "{model:?}"
            );
        }
        _ => stop(sidecar, models, &id),
    }
}

fn start(sidecar: &mut Sidecar, random: &mut Random, models: &mut BTreeMap<String, Model>) {
    let (kind, said, end) = KINDS[random.below(KINDS.len())];
    let started = match sidecar.client.call("start", &json!({ "command": kind })) {
        Ok(started) => started,
        Err(sentence) => {
            assert!(sentence.contains("SIDECAR_MAX_PROCESSES"), "{sentence}");
            return;
        }
    };
    let id = started["id"].as_str().unwrap().to_owned();
    let (state, code) = end.map_or(("running", Value::Null), |(state, code)| {
        (state, json!(code))
    });
    let status = sidecar.state(&id, state);
    assert_eq!(status["exitCode"], code, "{kind}");
    sidecar.output_with(&id, said);
    let said = said.to_owned();
    models.insert(
        id,
        Model {
            kind,
            said,
            state,
            code,
        },
    );
}

fn stop(sidecar: &mut Sidecar, models: &mut BTreeMap<String, Model>, id: &str) {
    let model = models.remove(id).unwrap();
    match sidecar.client.call("stop", &json!({ "id": id })) {
        Ok(stopped) if model.state != "running" => {
            assert_eq!(stopped["exitCode"], model.code, "{model:?}");
        }
        Ok(stopped) => assert!(stopped["exitCode"].is_i64(), "{model:?}"),
        // Two seconds after its end it is forgotten.
        Err(sentence) => assert!(
            model.state != "running" && sentence.contains("no process"),
            "{sentence}"
        ),
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_server_killed_at_five_hundred_moments_leaves_nothing() {
    for round in 0..setting("SOAK_ROUNDS", 500) {
        let mut sidecar = Sidecar::with(&[
            ("SIDECAR_KILL_TIMEOUT", "50"),
            ("SIDECAR_MAX_PROCESSES", "50"),
        ]);
        for _ in 0..10 {
            let tree = "(setsid sleep 300 </dev/null >/dev/null 2>&1 &); exec sleep 300";
            sidecar.ask("start", &json!({ "command": tree }));
        }
        let moment = Instant::now() + Duration::from_micros(40 * round);
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        sidecar.client.kill();
        sidecar.nothing_left();
    }
}
