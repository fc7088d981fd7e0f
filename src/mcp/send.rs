//! `send`: input for a process.

use rmcp::RoleServer;
use rmcp::model::{Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use serde::Serialize;
use serde_json::json;

use super::args::Args;
use super::key::{self, Keyboard};
use super::wait::Meanwhile;
use super::{Failure, Sidecar, answer, terminal};
use crate::process::input::Input;

pub(super) fn tool() -> Tool {
    super::tool(
        "send",
        "Type a line into a running process: `input` and a newline go to its standard input. With \
         `wait` the reply comes in the same call. Or press a key, or close its input.",
        ToolAnnotations::from_raw(None, Some(false), Some(false), Some(false), Some(true)),
        json!({
            "id": super::id_property(),
            "input": { "type": "string", "description": "Text; a newline is added unless it ends with one" },
            "newline": { "type": "boolean", "description": "false: add none" },
            "key": { "type": "string", "description": "Pressed after input: enter, up, esc, ctrl-c (interrupt)..." },
            "wait": super::wait::property(),
            "eof": { "type": "boolean", "description": "Then close its input" },
            "resize": { "type": "object", "description": "Its terminal, first: {cols, rows}" },
        }),
        &["id"],
    )
}

#[derive(Debug, Serialize)]
struct Answer {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<usize>,
    #[serde(flatten)]
    meanwhile: Option<Meanwhile>,
}

pub(super) async fn call(
    sidecar: &Sidecar,
    mut args: Args,
    context: &RequestContext<RoleServer>,
) -> Result<String, Failure> {
    let wanted = args.needed_text("id")?;
    let text = args.text("input")?;
    let newline = args.flag("newline")?;
    let key = args.text("key")?;
    let eof = args.flag("eof")?.unwrap_or(false);
    let size = terminal::size(&mut args, "resize")?;
    if text.is_none() && key.is_none() && !eof && size.is_none() {
        return Err(Failure(
            "send needs one of \"input\", \"key\", \"eof\" and \"resize\"; none is given".into(),
        ));
    }
    if let Some(key) = &key
        && !key::press(&mut Input::default(), key, Keyboard::Pipe)
    {
        return Err(Failure(format!(
            "there is no key {key:?}; there are {}",
            key::KEYS
        )));
    }
    let conditions = sidecar.conditions(&mut args).await?;
    let process = sidecar.supervisor.find(&wanted).await?;
    let keyboard = match process.screen() {
        None => Keyboard::Pipe,
        Some(screen) => Keyboard::Terminal {
            application: screen.application_cursor(),
        },
    };
    let mut input = Input::default();
    if let Some(text) = text {
        // A key that follows is still in the same line.
        let enter = newline.unwrap_or(key.is_none());
        key::type_in(&mut input, text, enter, keyboard);
    }
    if let Some(key) = key {
        key::press(&mut input, &key, keyboard);
    }
    if eof {
        key::end(&mut input, keyboard);
    }
    // What comes from here on is the reply.
    let since = process.cursor();
    if let Some(size) = size {
        sidecar.supervisor.resize(&process, size)?;
    }
    let pending = sidecar.supervisor.send(&process, input).await?;
    let meanwhile = sidecar
        .wait_and_read(&process, conditions.as_ref(), since, context)
        .await;
    answer(&Answer {
        ok: true,
        pending: (pending > 0).then_some(pending),
        meanwhile,
    })
}
