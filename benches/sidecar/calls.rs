//! One call after the other: how soon the server is there, and how soon it answers.

use std::process::Command;

use serde_json::json;

use crate::server::{
    Contender, Effort, INITIALIZE, Server, Wire, cpu, median, memory, share, threads, time,
};
use crate::table::Table;

pub(crate) fn measure(contenders: &[Contender], effort: Effort, table: &mut Table) {
    first_answer(contenders, effort, table);
    idle(contenders, table);
    for tool in ["list", "status", "output"] {
        small(contenders, effort, table, tool);
    }
    in_flight(contenders, effort, table);
    large(contenders, effort, table);
    start_and_stop(contenders, effort, table);
    let sizes = contenders.iter().map(|one| one.size() as f64 / 1e6);
    table.row("program", None, sizes.collect(), "MB", "4 MB");
}

fn cat() -> Wire {
    Wire::spawn(&mut Command::new("cat"))
}

fn first_answer(contenders: &[Contender], effort: Effort, table: &mut Table) {
    let mut floor = Vec::new();
    let mut values = vec![Vec::new(); contenders.len()];
    for _ in 0..effort.of(30, 3) {
        let mut spawned = None;
        floor.push(time(|| {
            let mut wire = cat();
            wire.round(INITIALIZE);
            spawned = Some(wire);
        }));
        for (contender, values) in contenders.iter().zip(&mut values) {
            values.push(time(|| {
                let mut wire = contender.spawn(&[]);
                wire.round(INITIALIZE);
                spawned = Some(wire);
            }));
        }
    }
    let values = values.into_iter().map(median).collect();
    table.row(
        "spawn to the answer of `initialize`, median of 30",
        Some(median(floor)),
        values,
        "ms",
        "2.0 ms",
    );
}

fn idle(contenders: &[Contender], table: &mut Table) {
    let servers: Vec<_> = contenders.iter().map(|one| one.open(&[])).collect();
    let resident = servers.iter().map(|one| memory(one.pid(), "VmRSS"));
    table.row("resident, idle", None, resident.collect(), "MiB", "4 MiB");
    let count = servers.iter().map(|one| threads(one.pid()));
    table.row("threads", None, count.collect(), "", "2");
}

/// A server with one process that has said little.
fn with_process(contender: &Contender) -> (Server, serde_json::Value) {
    let mut server = contender.open(&[]);
    let id = server.start("echo ready; exec sleep 1000");
    let asked = json!({ "id": id });
    while !server.call("output", &asked)["stdout"]
        .to_string()
        .contains("ready")
    {}
    (server, id)
}

fn small(contenders: &[Contender], effort: Effort, table: &mut Table, tool: &str) {
    let calls = effort.of(2000, 20);
    let mut floor = None;
    let (mut middle, mut late, mut spent) = (Vec::new(), Vec::new(), Vec::new());
    for contender in contenders {
        let (mut server, id) = with_process(contender);
        let arguments = if tool == "list" {
            json!({})
        } else {
            json!({ "id": id })
        };
        let request = server.request(tool, &arguments);
        let answer = server.wire.round(&request);
        let mut through_cat = cat();
        let echoed = answer.trim_end();
        let (mut times, mut floors) = (Vec::new(), Vec::new());
        let before = cpu(server.pid());
        for _ in 0..calls {
            times.push(time(|| server.wire.round(&request)));
        }
        spent.push((cpu(server.pid()) - before) * 1e6 / calls as f64);
        for _ in 0..calls {
            floors.push(time(|| through_cat.round(echoed)));
        }
        floor.get_or_insert(floors);
        middle.push(median(times.clone()));
        late.push(share(times, 0.99));
    }
    let floor = floor.unwrap();
    table.row(
        &format!("`{tool}`, median of 2,000"),
        Some(median(floor.clone())),
        middle,
        "ms",
        "1.3 x",
    );
    table.row(
        &format!("`{tool}`, 99th"),
        Some(share(floor, 0.99)),
        late,
        "ms",
        "0.12 ms",
    );
    table.row(
        &format!("`{tool}`, processor time of the server"),
        None,
        spent,
        "us",
        "25 us",
    );
}

fn in_flight(contenders: &[Contender], effort: Effort, table: &mut Table) {
    const WINDOW: usize = 64;
    let calls = effort.of(50_000, 500);
    let values = contenders.iter().map(|contender| {
        let (mut server, id) = with_process(contender);
        let requests: Vec<_> = (0..calls)
            .map(|_| server.request("status", &json!({ "id": id })))
            .collect();
        let milliseconds = time(|| {
            let mut heard = 0;
            for (said, request) in requests.iter().enumerate() {
                server.wire.say(request);
                if said >= heard + WINDOW - 1 {
                    server.wire.hear();
                    heard += 1;
                }
            }
            while heard < calls {
                server.wire.hear();
                heard += 1;
            }
        });
        calls as f64 / milliseconds * 1000.0
    });
    table.row(
        "64 calls of `status` in flight",
        None,
        values.collect(),
        "a second",
        "80,000",
    );
}

fn large(contenders: &[Contender], effort: Effort, table: &mut Table) {
    let rows = [
        ("`output` of a full 1 MiB buffer", json!({}), 100, "3 ms"),
        (
            "the same, `tail: 20`",
            json!({ "tail": 20 }),
            1000,
            "0.044 ms",
        ),
        (
            "the same, `maxBytes: 4096`",
            json!({ "maxBytes": 4096 }),
            1000,
            "0.06 ms",
        ),
    ];
    let mut servers: Vec<_> = contenders
        .iter()
        .map(|contender| {
            let mut server = contender.open(&[]);
            let writer = crate::flood::writer(2 << 20, 80);
            let id = server.start(&writer);
            server.await_end(&id);
            (server, id)
        })
        .collect();
    for (work, arguments, calls, reach) in rows {
        let values = servers.iter_mut().map(|(server, id)| {
            let mut arguments = arguments.clone();
            arguments["id"] = id.clone();
            let request = server.request("output", &arguments);
            let times = (0..effort.of(calls, 5)).map(|_| time(|| server.wire.round(&request)));
            median(times.collect())
        });
        table.row(work, None, values.collect(), "ms", reach);
    }
}

fn start_and_stop(contenders: &[Contender], effort: Effort, table: &mut Table) {
    const COMMAND: &str = "exec sleep 1000";
    let rounds = effort.of(200, 5);
    let (mut spawns, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut child = None;
        spawns.push(time(|| {
            child = Some(
                Command::new("/bin/sh")
                    .args(["-c", COMMAND])
                    .spawn()
                    .unwrap(),
            );
        }));
        let mut child = child.unwrap();
        ends.push(time(|| {
            child.kill().unwrap();
            child.wait().unwrap();
        }));
    }
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    for contender in contenders {
        let mut server = contender.open(&[("SIDECAR_CLEANUP_AFTER", "1")]);
        let (mut started, mut stopped) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let mut id = None;
            started.push(time(|| id = Some(server.start(COMMAND))));
            stopped.push(time(|| server.call("stop", &json!({ "id": id }))));
        }
        starts.push(median(started));
        stops.push(median(stopped));
    }
    let spawn = Some(median(spawns));
    table.row("`start` to its answer", spawn, starts, "ms", "1.0 ms");
    let end = Some(median(ends));
    table.row("`stop`, tree gone", end, stops, "ms", "0.6 ms");
}
