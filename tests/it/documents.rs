//! The sessions in the documents are what happens.
//!
//! A block of text that begins with a call is run, each block with a server of its own: a line with
//! a tool's name and its arguments is called, a line that begins with `$` is run by a shell, and
//! what stands below it up to an empty line is what must come. Ids, times and the like may differ.
//! Ports are replaced by free ones. With `RECORD` set, the documents are written anew instead.

#![cfg(target_os = "linux")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde_json::{Value, json};

use crate::harness::Sidecar;

/// Ports as documents have them.
const PORTS: [&str; 3] = ["8123", "8124", "8125"];

#[test]
fn the_sessions_of_the_readme_happen() {
    assert_eq!(play("README.md"), play("README.ja.md"));
}

/// Runs the sessions of a document, and gives the calls of each.
#[track_caller]
fn play(name: &str) -> Vec<Vec<String>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let mut text = std::fs::read_to_string(&file).unwrap();
    let sessions: Vec<_> = text
        .split("```text\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block.to_owned()))
        .filter(|block| is_call(block))
        .collect();
    assert!(!sessions.is_empty(), "{name} has no session");
    let mut calls = Vec::new();
    for session in sessions {
        let (happened, made) = run(&session);
        if std::env::var_os("RECORD").is_some() {
            text = text.replacen(&session, &happened, 1);
        } else {
            assert_eq!(masked(&happened), masked(&session), "{name}");
        }
        calls.push(made);
    }
    if std::env::var_os("RECORD").is_some() {
        std::fs::write(file, text).unwrap();
    }
    calls
}

fn is_call(line: &str) -> bool {
    let tools = [
        "start {", "stop {", "list {", "output {", "send {", "status {",
    ];
    line.starts_with("$ ") || tools.iter().any(|tool| line.starts_with(tool))
}

/// What happens in a session, written as the document writes it, and its calls.
#[track_caller]
fn run(session: &str) -> (String, Vec<String>) {
    let mut sidecar = Sidecar::new();
    let ports = PORTS.map(|port| (port, free_port().to_string()));
    let mut happened = Vec::new();
    let mut calls = Vec::new();
    for part in session.split("\n\n") {
        let call = part.lines().next().unwrap();
        assert!(is_call(call), "{call:?} is no call");
        let mut asked = call.to_owned();
        for (port, free) in &ports {
            asked = asked.replace(port, free);
        }
        let mut answer = match asked.strip_prefix("$ ") {
            Some(command) => shell(command, sidecar.dir.path()),
            None => answer_to(&mut sidecar, &asked),
        };
        for (port, free) in &ports {
            answer = answer.replace(free, port);
        }
        happened.push(format!("{call}\n{answer}").trim_end().to_owned());
        calls.push(call.to_owned());
    }
    (happened.join("\n\n"), calls)
}

#[track_caller]
fn answer_to(sidecar: &mut Sidecar, call: &str) -> String {
    let (tool, arguments) = call.split_once(' ').unwrap();
    let arguments: Value =
        serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{call}: {error}"));
    let result = sidecar
        .client
        .request(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )
        .unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[track_caller]
fn shell(command: &str, directory: &Path) -> String {
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// As many digits as those in the documents have, so that nothing moves.
fn free_port() -> u16 {
    (7000..9999)
        .find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok())
        .unwrap()
}

/// Without what differs each time.
fn masked(session: &str) -> String {
    let masks = [
        ("sc-[0-9a-f]{6}", "ID"),
        (r#""pid":\d+"#, "PID"),
        (r"\b\d+(h\d+m)?(m\d+)?s\b", "TIME"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "MOMENT"),
        (r"\d\d/\w{3}/\d{4} \d\d:\d\d:\d\d", "MOMENT"),
        (r#""(cpuPercent|memoryBytes)":[\d.]+"#, "MEASURED"),
    ];
    masks.iter().fold(session.to_owned(), |text, (mask, word)| {
        let mask = Regex::new(mask).unwrap();
        mask.replace_all(&text, *word).into_owned()
    })
}
