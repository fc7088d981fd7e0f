//! One event as one line of JSON.
//!
//! Architecture invariant: pure. Whatever the texts hold, a line is one line and one object: no
//! character that any reader takes for the end of a line, or that a terminal obeys, leaves here
//! unescaped.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use crate::time::{Timestamp, Uptime};

/// What is written down, each with exactly these keys in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A command is about to run.
    Start {
        /// Of its process.
        id: &'a str,
        /// As the caller gave it.
        command: &'a str,
        /// Where it will run.
        cwd: &'a str,
    },
    /// It has ended.
    Stop {
        /// Of its process.
        id: &'a str,
        /// -1 where a signal ended it.
        exit_code: i32,
        /// How long it lived.
        duration: Duration,
    },
    /// A command was refused.
    Blocked {
        /// As the caller gave it.
        command: &'a str,
        /// Why.
        reason: &'a str,
    },
}

/// The line of an event, with its line break.
pub fn line(at: SystemTime, event: Event<'_>) -> String {
    let mut line = format!("{{\"ts\":\"{}\"", Timestamp(at));
    match event {
        Event::Start { id, command, cwd } => {
            line.push_str(",\"event\":\"start\"");
            put(&mut line, "id", id);
            put(&mut line, "command", command);
            put(&mut line, "cwd", cwd);
        }
        Event::Stop {
            id,
            exit_code,
            duration,
        } => {
            line.push_str(",\"event\":\"stop\"");
            put(&mut line, "id", id);
            let duration = Uptime(duration);
            let _ = write!(
                line,
                ",\"exit_code\":{exit_code},\"duration\":\"{duration}\""
            );
        }
        Event::Blocked { command, reason } => {
            line.push_str(",\"event\":\"blocked\"");
            put(&mut line, "command", command);
            put(&mut line, "reason", reason);
        }
    }
    line.push_str("}\n");
    line
}

fn put(line: &mut String, key: &str, text: &str) {
    let _ = write!(line, ",\"{key}\":\"");
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c if misleads(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(line, "\\u{unit:04x}");
                }
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

/// Whether a character moves, hides or reorders what stands around it instead of being seen.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    fn at() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_hours(483_826)
    }

    fn start(command: &str) -> String {
        let (id, cwd) = ("sc-abc123", "/app");
        line(at(), Event::Start { id, command, cwd })
    }

    /// The object in a line, which must be the whole line, its keys in this order.
    fn object(line: &str, keys: &[&str]) -> Map<String, Value> {
        let text = line.strip_suffix('\n').unwrap();
        assert!(!text.chars().any(misleads), "{text:?}");
        let object: Map<String, Value> = serde_json::from_str(text).unwrap();
        // The map sorts its keys, so their order is read off the text: texts hold no raw quote.
        let mut rest = text;
        for key in keys {
            let (_, after) = rest.split_once(&format!("\"{key}\":")).unwrap();
            rest = after;
        }
        assert_eq!(object.len(), keys.len(), "{text}");
        object
    }

    #[test]
    fn events_have_their_form_to_the_letter() {
        assert_eq!(
            start("dotnet run"),
            "{\"ts\":\"2025-03-12T10:00:00Z\",\"event\":\"start\",\"id\":\"sc-abc123\",\"command\":\"dotnet run\",\"cwd\":\"/app\"}\n"
        );
        let stop = Event::Stop {
            id: "sc-abc123",
            exit_code: 0,
            duration: Duration::from_secs(5),
        };
        assert_eq!(
            line(at() + Duration::from_secs(5), stop),
            "{\"ts\":\"2025-03-12T10:00:05Z\",\"event\":\"stop\",\"id\":\"sc-abc123\",\"exit_code\":0,\"duration\":\"5s\"}\n"
        );
        let blocked = Event::Blocked {
            command: "rm -rf /",
            reason: "executable \"rm\" is not in allowed list",
        };
        assert_eq!(
            line(at() + Duration::from_secs(6), blocked),
            "{\"ts\":\"2025-03-12T10:00:06Z\",\"event\":\"blocked\",\"command\":\"rm -rf /\",\"reason\":\"executable \\\"rm\\\" is not in allowed list\"}\n"
        );
    }

    #[test]
    fn what_would_break_or_hide_a_line_is_escaped() {
        let nasty = "\"},\n{\"event\":\"forged\"}\r\n\t\0\u{7}\u{1b}[2J\u{7f}\u{85}\u{2028}\u{2029}\u{202e}\u{feff}\u{e0041}\\";
        let line = start(nasty);
        let object = object(&line, &["ts", "event", "id", "command", "cwd"]);
        assert_eq!(object["command"], nasty);
        assert!(line.contains("\\u001b[2J\\u007f\\u0085\\u2028\\u2029\\u202e"));
        assert!(start("日本語 ☃ 🦀").contains("日本語 ☃ 🦀"));
    }

    #[test]
    fn a_long_command_is_kept_whole() {
        let long = "\"\n☃".repeat(40_000);
        assert_eq!(
            object(&start(&long), &["ts", "event", "id", "command", "cwd"])["command"],
            *long
        );
    }

    proptest! {
        #[test]
        fn every_line_is_one_object_that_says_what_was_meant(
            a in any::<String>(), b in any::<String>(), code in any::<i32>(), seconds in 0..u64::MAX,
        ) {
            let event = Event::Start { id: "sc-000000", command: &a, cwd: &b };
            let started = object(&line(at(), event), &["ts", "event", "id", "command", "cwd"]);
            prop_assert_eq!(&started["event"], "start");
            prop_assert_eq!(&started["command"], a.as_str());
            prop_assert_eq!(&started["cwd"], b.as_str());
            let event = Event::Blocked { command: &a, reason: &b };
            let blocked = object(&line(at(), event), &["ts", "event", "command", "reason"]);
            prop_assert_eq!(&blocked["event"], "blocked");
            prop_assert_eq!(&blocked["reason"], b.as_str());
            let duration = Duration::from_secs(seconds);
            let lived = Uptime(duration).to_string();
            let event = Event::Stop { id: &a, exit_code: code, duration };
            let stopped = object(&line(at(), event), &["ts", "event", "id", "exit_code", "duration"]);
            prop_assert_eq!(&stopped["event"], "stop");
            prop_assert_eq!(&stopped["exit_code"], code);
            prop_assert_eq!(&stopped["duration"], &*lived);
        }
    }
}
