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
use std::sync::{Mutex, OnceLock, PoisonError};

use regex::Regex;
use serde_json::{Value, json};

use crate::harness::Sidecar;

/// Ports as documents have them.
const PORTS: [&str; 3] = ["8123", "8124", "8125"];

#[test]
fn the_sessions_of_the_readme_happen() {
    assert_eq!(play("README.md"), play("README.ja.md"));
}

#[test]
fn every_situation_has_one_call_that_does_it() {
    let calls = play("docs/situations.md");
    assert!(calls.iter().flatten().count() >= 25);
}

/// Runs what a document shows, and gives the calls of each session: all that stands under one
/// heading.
#[track_caller]
fn play(name: &str) -> Vec<Vec<String>> {
    // The documents share their ports.
    static PLAYING: Mutex<()> = Mutex::new(());
    let _playing = PLAYING.lock().unwrap_or_else(PoisonError::into_inner);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let mut text = std::fs::read_to_string(&file).unwrap();
    let sections = text.split("\n## ").flat_map(|part| part.split("\n### "));
    let sessions: Vec<Vec<String>> = sections
        .map(blocks)
        .filter(|blocks| !blocks.is_empty())
        .collect();
    assert!(!sessions.is_empty(), "{name} has no session");
    let mut calls = Vec::new();
    for session in sessions {
        let mut sidecar = Sidecar::new();
        let mut made = Vec::new();
        for block in session {
            let happened = run(&mut sidecar, &block, &mut made);
            if std::env::var_os("RECORD").is_some() {
                text = text.replacen(
                    &format!("```text\n{block}\n"),
                    &format!("```text\n{happened}\n"),
                    1,
                );
            } else {
                assert_eq!(masked(&happened), masked(&block), "{name}");
            }
        }
        calls.push(made);
    }
    if std::env::var_os("RECORD").is_some() {
        std::fs::write(file, text).unwrap();
    }
    calls
}

/// The blocks of text that begin with a call.
fn blocks(section: &str) -> Vec<String> {
    let blocks = section.split("```text\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split_once("\n```"));
    let blocks = blocks.map(|(block, _)| block.to_owned());
    blocks.filter(|block| is_call(block)).collect()
}

fn is_call(line: &str) -> bool {
    let tools = [
        "start {", "stop {", "list {", "output {", "send {", "status {",
    ];
    line.starts_with("$ ") || tools.iter().any(|tool| line.starts_with(tool))
}

/// What happens in a block, written as the document writes it.
#[track_caller]
fn run(sidecar: &mut Sidecar, block: &str, calls: &mut Vec<String>) -> String {
    let mut happened = Vec::new();
    for part in block.split("\n\n") {
        let call = part.lines().next().unwrap();
        assert!(is_call(call), "{call:?} is no call");
        let mut asked = call.to_owned();
        for (port, free) in ports() {
            asked = asked.replace(port, free);
        }
        let mut answer = match asked.strip_prefix("$ ") {
            Some(command) => shell(command, sidecar.dir.path()),
            None => answer_to(sidecar, &asked),
        };
        for (port, free) in ports() {
            answer = answer.replace(free, port);
        }
        happened.push(format!("{call}\n{answer}").trim_end().to_owned());
        calls.push(call.to_owned());
    }
    happened.join("\n\n")
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

/// Ports of documents and those that are used instead: with as many digits, so that nothing moves.
fn ports() -> &'static [(&'static str, String)] {
    static FREE: OnceLock<Vec<(&str, String)>> = OnceLock::new();
    FREE.get_or_init(|| {
        let free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
        let free = (7000..10_000).filter(free).map(|port| port.to_string());
        PORTS.into_iter().zip(free).collect()
    })
}

/// Without what differs each time.
fn masked(session: &str) -> String {
    let masks = [
        ("sc-[0-9a-f]{6}", "ID"),
        (r#""pid":\d+|process \d+"#, "PID"),
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
