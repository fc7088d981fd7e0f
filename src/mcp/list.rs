//! `list`: all processes, oldest first.

use std::collections::BTreeSet;
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
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    id: &'a str,
    name: &'a str,
    pid: u32,
    state: &'static str,
    uptime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    ports: BTreeSet<u16>,
    /// How many processes of a tree are alive whose leader has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<usize>,
}

pub(super) fn call(sidecar: &Sidecar) -> Result<String, Failure> {
    let now = Instant::now();
    let processes = sidecar.supervisor.list();
    let mut ports = sidecar.supervisor.ports(&processes);
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
                exit_code: life.exit_code(),
                ports: ports.remove(&process.id).unwrap_or_default(),
                processes: (life.exited.is_some() && !life.gone)
                    .then(|| process.tree_size())
                    .flatten(),
            }
        })
        .collect();
    answer(&items)
}
