//! `stop`: a process and all that it started end.

use std::time::{Duration, Instant};

use rmcp::model::{Tool, ToolAnnotations};
use serde::Serialize;
use serde_json::json;

use super::args::Args;
use super::{Closing, Failure, Sidecar, answer};

pub(super) fn tool() -> Tool {
    super::tool(
        "stop",
        "End a process and everything it started: asked first, by force after a timeout. Returns \
         when all of it is gone.",
        ToolAnnotations::from_raw(None, Some(false), Some(true), Some(true), Some(false)),
        json!({
            "id": super::id_property(),
            "timeout": { "type": "integer", "description": "Milliseconds before force" },
        }),
        &["id"],
    )
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    id: &'a str,
    exit_code: Option<i32>,
    uptime: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    forced: bool,
}

pub(super) async fn call(sidecar: &Sidecar, mut args: Args) -> Result<String, Failure> {
    let wanted = args.needed_text("id")?;
    let grace = args.count("timeout")?.map(Duration::from_millis);
    let (process, life) = tokio::select! {
        stopped = sidecar.supervisor.stop(&wanted, grace) => stopped?,
        () = sidecar.closing(Closing::LastCall) => {
            return Err(Failure(format!(
                "{wanted} is still ending when this server does; its guard ends it, by force after its time"
            )));
        }
    };
    answer(&Answer {
        id: &process.id,
        exit_code: life.exit_code(),
        uptime: life.uptime(Instant::now()).to_string(),
        forced: life.forced,
    })
}
