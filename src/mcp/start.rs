//! `start`: a command becomes a process.

use std::path::PathBuf;

use rmcp::model::{Tool, ToolAnnotations};
use serde::Serialize;
use serde_json::json;

use super::args::{Args, without_nul};
use super::{Failure, Sidecar, answer};
use crate::process::command::Command;

pub(super) fn tool() -> Tool {
    super::tool(
        "start",
        "Start a long-running command in the background. Returns at once with its id; its output \
         is kept for `output`. Starting the same name and command again returns the one that runs.",
        ToolAnnotations::from_raw(None, Some(false), Some(false), Some(false), Some(true)),
        json!({
            "command": { "type": "string", "description": "Shell command line" },
            "name": { "type": "string", "description": "Usable instead of the id" },
            "cwd": { "type": "string", "description": "Existing directory to run in" },
            "env": { "type": "object", "description": "Variables to add; null unsets one" },
        }),
        &["command"],
    )
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    id: &'a str,
    name: &'a str,
    pid: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    existing: bool,
}

pub(super) async fn call(sidecar: &Sidecar, mut args: Args) -> Result<String, Failure> {
    let line = without_nul("command", args.needed_text("command")?)?;
    let name = args
        .text("name")?
        .map(|name| without_nul("name", name))
        .transpose()?;
    let cwd = args
        .text("cwd")?
        .map(|cwd| without_nul("cwd", cwd))
        .transpose()?;
    let env = args.variables("env")?.into_iter().collect();
    let command = Command {
        line,
        cwd: cwd.map(PathBuf::from),
        env,
    };
    let started = sidecar.supervisor.start(name, command).await?;
    answer(&Answer {
        id: &started.process.id,
        name: &started.process.name,
        pid: started.process.life().pid,
        existing: started.existing,
    })
}
