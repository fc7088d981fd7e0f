//! The server's face: six tools over MCP on standard input and output.
//!
//! rmcp speaks the protocol, [`transport`] carries it, each tool has a file of its own. What a
//! tool does is the supervisor's; here it only gets its parameters and gives its answer a form.
//!
//! Architecture invariant: rmcp is used in this module and nowhere else.

mod args;
mod key;
mod line;
mod list;
mod output;
mod send;
mod start;
mod status;
mod stop;
mod transport;
mod wait;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, InitializeRequestParams, InitializeResult, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::config::Config;
use crate::platform;
use crate::policy::Policy;
use crate::supervisor::{Limits, Supervisor};
use args::{Args, Wrong};
use transport::{Wire, WireState};

/// What a model reads about this server before it reads about its tools.
const INSTRUCTIONS: &str = "Runs commands that do not end by themselves (dev servers, watchers, \
    databases, REPLs) and keeps their output. `start` one, with `wait` (a port, a line) to return when \
    it is ready; read it with `output` (`since` for what is new), type into it with `send`, see how it \
    is with `status` or `list`, end it and all its children with `stop`. A `name` works as id. Everything \
    ends when this server ends. For short commands use your own shell.";

/// At the end of the input this is how long answers and trees may take.
const FAREWELL: Duration = Duration::from_millis(1400);

/// And so long those that say that they cannot wait any longer.
const LAST_CALL: Duration = Duration::from_millis(100);

/// After a signal this is how long answers that are ready may take.
const FLUSH: Duration = Duration::from_millis(50);

/// And so long the guards may take to hear that they are on their own.
const HANDOVER: Duration = Duration::from_millis(80);

/// Serves until the client is gone or the system says so. The trees are then being ended, by
/// guards that outlive this process.
pub async fn serve(config: &Config) -> io::Result<()> {
    let limits = Limits {
        max_processes: config.max_processes,
        buffer_size: config.buffer_size,
        kill_timeout: config.kill_timeout,
        cleanup_after: config.cleanup_after,
    };
    let policy = Policy::here(config.policy.clone());
    let supervisor = Arc::new(Supervisor::new(limits, policy, config.audit.clone()));
    let (closing, closed) = watch::channel(Closing::No);
    let (transport, wire, writer) = transport::open(platform::stdin()?, platform::stdout()?);
    let sidecar = Sidecar {
        supervisor: supervisor.clone(),
        max_output_size: config.max_output_size,
        tools: tools(),
        closing: closed,
        wire: wire.clone(),
    };
    tokio::spawn(writer);
    tokio::spawn(platform::look_after_children());
    let session = tokio::spawn(async move {
        match sidecar.serve(transport).await {
            Ok(session) => drop(session.waiting().await),
            Err(error) => tracing::warn!(%error, "the session ended"),
        }
    });

    let mut state = wire.state();
    let mut idle = wire.state();
    let mut first = wire.state();
    // To find out who the host is takes time that the first answer does not have.
    let host_gone = platform::host_gone(async move {
        let _ = first.changed().await;
        let _ = first.wait_for(WireState::is_answered).await;
    });
    let signal = platform::shutdown_signal();
    tokio::pin!(signal);
    tokio::select! {
        name = &mut signal => {
            tracing::info!(name, "asked to end");
            let heard = supervisor.close();
            // What it gives holds a lock, which must not outlive this moment.
            let answered = async { drop(idle.wait_for(WireState::is_answered).await) };
            let _ = tokio::join!(timeout(FLUSH, answered), timeout(HANDOVER, heard));
            // Where a guard was killed, there is nobody to leave its tree to.
            let _ = timeout(FAREWELL, supervisor.strays_gone()).await;
            return Ok(());
        }
        _ = state.wait_for(|state| state.ended || state.broken) => {}
        () = host_gone => tracing::info!("the host is gone"),
        _ = session => {}
    }
    let _ = closing.send(Closing::Begun);
    drop(supervisor.close());
    let farewell = async {
        // A start in flight makes a tree to wait for, a stop in flight waits for one.
        let _ = idle.wait_for(WireState::is_answered).await;
        supervisor.all_gone().await;
        let _ = idle.wait_for(WireState::is_answered).await;
    };
    let last_words = async {
        let _ = timeout(FAREWELL, farewell).await;
        let _ = closing.send(Closing::LastCall);
        let _ = timeout(LAST_CALL, wire.state().wait_for(WireState::is_answered)).await;
    };
    tokio::select! {
        () = last_words => {}
        _ = signal => drop(timeout(FAREWELL, supervisor.strays_gone()).await),
    }
    Ok(())
}

/// How far the end of the server has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    No,
    /// The client is gone: what waits for something that may never come ends.
    Begun,
    /// No answer can wait any longer.
    LastCall,
}

/// What the tools share.
#[derive(Debug, Clone)]
struct Sidecar {
    supervisor: Arc<Supervisor>,
    max_output_size: Option<u64>,
    tools: Vec<Tool>,
    closing: watch::Receiver<Closing>,
    wire: Wire,
}

/// A call that could not be done: one plain sentence.
#[derive(Debug)]
struct Failure(String);

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        Self(wrong.to_string())
    }
}

impl From<crate::supervisor::Error> for Failure {
    fn from(error: crate::supervisor::Error) -> Self {
        Self(error.to_string())
    }
}

/// One JSON document, compact, the keys in the order of the struct.
fn answer(result: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(result).map_err(|error| Failure(format!("internal error: {error}")))
}

/// The same document with what has ended by itself meanwhile.
fn with_notices(mut answer: String, notices: &[String]) -> String {
    if !notices.is_empty() && answer.ends_with('}') {
        answer.pop();
        answer.push_str(",\"notices\":");
        answer.push_str(&json!(notices).to_string());
        answer.push('}');
    }
    answer
}

fn tools() -> Vec<Tool> {
    vec![
        start::tool(),
        stop::tool(),
        list::tool(),
        output::tool(),
        send::tool(),
        status::tool(),
    ]
}

/// A tool as clients see it. `properties` are its parameters, of which the first `required` must
/// be given.
fn tool(
    name: &'static str,
    description: &'static str,
    hints: ToolAnnotations,
    properties: Value,
    required: &[&str],
) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), properties);
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema.insert("additionalProperties".into(), json!(false));
    Tool::new(name, description, schema).with_annotations(hints)
}

/// Of a tool that only looks.
fn looks() -> ToolAnnotations {
    ToolAnnotations::from_raw(None, Some(true), Some(false), Some(true), Some(false))
}

/// The parameter that names a process.
fn id_property() -> Value {
    json!({ "type": "string", "description": "Id or name" })
}

impl Sidecar {
    /// Completes when the end has come so far.
    async fn closing(&self, far: Closing) {
        let _ = self
            .closing
            .clone()
            .wait_for(|closing| *closing >= far)
            .await;
    }

    async fn call(
        &self,
        tool: &Tool,
        arguments: Option<JsonObject>,
        context: &RequestContext<RoleServer>,
    ) -> Result<String, Failure> {
        let args = Args::new(tool, arguments)?;
        let answer = match &*tool.name {
            "start" => start::call(self, args, context).await,
            "stop" => stop::call(self, args).await,
            // It shows everything anyway.
            "list" => return list::call(self),
            "output" => output::call(self, args, context).await,
            "send" => send::call(self, args, context).await,
            "status" => status::call(self, args).await,
            other => unreachable!("{other} is listed but has no code"),
        }?;
        Ok(with_notices(answer, &self.supervisor.notices()))
    }
}

/// The result of a task; a panic in it is a result too.
async fn contained(
    call: impl Future<Output = Result<String, Failure>> + Send + 'static,
) -> CallToolResult {
    let result = tokio::spawn(call).await.unwrap_or_else(|_| {
        Err(Failure("internal error: this call failed in the server, which goes on; other processes are not affected".into()))
    });
    match result {
        Ok(json) => CallToolResult::success(vec![ContentBlock::text(json)]),
        Err(Failure(sentence)) => CallToolResult::error(vec![ContentBlock::text(sentence)]),
    }
}

impl ServerHandler for Sidecar {
    /// As rmcp does it, but a session goes on under the version that was agreed upon, not under
    /// the one that was asked for. rmcp itself heeds that only for the first handshake.
    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        request.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(result)
    }

    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(
                "mcp-sidecar",
                env!("CARGO_PKG_VERSION"),
            ))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.get_tool(&request.name) else {
            let names: Vec<_> = self.tools.iter().map(|tool| &*tool.name).collect();
            let message = format!(
                "there is no tool {:?}; the tools are {}",
                request.name,
                names.join(", ")
            );
            return Err(ErrorData::invalid_params(message, None));
        };
        let sidecar = self.clone();
        let call = async move { sidecar.call(&tool, request.arguments, &context).await };
        Ok(contained(call).await.into())
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // Open to whoever listens; there is just nothing that ever changes.
        Some(SubscriptionFilter::default())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = subscription.cancelled() => {}
            () = self.closing(Closing::Begun) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_in_a_tool_is_an_error_answer() {
        let result = contained(async { panic!("a fault of ours") }).await;
        assert_eq!(result.is_error, Some(true));
    }

    #[test]
    fn notices_are_the_last_key() {
        let answer = with_notices(r#"{"ok":true}"#.into(), &["a \"b\"\nc".into()]);
        assert_eq!(answer, r#"{"ok":true,"notices":["a \"b\"\nc"]}"#);
        assert_eq!(with_notices("{}".into(), &[]), "{}");
    }

    #[test]
    fn every_listed_tool_has_closed_parameters_and_all_four_hints() {
        for tool in tools() {
            assert_eq!(
                tool.input_schema["additionalProperties"], false,
                "{}",
                tool.name
            );
            let hints = tool.annotations.unwrap();
            assert!(hints.read_only_hint.is_some() && hints.destructive_hint.is_some());
            assert!(hints.idempotent_hint.is_some() && hints.open_world_hint.is_some());
            assert!(tool.output_schema.is_none());
        }
    }
}
