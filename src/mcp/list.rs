//! `list`: all processes, oldest first.

use std::time::Instant;

use rmcp::model::Tool;
use serde::Serialize;
use serde_json::json;

use super::{Failure, Sidecar, answer};

pub(super) fn tool() -> Tool {
    super::tool(
        "list",
        "All processes started here, finished ones included, oldest first.",
        super::looks(),
        json!({}),
        &[],
    )
}

#[derive(Debug, Serialize)]
struct Item<'a> {
    id: &'a str,
    name: &'a str,
    pid: u32,
    state: &'static str,
    uptime: String,
}

pub(super) fn call(sidecar: &Sidecar) -> Result<String, Failure> {
    let now = Instant::now();
    let processes = sidecar.supervisor.list();
    let items: Vec<_> = processes
        .iter()
        .map(|process| {
            let life = process.life();
            Item {
                id: &process.id,
                name: &process.name,
                pid: life.pid,
                state: life.state().as_str(),
                uptime: life.uptime(now).to_string(),
            }
        })
        .collect();
    answer(&items)
}
