//! Processes that write much.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::server::{Contender, Effort, Server, cpu, memory, time};
use crate::table::Table;

/// Writes so many bytes in lines of so many, or without a newline.
pub(crate) fn write(bytes: usize, line: usize) {
    let mut block = vec![b'x'; 64 << 10];
    if let Some(lines) = block.len().checked_div(line) {
        block.truncate(lines * line);
        for end in block.chunks_mut(line) {
            *end.last_mut().unwrap() = b'\n';
        }
    }
    let mut out = std::io::stdout().lock();
    let mut left = bytes;
    while left > 0 {
        let now = left.min(block.len());
        out.write_all(&block[..now]).unwrap();
        left -= now;
    }
}

/// The command that does so.
pub(crate) fn writer(bytes: usize, line: usize) -> String {
    let own = std::env::current_exe().unwrap();
    format!("exec '{}' --write {bytes} {line}", own.display())
}

pub(crate) fn measure(contenders: &[Contender], effort: Effort, table: &mut Table) {
    let lines = effort.of(1 << 30, 1 << 22);
    let floor = into_cat(&writer(lines, 80));
    let (mut walls, mut spent) = (Vec::new(), Vec::new());
    for contender in contenders {
        let mut server = contender.open(&[]);
        let before = cpu(server.pid());
        walls.push(time(|| written(&mut server, &writer(lines, 80))));
        spent.push(cpu(server.pid()) - before);
    }
    table.row(
        "a child writes 1 GiB in lines of 80 bytes",
        Some(floor),
        walls,
        "ms",
        "1.15 x",
    );
    table.row(
        "the same, processor time of the server",
        None,
        spent,
        "s",
        "0.35 s",
    );

    let bare = effort.of(64 << 20, 1 << 20);
    let floor = into_cat(&writer(bare, 0));
    let (mut walls, mut peaks) = (Vec::new(), Vec::new());
    for contender in contenders {
        let mut server = contender.open(&[]);
        walls.push(time(|| written(&mut server, &writer(bare, 0))));
        peaks.push(memory(server.pid(), "VmHWM"));
    }
    table.row(
        "64 MiB without a newline",
        Some(floor),
        walls,
        "ms",
        "1.2 x",
    );
    table.row("the same, peak memory", None, peaks, "MiB", "7 MiB");

    let (mut resident, mut peaks) = (Vec::new(), Vec::new());
    for contender in contenders {
        let mut server = contender.open(&[]);
        let each = writer(effort.of(100_000_000, 1_000_000), 80);
        let ids: Vec<_> = (0..10).map(|_| server.start(&each)).collect();
        for id in &ids {
            server.await_end(id);
        }
        resident.push(memory(server.pid(), "VmRSS"));
        peaks.push(memory(server.pid(), "VmHWM"));
    }
    let work = "ten processes have written 100 MB each, resident";
    table.row(work, None, resident, "MiB", "16 MiB");
    table.row("the same, peak", None, peaks, "MiB", "16 MiB");
}

fn into_cat(writer: &str) -> f64 {
    let line = format!("({writer}) | cat >/dev/null");
    time(|| {
        Command::new("/bin/sh")
            .args(["-c", &line])
            .stdin(Stdio::null())
            .status()
    })
}

fn written(server: &mut Server, writer: &str) -> Value {
    let id = server.start(writer);
    server.await_end(&id);
    server.call("output", &json!({ "id": id, "tail": 1 }))
}
