//! The command line around the server.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, VARIABLES};
use crate::{config, doctor, mcp, platform};

/// A command line or a configuration that cannot be used.
const UNUSABLE: u8 = 2;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Serve,
    Doctor,
    /// The kill matrix, of all trees or of those named.
    Containment(Vec<String>),
    /// One of the processes that the kill matrix is made of.
    Act(Vec<OsString>),
    Help,
    Version,
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    let done = match parse(lexopt::Parser::from_env()) {
        Ok(Command::Serve) => return serve(),
        Ok(Command::Doctor) => doctor(),
        Ok(Command::Containment(trees)) => containment(&trees),
        Ok(Command::Act(words)) => act(&words),
        Ok(Command::Help) => write_out(&help()),
        Ok(Command::Version) => write_out(&format!("mcp-sidecar {}\n", env!("CARGO_PKG_VERSION"))),
        Err(error) => {
            complain(&format!("{error}; see mcp-sidecar --help"));
            return ExitCode::from(UNUSABLE);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // A reader that has had enough is no failure of ours, but nothing was shown either.
        Ok(false) | Err(_) => ExitCode::FAILURE,
    }
}

fn parse(mut parser: lexopt::Parser) -> Result<Command, lexopt::Error> {
    use lexopt::prelude::{Long, Short, Value};
    let mut command = Command::Serve;
    while let Some(arg) = parser.next()? {
        command = match (arg, command) {
            (Short('h') | Long("help"), _) => return Ok(Command::Help),
            (Short('V') | Long("version"), _) => return Ok(Command::Version),
            (Value(word), Command::Serve) if word == "doctor" => Command::Doctor,
            (Long("containment"), Command::Doctor) => Command::Containment(Vec::new()),
            (Value(tree), Command::Containment(mut trees)) => {
                trees.push(tree.to_string_lossy().into_owned());
                Command::Containment(trees)
            }
            (Long("act"), Command::Doctor) => {
                return Ok(Command::Act(parser.raw_args()?.collect()));
            }
            (arg, _) => return Err(arg.unexpected()),
        };
    }
    Ok(command)
}

fn serve() -> ExitCode {
    let config = match Config::from_env(|name| std::env::var_os(name)) {
        Ok(config) => config,
        Err(problems) => {
            for problem in problems {
                complain(&problem.to_string());
            }
            return ExitCode::from(UNUSABLE);
        }
    };
    log_to_stderr(&config);
    for warning in config::warnings(std::env::vars_os())
        .into_iter()
        .chain(config.warnings())
    {
        tracing::warn!("{warning}");
    }
    if let Some(audit) = &config.audit
        && let Err(error) = audit.check()
    {
        let log = audit.path();
        tracing::error!(?log, %error, "the audit log is not written, so nothing will be started");
    }
    if std::io::stdin().is_terminal() {
        complain(
            "this is an MCP server, which an agent starts and talks to over stdin and stdout. To add it, run for \
             example: claude mcp add sidecar -- mcp-sidecar. More: mcp-sidecar --help. It serves this terminal now; \
             Ctrl-D ends it.",
        );
    }
    platform::allow_many_processes();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Calls that take their time must not keep the thread from hearing a signal.
        .event_interval(4)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("the server cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = match runtime.block_on(mcp::serve(&config)) {
        Ok(()) => 0,
        Err(error) => {
            complain(&format!("stdin or stdout cannot be used: {error}"));
            1
        }
    };
    // At once: whatever still waits for the client must not keep the process, nor the time that
    // it takes to drop it.
    std::process::exit(code)
}

fn doctor() -> std::io::Result<bool> {
    doctor::run(&mut std::io::stdout(), &platform::program()?)
}

fn containment(trees: &[String]) -> std::io::Result<bool> {
    doctor::containment::run(&mut std::io::stdout(), &platform::program()?, trees)
}

fn act(words: &[OsString]) -> std::io::Result<bool> {
    doctor::containment::act(words)
        .map(|()| true)
        .map_err(std::io::Error::other)
        .inspect_err(|error| complain(&error.to_string()))
}

/// rmcp tells of each message; what matters to people is ours.
fn log_to_stderr(config: &Config) {
    let ours = Targets::new().with_target("mcp_sidecar", config.log);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false);
    // A second subscriber is refused, and the first one logs.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(ours)
        .try_init();
}

fn help() -> String {
    use std::fmt::Write as _;
    let mut text = "\
MCP server that starts, watches, feeds and stops long-running processes for coding agents.

Usage: mcp-sidecar            serve MCP on stdin and stdout (an agent does this)
       mcp-sidecar doctor     test this installation and show how to add it to an agent
       mcp-sidecar doctor --containment
                              kill trees of every kind in every way and show that nothing is left
       mcp-sidecar --help     show this
       mcp-sidecar --version  show the version

Environment variables, all optional:
"
    .to_string();
    for variable in &VARIABLES {
        let _ = writeln!(
            text,
            "  {:<28} {} (default {})",
            variable.name,
            variable.meaning,
            variable.shown_default()
        );
    }
    text
}

fn write_out(text: &str) -> std::io::Result<bool> {
    std::io::stdout().write_all(text.as_bytes()).map(|()| true)
}

fn complain(sentence: &str) {
    // Where even stderr is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "mcp-sidecar: {sentence}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(args: &[&str]) -> Result<Command, String> {
        parse(lexopt::Parser::from_args(args)).map_err(|error| error.to_string())
    }

    #[test]
    fn without_arguments_it_serves() {
        assert_eq!(command(&[]), Ok(Command::Serve));
        assert_eq!(command(&["doctor"]), Ok(Command::Doctor));
        assert_eq!(command(&["doctor", "--help"]), Ok(Command::Help));
        assert_eq!(command(&["-V"]), Ok(Command::Version));
    }

    #[test]
    fn what_it_does_not_know_is_named() {
        assert!(command(&["--port"]).unwrap_err().contains("--port"));
        assert!(command(&["docter"]).unwrap_err().contains("docter"));
        assert!(command(&["doctor", "doctor"]).is_err());
    }

    #[test]
    fn help_names_every_variable() {
        assert!(
            VARIABLES
                .iter()
                .all(|variable| help().contains(variable.name))
        );
    }
}
