//! Many processes at once.

use std::time::Duration;

use serde_json::json;

use crate::server::{Contender, Effort, Server, cpu, median, memory, private, threads, time};
use crate::table::Table;

pub(crate) fn measure(contenders: &[Contender], effort: Effort, table: &mut Table) {
    let count = effort.of(500, 10);
    let mut figures: [Vec<f64>; 6] = Default::default();
    for contender in contenders {
        let mut server = contender.open(&[("SIDECAR_MAX_PROCESSES", "1000")]);
        let started = time(|| start_all(&mut server, count));
        let pid = server.pid();
        let request = server.request("list", &json!({}));
        let lists = (0..20).map(|_| time(|| server.wire.round(&request)));
        let list = median(lists.collect());
        let silent = busy(pid, effort);
        let guard = if contender.is_own {
            guard_memory(pid)
        } else {
            0.0
        };
        let all = [
            started,
            memory(pid, "VmRSS"),
            threads(pid),
            list,
            silent,
            guard,
        ];
        for (figures, figure) in figures.iter_mut().zip(all) {
            figures.push(figure);
        }
    }
    let [started, resident, threads, list, silent, guard] = figures;
    table.row("500 processes: start all", None, started, "ms", "600 ms");
    table.row("the same, resident", None, resident, "MiB", "12 MiB");
    table.row("the same, threads", None, threads, "", "2");
    table.row("the same, `list`", None, list, "ms", "0.8 ms");
    let work = "the same, processor while all are silent, guards included";
    table.row(work, None, silent, "%", "0.0 %");
    table.row("one guard, private memory", None, guard, "KiB", "200 KiB");
}

fn start_all(server: &mut Server, count: usize) {
    const WINDOW: usize = 16;
    for at in 0..count + WINDOW {
        if at < count {
            let request = server.request("start", &json!({ "command": "exec sleep 1000" }));
            server.wire.say(&request);
        }
        if at >= WINDOW {
            server.wire.hear();
        }
    }
}

/// The share of one processor that a server and its children use while nobody asks.
fn busy(server: u32, effort: Effort) -> f64 {
    let all = || cpu(server) + children(server).into_iter().map(cpu).sum::<f64>();
    let time = Duration::from_secs(effort.of(5, 1) as u64);
    let before = all();
    std::thread::sleep(time);
    (all() - before) / time.as_secs_f64() * 100.0
}

fn guard_memory(server: u32) -> f64 {
    median(children(server).into_iter().map(private).collect())
}

fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    list.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}
