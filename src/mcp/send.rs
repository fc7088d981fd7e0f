//! `send`: input for a process.

use rmcp::model::{Tool, ToolAnnotations};
use serde::Serialize;
use serde_json::json;

use super::args::Args;
use super::{Failure, Sidecar, answer};

pub(super) fn tool() -> Tool {
    super::tool(
        "send",
        "Type a line into a running process: `input` and a newline go to its standard input. Read \
         the reply with `output`.",
        ToolAnnotations::from_raw(None, Some(false), Some(false), Some(false), Some(true)),
        json!({
            "id": super::id_property(),
            "input": { "type": "string", "description": "Text; a newline is added unless it ends with one" },
        }),
        &["id", "input"],
    )
}

#[derive(Debug, Serialize)]
struct Answer {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<usize>,
}

pub(super) async fn call(sidecar: &Sidecar, mut args: Args) -> Result<String, Failure> {
    let wanted = args.needed_text("id")?;
    let mut input = args.needed_text("input")?;
    if !input.ends_with('\n') {
        input.push('\n');
    }
    let pending = sidecar.supervisor.send(&wanted, input.into_bytes()).await?;
    answer(&Answer {
        ok: true,
        pending: (pending > 0).then_some(pending),
    })
}
