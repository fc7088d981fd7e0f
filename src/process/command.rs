//! What to run: a request as it came, and the guard's spec that follows from it.
//!
//! Architecture invariant: pure.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::audit::Record;
use crate::guard::protocol::{Audited, Spec};
use crate::platform::{self, Invocation, WindowSize};
use crate::policy::Permit;

/// What a process is made of. Two of them are the same process to a user when they are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// For the system's shell.
    pub line: String,
    /// Where it runs; none is the server's own directory.
    pub cwd: Option<PathBuf>,
    /// Laid over the server's environment; none unsets.
    pub env: BTreeMap<String, Option<String>>,
    /// The terminal that it has, if any.
    pub terminal: Option<WindowSize>,
}

/// What a program learns of its terminal from its environment: the name of the kind that
/// `output::Screen` is. Another terminal's size must not be taken for this one's.
const OF_A_TERMINAL: [(&str, Option<&str>); 3] = [
    ("TERM", Some("xterm-256color")),
    ("COLUMNS", None),
    ("LINES", None),
];

impl Command {
    /// What a guard is told to run: what the permit says, and where it says nothing, the line for
    /// the shell. And what to write down of it.
    pub fn spec(&self, permit: &Permit, grace: Duration, record: Option<&Record>) -> Spec {
        let invocation = match permit.program() {
            None => platform::shell(&self.line),
            Some(program) => Invocation {
                program: (&program.path).into(),
                args: program.args.iter().map(Into::into).collect(),
                verbatim: false,
            },
        };
        let cwd = permit.directory().or(self.cwd.as_ref());
        Spec {
            grace,
            program: invocation.program,
            argv0: permit.program().map(|program| (&program.argv0).into()),
            args: invocation.args,
            verbatim: invocation.verbatim,
            cwd: cwd.cloned().map(PathBuf::into_os_string),
            terminal: self.terminal.is_some(),
            env: self.variables(),
            pins: permit.pins().to_vec(),
            audited: record.map(|record| Audited {
                log: record.audit().path().into(),
                id: record.id().into(),
                command: self.line.clone(),
            }),
        }
    }

    /// What the caller says of a variable counts.
    fn variables(&self) -> Vec<(OsString, Option<OsString>)> {
        let terminal = self.terminal.iter().flat_map(|_| OF_A_TERMINAL);
        let own = self
            .env
            .iter()
            .map(|(key, value)| (&**key, value.as_deref()));
        terminal
            .filter(|(key, _)| !self.env.contains_key(*key))
            .chain(own)
            .map(|(key, value)| (key.into(), value.map(Into::into)))
            .collect()
    }

    /// The line as a list of processes shows it: short, and without what would break a list.
    pub fn label(&self) -> String {
        const LONGEST: usize = 120;
        const MARK: &str = "...";
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        if self.line.chars().nth(LONGEST).is_none() {
            return self.line.chars().map(visible).collect();
        }
        let beginning = self.line.chars().take(LONGEST - MARK.len()).map(visible);
        beginning.chain(MARK.chars()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, Request, Settings};

    fn command(line: &str) -> Command {
        Command {
            line: line.into(),
            ..Command::default()
        }
    }

    fn permit(command: &Command) -> Permit {
        let request = Request {
            line: &command.line,
            cwd: None,
            env: &command.env,
        };
        Policy::here(Settings::default()).check(&request).unwrap()
    }

    #[test]
    fn a_label_is_one_short_line() {
        assert_eq!(command("echo a\n\0b").label(), "echo a  b");
        assert_eq!(command(&"☃".repeat(120)).label(), "☃".repeat(120));
        let long = command(&"☃".repeat(121)).label();
        assert!(
            long.chars().count() == 120 && long.ends_with("☃..."),
            "{long}"
        );
    }

    #[test]
    fn null_unsets_and_an_empty_value_sets() {
        let mut command = command("env");
        command.env.insert("GONE".into(), None);
        command.env.insert("EMPTY".into(), Some(String::new()));
        let spec = command.spec(&permit(&command), Duration::ZERO, None);
        assert_eq!(
            spec.env,
            [("EMPTY".into(), Some("".into())), ("GONE".into(), None)]
        );
    }

    #[test]
    fn a_terminal_has_a_name_unless_the_caller_gives_another() {
        let mut command = command("env");
        command.terminal = Some(WindowSize { cols: 80, rows: 24 });
        let environment = |command: &Command| {
            let spec = command.spec(&permit(command), Duration::ZERO, None);
            assert!(spec.terminal);
            spec.env
        };
        assert_eq!(
            environment(&command),
            [
                ("TERM".into(), Some("xterm-256color".into())),
                ("COLUMNS".into(), None),
                ("LINES".into(), None)
            ]
        );
        command.env.insert("TERM".into(), Some("dumb".into()));
        command.env.insert("LINES".into(), Some("9".into()));
        assert_eq!(
            environment(&command),
            [
                ("COLUMNS".into(), None),
                ("LINES".into(), Some("9".into())),
                ("TERM".into(), Some("dumb".into()))
            ]
        );
    }
}
