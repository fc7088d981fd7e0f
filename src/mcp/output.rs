//! `output`: what a process has written.

use std::time::Instant;

use rmcp::RoleServer;
use rmcp::model::Tool;
use rmcp::service::RequestContext;
use serde::Serialize;
use serde_json::json;

use super::args::Args;
use super::wait::Waited;
use super::{Failure, Sidecar, answer};
use crate::output::{Grep, Request, View};
use crate::supervisor;

/// No answer is larger on the wire; what surrounds the text needs the difference to 4 MiB.
const MAX_WIRE: usize = (4 << 20) - (4 << 10);

pub(super) fn tool() -> Tool {
    super::tool(
        "output",
        "What a process has written, newest kept; an unfinished last line (a prompt) is included. \
         `truncated` tells that something before it is left out. Pass `cursor` as `since` next time \
         to get only what is new.",
        super::looks(),
        json!({
            "id": super::id_property(),
            "tail": { "type": "integer", "description": "Only the last N lines of each stream" },
            "maxBytes": { "type": "integer", "description": "Only the newest N bytes in all" },
            "since": { "type": "integer", "description": "Only what came after this cursor" },
            "grep": { "type": "string", "description": "Only lines that match this regex" },
            "wait": super::wait::property(),
            "screen": { "type": "boolean", "description": "The terminal's screen as text instead" },
            "raw": { "type": "boolean", "description": "With escape sequences, as it was written" },
        }),
        &["id"],
    )
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// Instead of both streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    screen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    uptime: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes: Option<u64>,
    /// Bytes between the cursor and what is shown that are gone.
    #[serde(skip_serializing_if = "is_zero")]
    dropped: u64,
    cursor: u64,
    #[serde(flatten)]
    waited: Option<Waited>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

pub(super) async fn call(
    sidecar: &Sidecar,
    mut args: Args,
    context: &RequestContext<RoleServer>,
) -> Result<String, Failure> {
    let id = args.needed_text("id")?;
    let limit = |count: &u64| *count > 0;
    let tail = args.count("tail")?.filter(limit);
    let max_bytes = args.count("maxBytes")?.filter(limit);
    let max_bytes = max_bytes.into_iter().chain(sidecar.max_output_size).min();
    let raw = args.flag("raw")?.unwrap_or(false);
    let screen = args.flag("screen")?.unwrap_or(false);
    let since = args.count("since")?;
    let grep = args
        .text("grep")?
        .map(|source| Grep::new(&source).map_err(|error| Failure(format!("grep: {error}"))))
        .transpose()?;
    let conditions = sidecar.conditions(&mut args).await?;
    let process = sidecar.supervisor.find(&id).await?;
    if screen {
        // Before a wait for what will never be shown.
        drop(supervisor::screen(&process)?);
    }
    let waited = if let Some(conditions) = &conditions {
        Some(sidecar.wait(&process, conditions, since, context).await)
    } else {
        // What was written before the call is in the answer.
        process.settle().await;
        None
    };
    // Made only when the client has read most of what was made before: an answer may be large.
    sidecar.wire.room().await;
    let request = Request {
        tail,
        max_bytes,
        max_wire: Some(MAX_WIRE),
        raw,
        since,
        grep,
    };
    let view = if screen {
        View {
            cursor: process.cursor(),
            ..supervisor::screen(&process)?.view(request)
        }
    } else {
        process.output(&request)
    };
    let (screen, stdout, stderr) = if screen {
        (Some(view.stdout), None, None)
    } else {
        (None, Some(view.stdout), Some(view.stderr))
    };
    let answer = answer(&Answer {
        screen,
        stdout,
        stderr,
        uptime: process.life().uptime(Instant::now()).to_string(),
        truncated: view.cut_from.map(|_| true),
        total_bytes: view.cut_from,
        dropped: view.dropped,
        cursor: view.cursor,
        waited,
    })?;
    sidecar.wire.reserve(&context.id, answer.len());
    Ok(answer)
}
