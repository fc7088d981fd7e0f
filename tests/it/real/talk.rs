//! Programs that ask for a terminal, and answer in the call that asks them.

use serde_json::json;

use super::need;
use crate::harness::Sidecar;

/// What a session answers to a line, up to its next prompt.
#[track_caller]
pub(super) fn ask(sidecar: &mut Sidecar, id: &str, line: &str, prompt: &str) -> String {
    let answer = sidecar.call("send", json!({ "id": id, "input": line, "wait": prompt }));
    assert_eq!(answer["wait"], "pattern", "{answer}");
    let said = answer["stdout"].as_str().unwrap();
    // A terminal shows what is typed.
    let reply = said.strip_prefix(&format!("{line}\n")).unwrap_or(said);
    let reply = reply.rsplit_once('\n').map_or("", |(reply, _)| reply);
    reply.to_owned()
}

/// A session on a terminal that has shown its first prompt.
#[track_caller]
pub(super) fn session(sidecar: &mut Sidecar, command: &str, prompt: &str) -> String {
    let started = sidecar.call(
        "start",
        json!({ "command": command, "pty": true, "wait": prompt }),
    );
    assert_eq!(started["wait"], "pattern", "{started}");
    started["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_database_in_a_file() {
    need("sqlite3");
    let mut sidecar = Sidecar::new();
    let id = session(&mut sidecar, "sqlite3 kept.db", "sqlite> $");
    let create = "create table kept (number); insert into kept values (6), (7);";
    assert_eq!(ask(&mut sidecar, &id, create, "sqlite> $"), "");
    let total = "select sum(number) * 2 from kept;";
    assert_eq!(ask(&mut sidecar, &id, total, "sqlite> $"), "26");
    // A statement goes on over lines, under another prompt.
    assert_eq!(ask(&mut sidecar, &id, "select", "   ...> $"), "");
    assert_eq!(ask(&mut sidecar, &id, "41 + 1;", "sqlite> $"), "42");
    let left = sidecar.call(
        "send",
        json!({ "id": id, "eof": true, "wait": { "exit": true } }),
    );
    assert_eq!(left["exitCode"], 0, "{left}");
    sidecar.nothing_left();
}

#[test]
fn a_questionnaire_with_a_secret() {
    need("ssh-keygen");
    let mut sidecar = Sidecar::new();
    let keygen = "ssh-keygen -q -t ed25519 -f key";
    let id = session(&mut sidecar, keygen, "passphrase.*: $");
    assert_eq!(ask(&mut sidecar, &id, "open sesame", "again: $"), "");
    let done = json!({ "id": id, "input": "open sesame", "wait": { "exit": true } });
    let done = sidecar.call("send", done);
    assert_eq!(done["exitCode"], 0, "{done}");
    assert!(sidecar.dir.path().join("key.pub").is_file());
    let said = sidecar.call("output", json!({ "id": id }));
    assert!(!said.to_string().contains("sesame"), "{said}");
}

#[test]
fn a_shell_that_keeps_where_it_is() {
    need("bash");
    let mut sidecar = Sidecar::new();
    let bash = "PS1='ready> ' exec bash --norc --noediting -i";
    let id = session(&mut sidecar, bash, "ready> $");
    ask(&mut sidecar, &id, "cd / && value=42", "ready> $");
    assert_eq!(
        ask(&mut sidecar, &id, "echo $PWD $value", "ready> $"),
        "/ 42"
    );
    assert_eq!(ask(&mut sidecar, &id, "false; echo $?", "ready> $"), "1");
    let left = json!({ "id": id, "input": "exit 3", "wait": { "exit": true } });
    assert_eq!(sidecar.call("send", left)["exitCode"], 3);
    sidecar.nothing_left();
}
