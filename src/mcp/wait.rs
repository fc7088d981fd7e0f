//! `wait`, with the same meaning in `start`, `output` and `send`.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use serde::Serialize;
use serde_json::{Value, json};

use super::args::Args;
use super::{Closing, Failure, Sidecar};
use crate::output::{Grep, Request};
use crate::process::Process;
use crate::process::http::Url;
use crate::process::wait::{Conditions, Reason};

/// Shorter than the patience of hosts.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How often a client hears that a wait goes on.
const PROGRESS: Duration = Duration::from_secs(5);

/// How much of what came meanwhile is told.
const TOLD: u64 = 8 << 10;

/// What it may hold.
const KEYS: [&str; 6] = ["pattern", "port", "url", "exit", "idle", "timeout"];

/// The parameter. A string is taken as well; a schema with two types is not understood by every
/// client.
pub(super) fn property() -> Value {
    json!({
        "type": "object",
        "description": "Wait for the first of {pattern: regex, port, url, exit: true, idle: ms, timeout: ms = 30000}",
    })
}

impl Sidecar {
    /// What the caller waits for, if anything. Who may not start what he likes must not reach other
    /// machines through the server either.
    pub(super) async fn conditions(&self, args: &mut Args) -> Result<Option<Conditions>, Failure> {
        let mut conditions = conditions(args)?;
        if self.supervisor.is_secure()
            && let Some(conditions) = &mut conditions
        {
            conditions.only_here = true;
            if let Some(url) = &conditions.url
                && !url.is_here().await
            {
                return Err(Failure(format!(
                    "wait.url cannot be used: in secure mode only this machine is asked, and {:?} does not lead to it; \
                     wait for a port or for a line",
                    url.host()
                )));
            }
        }
        Ok(conditions)
    }
}

fn conditions(args: &mut Args) -> Result<Option<Conditions>, Failure> {
    let mut wait = match args.value("wait") {
        None => return Ok(None),
        Some(Value::String(pattern)) => {
            Args::nested("wait", [("pattern".into(), pattern.into())], &KEYS)?
        }
        Some(Value::Object(wait)) => Args::nested("wait", wait, &KEYS)?,
        Some(_) => {
            return Err(Failure(
                "wait must be an object such as {\"port\": 3000}, or a string, which is a pattern"
                    .into(),
            ));
        }
    };
    let pattern = wait.text("pattern")?.map(|source| {
        Grep::new(&source).map_err(|error| Failure(format!("wait.pattern: {error}")))
    });
    let url = wait.text("url")?.map(|text| {
        Url::parse(&text)
            .map_err(|error| Failure(format!("wait.url {text:?} cannot be used: {error}")))
    });
    let port = wait.count("port")?.map(|port| match u16::try_from(port) {
        Ok(port @ 1..) => Ok(port),
        _ => Err(Failure(format!(
            "wait.port must be between 1 and 65535, not {port}"
        ))),
    });
    // It always ends a wait; to say so is to wait for nothing else.
    wait.flag("exit")?;
    Ok(Some(Conditions {
        pattern: pattern.transpose()?,
        url: url.transpose()?,
        only_here: false,
        port: port.transpose()?,
        idle: wait.count("idle")?.map(Duration::from_millis),
        timeout: wait
            .count("timeout")?
            .map_or(TIMEOUT, Duration::from_millis),
    }))
}

/// What a wait adds to an answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waited {
    wait: &'static str,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

/// What came meanwhile.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meanwhile {
    #[serde(flatten)]
    waited: Waited,
    /// Instead of both streams where a program draws on all of its terminal: what it writes to do
    /// that says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    screen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    cursor: u64,
}

impl Sidecar {
    /// Waits for what comes after a cursor. Ends at once when the client cancels the call or is
    /// gone, and leaves the process alone then.
    pub(super) async fn wait(
        &self,
        process: &Process,
        conditions: &Conditions,
        since: Option<u64>,
        context: &RequestContext<RoleServer>,
    ) -> Waited {
        let reason = tokio::select! {
            reason = process.wait(conditions, since) => reason,
            () = context.ct.cancelled() => Reason::Timeout,
            () = self.closing(Closing::Begun) => Reason::Timeout,
            () = tell_progress(context) => unreachable!("it goes on for ever"),
        };
        let life = process.life();
        Waited {
            wait: reason.as_str(),
            matched: match reason {
                Reason::Pattern(matched) => Some(matched),
                _ => None,
            },
            state: life.state().as_str(),
            exit_code: life.exit_code(),
        }
    }

    /// The same, with what came meanwhile; nothing where nothing is waited for.
    pub(super) async fn wait_and_read(
        &self,
        process: &Process,
        conditions: Option<&Conditions>,
        since: u64,
        context: &RequestContext<RoleServer>,
    ) -> Option<Meanwhile> {
        let waited = self.wait(process, conditions?, Some(since), context).await;
        let request = Request {
            since: Some(since),
            max_bytes: Some(self.max_output_size.map_or(TOLD, |limit| limit.min(TOLD))),
            ..Request::default()
        };
        let drawn = process.screen().filter(|screen| screen.is_drawn());
        if let Some(screen) = drawn {
            let view = screen.view(request);
            return Some(Meanwhile {
                waited,
                screen: Some(view.stdout),
                stdout: None,
                stderr: None,
                truncated: view.cut_from.is_some(),
                cursor: process.cursor(),
            });
        }
        let view = process.output(&request);
        Some(Meanwhile {
            waited,
            screen: None,
            stdout: Some(view.stdout),
            stderr: Some(view.stderr),
            truncated: view.cut_from.is_some(),
            cursor: view.cursor,
        })
    }
}

/// Tells a client that wants to know that its call goes on. Never completes.
async fn tell_progress(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let mut seconds = 0.0;
    loop {
        tokio::time::sleep(PROGRESS).await;
        seconds += PROGRESS.as_secs_f64();
        let progress = ProgressNotificationParam::new(token.clone(), seconds);
        // A client that is gone hears nothing.
        let _ = context.peer.notify_progress(progress).await;
    }
}
