//! An MCP server that starts, watches, feeds and stops processes for coding agents.
//!
//! One program in two roles. The **server** (one thread, tokio) speaks MCP and keeps output. A
//! **guard** (one per process, no tokio) starts the leader and ends its whole tree: when the
//! server says so, or when the server is gone, however it went.
//!
//! Two flows:
//!
//! ```text
//! MCP request  -> mcp      -> supervisor -> process      -> guard::protocol -> platform
//! output bytes -> platform -> process    -> output::ring -> output::view    -> mcp
//! ```
//!
//! Modules depend on those below them in this list and never on those above:
//!
//! - [`cli`]: the command line; [`doctor`]: the self-test.
//! - [`mcp`]: six tools over rmcp, and the wire.
//! - [`supervisor`]: who exists: ids, names, limits, forgetting.
//! - [`process`]: one task that owns one process: its streams, its input, its life.
//! - [`output`]: bounded raw bytes, made readable when somebody looks.
//! - [`config`]: the settings.
//! - [`policy`]: what may be started.
//! - [`guard`]: the second role, and the messages between the two.
//! - [`audit`]: what is written down of it; [`time`]: how times look; [`expression`]: regular
//!   expressions within bounds.
//! - [`platform`]: all that an operating system must provide; the only `unsafe`.
//!
//! Invariants, checked by `tests/it/tidy.rs`: rmcp only in `mcp`; tokio in none of `audit`,
//! `guard`, `policy`, `output`, `config`, `process::command`, `process::state`; nothing points up.

pub mod audit;
pub mod cli;
pub mod config;
pub mod doctor;
pub mod expression;
pub mod guard;
pub mod mcp;
pub mod output;
pub mod platform;
pub mod policy;
pub mod process;
pub mod supervisor;
pub mod time;
