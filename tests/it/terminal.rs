//! Processes on a terminal.

#![cfg(unix)]

use std::time::{Duration, Instant};

use mcp_sidecar::doctor::client::{PATIENCE, wait_until};
use serde_json::{Value, json};

use crate::harness::Sidecar;

/// Starts a command on a terminal and answers its id.
#[track_caller]
pub(crate) fn on_terminal(sidecar: &mut Sidecar, command: &str) -> String {
    let started = sidecar.call("start", json!({ "command": command, "pty": true }));
    started["id"].as_str().unwrap().to_owned()
}

/// Waits until this stands on its screen, and answers all of it.
#[track_caller]
pub(crate) fn screen_with(sidecar: &mut Sidecar, id: &str, wanted: &str) -> String {
    screen_when(sidecar, id, wanted, |screen| screen.contains(wanted))
}

/// Waits until its screen is like that: a program may draw it in several writes.
#[track_caller]
pub(crate) fn screen_when(
    sidecar: &mut Sidecar,
    id: &str,
    what: &str,
    wanted: impl Fn(&str) -> bool,
) -> String {
    let mut last = String::new();
    wait_until(PATIENCE, || {
        let output = sidecar.call("output", json!({ "id": id, "screen": true }));
        output["screen"].as_str().unwrap().clone_into(&mut last);
        wanted(&last).then_some(())
    })
    .unwrap_or_else(|| panic!("{what:?} does not come: {last}"));
    last
}

/// Types a line, waits until something matches and answers what came meanwhile.
#[track_caller]
pub(crate) fn reply(sidecar: &mut Sidecar, id: &str, input: &str, pattern: &str) -> String {
    let arguments = json!({ "id": id, "input": input, "wait": pattern });
    let answer = sidecar.call("send", arguments);
    assert_eq!(answer["wait"], "pattern", "{answer}");
    answer["stdout"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(crate) fn press(sidecar: &mut Sidecar, id: &str, key: &str) {
    sidecar.call("send", json!({ "id": id, "key": key }));
}

#[test]
fn all_three_streams_are_the_terminal_that_controls_the_session() {
    let mut sidecar = Sidecar::with(&[("TERM", "dumb"), ("COLUMNS", "7")]);
    let id = on_terminal(
        &mut sidecar,
        "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo three; stty size </dev/tty; \
         echo $TERM,$COLUMNS; echo error >&2; ps -o stat= -p $$; tty",
    );
    sidecar.state(&id, "exited");
    let output = sidecar.call("output", json!({ "id": id }));
    let text = output["stdout"].as_str().unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[..4],
        ["three", "24 80", "xterm-256color,", "error"],
        "{text}"
    );
    // A leader of a session, in the foreground.
    assert!(lines[4].contains('s') && lines[4].contains('+'), "{text}");
    assert!(lines[5].starts_with("/dev/"), "{text}");
    assert_eq!(output["stderr"], "");
    let id = sidecar.call(
        "start",
        json!({ "command": "stty size; echo $TERM", "pty": { "cols": 132 }, "env": { "TERM": "vt100" } }),
    )["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(sidecar.output_with(&id, "vt100\n"), "24 132\nvt100\n");
}

#[test]
fn a_size_that_is_none_and_a_process_without_a_terminal_are_errors_that_say_so() {
    let mut sidecar = Sidecar::new();
    for (pty, wanted) in [
        (
            json!({ "cols": 1 }),
            "pty.cols must be between 2 and 500, not 1",
        ),
        (
            json!({ "rows": 70_000 }),
            "pty.rows must be between 1 and 200",
        ),
        (json!({ "width": 80 }), "it has cols, rows"),
        (json!("yes"), "true or an object"),
    ] {
        let sentence = sidecar.fail("start", json!({ "command": "cat", "pty": pty }));
        assert!(sentence.contains(wanted), "{sentence}");
    }
    let started = sidecar.call("start", json!({ "command": "exec cat", "pty": false }));
    let id = started["id"].as_str().unwrap().to_owned();
    for (tool, arguments) in [
        (
            "output",
            json!({ "id": id, "screen": true, "wait": "never" }),
        ),
        ("send", json!({ "id": id, "resize": { "cols": 90 } })),
    ] {
        let sentence = sidecar.fail(tool, arguments);
        assert!(
            sentence.contains(&id) && sentence.contains("pty: true"),
            "{sentence}"
        );
    }
}

#[test]
fn a_window_can_be_resized_and_its_program_hears_of_it() {
    let mut sidecar = Sidecar::new();
    let id = on_terminal(
        &mut sidecar,
        "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done",
    );
    sidecar.output_with(&id, "ready");
    let resize = json!({ "id": id, "resize": { "cols": 100, "rows": 30 }, "wait": "30 100" });
    assert_eq!(sidecar.call("send", resize)["match"], "30 100");
    // The screen has that size too.
    let id = on_terminal(&mut sidecar, "exec sh");
    sidecar.call(
        "send",
        json!({ "id": id, "resize": { "cols": 5, "rows": 3 } }),
    );
    sidecar.call(
        "send",
        json!({ "id": id, "input": "clear; printf 1234567; exec cat" }),
    );
    let screen = screen_with(&mut sidecar, &id, "67");
    assert_eq!(screen, "12345\n67");
}

#[test]
fn a_shell_has_job_control_and_ctrl_c_ends_only_what_is_in_front() {
    let mut sidecar = Sidecar::new();
    let id = on_terminal(&mut sidecar, "PS1='$ ' exec bash --norc -i");
    sidecar.output_with(&id, "$ ");
    assert!(!sidecar.output_with(&id, "$ ").contains("no job control"));
    reply(&mut sidecar, &id, "sleep 301 & echo in back", "^in back");
    // What is pressed goes to whoever has the terminal when it arrives: each time the job says so.
    let job = "sh -c 'trap \"echo again\" CONT; echo front; while :; do sleep 0.05; done'";
    reply(&mut sidecar, &id, job, "^front");
    press(&mut sidecar, &id, "ctrl-z");
    sidecar.output_with(&id, "Stopped");
    let jobs = reply(&mut sidecar, &id, "jobs; echo end", "^end");
    assert!(
        jobs.contains("Running") && jobs.contains("Stopped"),
        "{jobs}"
    );
    reply(&mut sidecar, &id, "fg", "^again");
    press(&mut sidecar, &id, "ctrl-c");
    // The shell lives, and so does what is in the background.
    let jobs = reply(&mut sidecar, &id, "jobs; echo $?,end", "^0,end");
    assert!(
        jobs.contains("Running") && !jobs.contains("front"),
        "{jobs}"
    );
    sidecar.call("stop", json!({ "id": id, "timeout": 500 }));
    sidecar.nothing_left();
}

#[test]
fn what_is_typed_for_a_password_is_not_shown() {
    let mut sidecar = Sidecar::new();
    for command in [
        "bash -c 'read -rsp \"Password: \" p; echo; echo got ${#p}'",
        "python3 -c 'import getpass; print(\"got\", len(getpass.getpass()))'",
    ] {
        let id = on_terminal(&mut sidecar, command);
        sidecar.output_with(&id, "Password: ");
        sidecar.call("send", json!({ "id": id, "input": "hunter22" }));
        let text = sidecar.output_with(&id, "got 8\n");
        assert!(!text.contains("hunter"), "{text}");
        assert!(!screen_with(&mut sidecar, &id, "got 8").contains("hunter"));
    }
}

#[test]
fn a_line_is_echoed_and_an_end_of_input_ends_a_reader() {
    let mut sidecar = Sidecar::new();
    for (last, text) in [
        (json!({ "input": "last", "eof": true }), "last\nlast\n"),
        (json!({ "eof": true }), ""),
        (json!({ "key": "ctrl-d" }), ""),
        (
            json!({ "input": "ab", "newline": false, "eof": true }),
            "abab",
        ),
    ] {
        let id = on_terminal(&mut sidecar, "exec cat");
        let mut arguments = json!({ "id": id });
        let more = last.as_object().unwrap().clone();
        arguments.as_object_mut().unwrap().extend(more);
        sidecar.call("send", arguments);
        assert_eq!(sidecar.state(&id, "exited")["exitCode"], 0);
        assert_eq!(sidecar.output_with(&id, text), text, "{last}");
    }
}

#[test]
fn a_program_that_asks_its_terminal_is_answered() {
    let mut sidecar = Sidecar::new();
    let asks = "IFS='[;' read -rs -t 10 -d R -p $'\\e[6n' _ row col; echo at $row $col
        read -rs -t 10 -d c -p $'\\e[c' what; echo ${what:1}";
    let started = sidecar.call(
        "start",
        json!({ "command": "printf ab; exec bash -c \"$ASKS\"", "env": { "ASKS": asks }, "pty": true }),
    );
    let id = started["id"].as_str().unwrap().to_owned();
    let text = sidecar.output_with(&id, "22\n");
    assert!(text.contains("at 1 3\n[?62;22\n"), "{text}");
}

#[test]
fn arrows_are_an_applications_while_it_says_so() {
    let mut sidecar = Sidecar::new();
    let id = on_terminal(
        &mut sidecar,
        "stty raw -echo; printf 'ready\\033[?1h'; head -c 3 | od -An -c; printf 'more\\033[?1l'; head -c 3 | od -An -c",
    );
    for (when, seen) in [("ready", "O   A"), ("more", "[   A")] {
        sidecar.output_with(&id, when);
        press(&mut sidecar, &id, "up");
        sidecar.output_with(&id, seen);
    }
}

#[test]
fn wide_characters_and_the_other_screen_are_seen_as_a_person_sees_them() {
    let mut sidecar = Sidecar::new();
    let id = on_terminal(
        &mut sidecar,
        "echo before; printf '\\033[?1049h\\033[2;3H日本語\\033[2;5H本\\033[2;9H!'; read _; printf '\\033[?1049l'; exec cat",
    );
    assert_eq!(screen_with(&mut sidecar, &id, "!"), "\n  日本語!");
    sidecar.call("send", json!({ "id": id, "input": "" }));
    assert_eq!(screen_with(&mut sidecar, &id, "before"), "before");
    let output = sidecar.call(
        "output",
        json!({ "id": id, "screen": true, "grep": "ef", "tail": 1 }),
    );
    assert_eq!(output["screen"], "before");
    assert!(output.get("stdout").is_none() && output["cursor"].is_u64());
}

#[test]
fn all_that_was_written_is_there_when_the_end_is() {
    let mut sidecar = Sidecar::new();
    for _ in 0..5 {
        let command = json!({ "command": "seq 1 30000", "pty": true, "wait": { "exit": true } });
        let answer = sidecar.call("start", command);
        assert_eq!(answer["wait"], "exit");
        let output = sidecar.call("output", json!({ "id": answer["id"] }));
        let lines = output["stdout"].as_str().unwrap().lines();
        assert!(lines.eq((1..=30_000).map(|n| n.to_string())));
    }
}

#[test]
fn long_input_arrives_whole_while_its_echo_is_read() {
    let mut sidecar = Sidecar::new();
    let id = on_terminal(&mut sidecar, "cat | wc");
    let line = format!("{}\n", "x".repeat(999));
    sidecar.call(
        "send",
        json!({ "id": id, "input": line.repeat(300), "eof": true }),
    );
    sidecar.state(&id, "exited");
    let text = sidecar.output_with(&id, "300000");
    assert!(text.ends_with("    300     300  300000\n"));
}

#[test]
fn a_flood_on_a_terminal_holds_up_nobody() {
    let mut sidecar = Sidecar::new();
    let ids: Vec<_> = (0..4)
        .map(|_| on_terminal(&mut sidecar, "exec yes"))
        .collect();
    for id in &ids {
        screen_with(&mut sidecar, id, "y\ny");
    }
    for _ in 0..50 {
        let begun = Instant::now();
        sidecar.call("list", json!({}));
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
    for id in &ids {
        press(&mut sidecar, id, "ctrl-c");
        assert_eq!(sidecar.state(id, "failed")["signal"], 2);
    }
}

#[test]
fn a_terminal_is_part_of_what_a_name_stands_for() {
    let mut sidecar = Sidecar::new();
    let command = "tty; exec cat";
    let with = |pty: Value| json!({ "command": command, "name": "it", "pty": pty });
    let first = sidecar.call("start", with(json!({ "cols": 90 })));
    let again = sidecar.call("start", with(json!({ "cols": 90, "rows": 24 })));
    assert_eq!(
        (&again["id"], &again["existing"]),
        (&first["id"], &json!(true))
    );
    let existing = sidecar.call("start", json!({ "name": "it" }));
    assert_eq!(existing["id"], first["id"]);
    for other in [json!(true), json!(null), json!(false)] {
        let sentence = sidecar.fail("start", with(other));
        assert!(sentence.contains("pty"), "{sentence}");
    }
    sidecar.call("stop", json!({ "id": "it" }));
    let second = sidecar.call("start", json!({ "name": "it", "wait": "/dev/" }));
    assert_eq!(second["wait"], "pattern", "{second}");
    let plain = sidecar.call(
        "start",
        json!({ "name": "it", "pty": false, "replace": true, "wait": "tty" }),
    );
    assert_eq!(plain["match"], "not a tty");
}

#[test]
#[cfg(target_os = "linux")]
fn a_tree_on_a_terminal_ends_with_stop() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_KILL_TIMEOUT", "500")]);
    let id = on_terminal(
        &mut sidecar,
        "(setsid sh -c 'trap \"\" TERM HUP; sleep 300; sleep 300' &); nohup sleep 300 & bash -ic 'sleep 300' & \
         trap '' HUP TERM; echo armed; while :; do sleep 0.05; done",
    );
    sidecar.output_with(&id, "armed");
    let stopped = sidecar.call("stop", json!({ "id": id }));
    assert_eq!(stopped["forced"], true);
    assert!(sidecar.trees().is_empty());
    sidecar.nothing_left();
}

#[test]
#[cfg(target_os = "linux")]
fn last_words_on_a_terminal_are_taken_after_the_server_was_killed() {
    let mut sidecar = Sidecar::new();
    let id = on_terminal(
        &mut sidecar,
        "trap 'seq 1 30000; echo $? > said; exit' TERM; echo armed; while :; do sleep 0.05; done",
    );
    sidecar.output_with(&id, "armed");
    sidecar.client.kill();
    let said = sidecar.dir.path().join("said");
    let text = wait_until(PATIENCE, || {
        std::fs::read_to_string(&said)
            .ok()
            .filter(|text| !text.is_empty())
    });
    assert_eq!(text.as_deref(), Some("0\n"));
    sidecar.nothing_left();
}
