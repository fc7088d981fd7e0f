//! `start`: a command becomes a process.

use std::path::PathBuf;

use rmcp::RoleServer;
use rmcp::model::{Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use serde::Serialize;
use serde_json::json;

use super::args::{Args, without_nul};
use super::wait::Meanwhile;
use super::{Failure, Sidecar, answer, terminal};
use crate::process::command::Command;

pub(super) fn tool() -> Tool {
    super::tool(
        "start",
        "Start a long-running command in the background. Returns its id at once, or with `wait` once \
         it is ready; its output is kept for `output`. Starting the same name and command again returns the one that runs; \
         a name alone starts its last command again.",
        ToolAnnotations::from_raw(None, Some(false), Some(false), Some(false), Some(true)),
        json!({
            "command": { "type": "string", "description": "Shell command line" },
            "name": { "type": "string", "description": "Usable instead of the id" },
            "cwd": { "type": "string", "description": "Existing directory to run in" },
            "env": { "type": "object", "description": "Variables to add; null unsets one" },
            "wait": super::wait::property(),
            "pty": { "type": "object", "description": "Give it a terminal: {cols: 80, rows: 24}" },
            "replace": { "type": "boolean", "description": "Stop the one of this name first" },
        }),
        &[],
    )
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    id: &'a str,
    name: &'a str,
    pid: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    existing: bool,
    #[serde(flatten)]
    meanwhile: Option<Meanwhile>,
}

pub(super) async fn call(
    sidecar: &Sidecar,
    mut args: Args,
    context: &RequestContext<RoleServer>,
) -> Result<String, Failure> {
    let line = match args.text("command")? {
        // The policy refuses it, and writes that down.
        Some(line) if sidecar.supervisor.is_secure() => Some(line),
        Some(line) => Some(without_nul("command", line)?),
        None => None,
    };
    let name = args
        .text("name")?
        .map(|name| without_nul("name", name))
        .transpose()?;
    let cwd = args
        .text("cwd")?
        .map(|cwd| without_nul("cwd", cwd))
        .transpose()?;
    let env = args.variables("env")?;
    let replace = args.flag("replace")?.unwrap_or(false);
    let mut command = match line {
        Some(line) => Command {
            line,
            ..Command::default()
        },
        None => last_command(sidecar, name.as_deref())?,
    };
    if let Some(cwd) = cwd {
        command.cwd = Some(PathBuf::from(cwd));
    }
    command.env.extend(env);
    command.terminal = terminal::pty(&mut args, command.terminal)?;
    let conditions = sidecar.conditions(&mut args).await?;
    let port = conditions.as_ref().and_then(|conditions| conditions.port);
    let started = sidecar
        .supervisor
        .start(name, command, replace, port)
        .await?;
    let process = &started.process;
    let meanwhile = sidecar
        .wait_and_read(process, conditions.as_ref(), 0, context)
        .await;
    answer(&Answer {
        id: &process.id,
        name: &process.name,
        pid: process.life().pid,
        existing: started.existing,
        meanwhile,
    })
}

/// What ran under this name before.
fn last_command(sidecar: &Sidecar, name: Option<&str>) -> Result<Command, Failure> {
    let Some(name) = name else {
        return Err(Failure(
            "start needs \"command\", which is missing; a name alone starts again what ran under it".into(),
        ));
    };
    sidecar.supervisor.last_command(name).ok_or_else(|| {
        Failure(format!(
            "start needs \"command\", which is missing, and nothing was started under the name {name:?} before"
        ))
    })
}
