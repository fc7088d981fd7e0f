//! `status`: how one process is.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use rmcp::model::Tool;
use serde::Serialize;
use serde_json::json;

use super::args::Args;
use super::{Failure, Sidecar, answer};
use crate::time::Timestamp;

pub(super) fn tool() -> Tool {
    super::tool(
        "status",
        "How a process is: state running, exited (by itself, code 0), failed (by itself, anything \
         else) or killed (stopped); exit code; bytes of output held.",
        super::looks(),
        json!({ "id": super::id_property() }),
        &["id"],
    )
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    id: &'a str,
    name: &'a str,
    pid: u32,
    state: &'static str,
    exit_code: Option<i32>,
    uptime: String,
    output_size: usize,
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a Path>,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Its number, where one has ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// Why it ended, where state and exit code do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    ports: BTreeSet<u16>,
    /// How many processes of the tree are alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<usize>,
    /// 100 is one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    cursor: u64,
    /// What the end of the tree is sure to reach.
    containment: &'static str,
    /// Why that is less than `exact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    containment_reason: Option<&'static str>,
}

pub(super) async fn call(sidecar: &Sidecar, mut args: Args) -> Result<String, Failure> {
    let wanted = args.needed_text("id")?;
    let process = sidecar.supervisor.find(&wanted).await?;
    let life = process.life();
    let now = Instant::now();
    let ended_at = life
        .exited
        .map(|_| Timestamp(process.started_at + life.uptime(now).0).to_string());
    let load = process.load(now);
    answer(&Answer {
        id: &process.id,
        name: &process.name,
        pid: life.pid,
        state: life.state().as_str(),
        exit_code: life.exit_code(),
        uptime: life.uptime(now).to_string(),
        output_size: process.output_size(),
        command: &process.command.line,
        cwd: process.command.cwd.as_deref(),
        started_at: Timestamp(process.started_at).to_string(),
        ended_at,
        signal: life.signal(),
        reason: life.reason(),
        ports: process.ports(),
        processes: process.tree_size(),
        cpu_percent: load.map(|load| load.percent),
        memory_bytes: load.map(|load| load.memory),
        cursor: process.cursor(),
        containment: process.containment.as_str(),
        containment_reason: process.containment.shortfall(),
    })
}
