//! The audit log: every start has one stop, and no line is anything but a line.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use mcp_sidecar::doctor::client::{Client, PATIENCE, wait_until};
use serde_json::{Value, json};

use crate::harness::{Sidecar, clean, program};

const FILE: &str = "sidecar-audit.jsonl";

fn audited(variables: &[(&str, &str)]) -> Sidecar {
    Sidecar::with(&[&[("SIDECAR_AUDIT_LOG", "logs")], variables].concat())
}

fn log_of(sidecar: &Sidecar) -> PathBuf {
    sidecar.dir.path().join("logs").join(FILE)
}

/// Every line, which must be one of the three events with exactly its keys.
#[track_caller]
fn events(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.split_terminator('\n').map(event).collect()
}

#[track_caller]
fn event(line: &str) -> Value {
    let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
    let keys: &[&str] = match event["event"].as_str().unwrap() {
        "start" => &["ts", "event", "id", "command", "cwd"],
        "stop" => &["ts", "event", "id", "exit_code", "duration"],
        "blocked" => &["ts", "event", "command", "reason"],
        other => panic!("{other} in {line:?}"),
    };
    assert_eq!(event.as_object().unwrap().len(), keys.len(), "{line}");
    let places: Vec<_> = keys
        .iter()
        .map(|key| line.find(&format!("\"{key}\":")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{line}");
    event
}

/// The stop of each start. Each must have exactly one, behind it.
#[track_caller]
fn pairs(events: &[Value]) -> BTreeMap<String, Value> {
    let mut stops = BTreeMap::new();
    for event in events {
        let id = event["id"].as_str().unwrap().to_owned();
        if event["event"] == "start" {
            assert!(stops.insert(id, None).is_none(), "{event}");
        } else {
            let before = stops.insert(id, Some(event.clone()));
            assert_eq!(before, Some(None), "{event}");
        }
    }
    let paired = stops.into_iter().map(|(id, stop)| {
        let stop = stop.unwrap_or_else(|| panic!("{id} has no stop: {events:?}"));
        (id, stop)
    });
    paired.collect()
}

/// How often this occurs in a log to which somebody may be writing.
fn count_of(text: &str, log: &Path) -> usize {
    std::fs::read_to_string(log).unwrap().matches(text).count()
}

/// The stop of each start, as soon as there are so many.
#[track_caller]
fn pairs_when(log: &Path, count: usize) -> BTreeMap<String, Value> {
    wait_until(PATIENCE, || {
        (count_of("\"stop\"", log) >= count).then_some(())
    });
    let pairs = pairs(&events(log));
    assert_eq!(pairs.len(), count, "{pairs:?}");
    pairs
}

#[test]
fn every_end_has_its_line_before_anybody_hears_of_it() {
    let mut sidecar = audited(&[("SIDECAR_KILL_TIMEOUT", "100")]);
    let log = log_of(&sidecar);
    let ended = |id: &str| pairs(&events(&log))[id]["exit_code"].clone();
    for (command, state, code) in [
        ("exit 0", "exited", 0),
        ("exit 3", "failed", 3),
        ("kill -9 $$", "failed", -1),
    ] {
        let id = sidecar.start(command);
        sidecar.state(&id, state);
        assert_eq!(ended(&id), code);
    }
    for (command, code) in [
        ("exec sleep 300", -1),
        (
            "trap 'exit 7' TERM; echo armed; while :; do sleep 0.02; done",
            7,
        ),
        ("trap '' TERM; echo armed; while :; do sleep 0.02; done", -1),
    ] {
        let id = sidecar.start(command);
        if command.contains("armed") {
            sidecar.output_with(&id, "armed");
        }
        sidecar.call("stop", json!({ "id": id }));
        assert_eq!(ended(&id), code);
        sidecar.call("stop", json!({ "id": id }));
    }
    let left = sidecar.start("exec sleep 300");
    sidecar.client.close();
    assert!(sidecar.client.exit(PATIENCE).unwrap().success());
    assert_eq!(ended(&left), -1);
    assert_eq!(events(&log).len(), 14);
}

#[test]
fn a_line_says_what_runs_where_and_for_how_long() {
    let mut sidecar = audited(&[]);
    let dir = sidecar.dir.path().canonicalize().unwrap();
    std::fs::create_dir(dir.join("sub")).unwrap();
    let begun = Instant::now();
    let lines = [
        ("sleep 1.2", None, "."),
        ("exec pwd", Some("sub/../sub"), "sub"),
    ];
    for (command, cwd, place) in lines {
        let env = json!({ "TOKEN": "top-secret" });
        let arguments = json!({ "command": command, "cwd": cwd, "env": env });
        let id = sidecar.call("start", arguments)["id"].clone();
        sidecar.state(id.as_str().unwrap(), "exited");
        let events = events(&log_of(&sidecar));
        let start = &events[events.len() - 2];
        assert_eq!((&start["id"], &start["command"]), (&id, &json!(command)));
        assert_eq!(start["cwd"], json!(dir.join(place).components().as_path()));
    }
    let events = events(&log_of(&sidecar));
    let duration = events[1]["duration"].as_str().unwrap();
    let duration: u64 = duration.strip_suffix('s').unwrap().parse().unwrap();
    assert!((1..=begun.elapsed().as_secs()).contains(&duration));
    let ts = events[1]["ts"].as_str().unwrap();
    assert!(ts.len() == 20 && ts.starts_with("20") && ts.ends_with('Z') && ts.contains('T'));
    // The same again starts nothing, nor does what cannot be started.
    let same = json!({ "command": "exec sleep 300", "name": "same" });
    sidecar.call("start", same.clone());
    assert_eq!(sidecar.call("start", same)["existing"], true);
    sidecar.fail("start", json!({ "command": "true", "cwd": "nowhere" }));
    let text = std::fs::read_to_string(log_of(&sidecar)).unwrap();
    assert_eq!(text.lines().count(), 5);
    assert!(!text.contains("TOKEN") && !text.contains("top-secret"));
}

#[test]
fn nothing_that_a_caller_gives_makes_a_line() {
    let mut sidecar = audited(&[]);
    let forged = "{\"ts\":\"2025-03-12T10:00:00Z\",\"event\":\"stop\",\"id\":\"sc-000000\",\"exit_code\":0,\"duration\":\"5s\"}";
    let mut commands: Vec<String> = ["\n", "\r\n", "\u{2028}", "\u{85}", "\\n", "\"}\n", "\u{b}"]
        .iter()
        .map(|end| format!("echo a #{end}{forged}{end}"))
        .collect();
    commands.push(format!("echo a #{}", "\n\"\u{1b}☃".repeat(12_000)));
    for command in &commands {
        let arguments = json!({ "command": command, "name": forged, "env": { "A": forged } });
        let id = sidecar.call("start", arguments)["id"].clone();
        wait_until(PATIENCE, || {
            let status = sidecar.call("status", json!({ "id": id }));
            (status["state"] != "running").then_some(())
        })
        .unwrap();
        let events = events(&log_of(&sidecar));
        assert_eq!(events[events.len() - 2]["command"], **command);
    }
    assert_eq!(
        pairs_when(&log_of(&sidecar), commands.len()).len(),
        commands.len()
    );
}

#[test]
fn what_could_not_be_run_has_a_stop_as_well() {
    let mut sidecar = audited(&[]);
    let large = format!("true {}", "x".repeat(4 << 20));
    let sentence = sidecar.fail("start", json!({ "command": large }));
    assert!(sentence.contains("argument list too long"), "{sentence}");
    let stops = pairs(&events(&log_of(&sidecar)));
    let stop = stops.values().next().unwrap();
    assert_eq!(
        (&stop["exit_code"], &stop["duration"]),
        (&json!(-1), &json!("0s"))
    );
}

#[test]
fn the_guards_write_the_ends_of_a_killed_server() {
    let mut sidecar = audited(&[("SIDECAR_KILL_TIMEOUT", "300")]);
    for command in [
        "exec sleep 300",
        "trap 'exit 7' TERM; echo armed; while :; do sleep 0.02; done",
        "trap '' TERM; echo armed; while :; do sleep 0.02; done",
        "setsid sleep 300 & echo armed; exec sleep 300",
    ] {
        let id = sidecar.start(command);
        if command.contains("armed") {
            sidecar.output_with(&id, "armed");
        }
    }
    sidecar.client.kill();
    let stops = pairs_when(&log_of(&sidecar), 4);
    let mut codes: Vec<_> = stops
        .values()
        .map(|stop| stop["exit_code"].as_i64())
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(-1), Some(-1), Some(-1), Some(7)]);
    sidecar.nothing_left();
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_killed_while_it_starts_processes_leaves_pairs() {
    for round in 0..12 {
        let limits = [
            ("SIDECAR_KILL_TIMEOUT", "100"),
            ("SIDECAR_MAX_PROCESSES", "50"),
        ];
        let mut sidecar = audited(&limits);
        for _ in 0..10 {
            sidecar.ask("start", &json!({ "command": "exec sleep 300" }));
        }
        // A different moment each time: so many have begun when it comes.
        wait_until(PATIENCE, || {
            (count_of("\n", &log_of(&sidecar)) >= round % 10).then_some(())
        })
        .unwrap();
        sidecar.client.kill();
        sidecar.nothing_left();
        pairs(&events(&log_of(&sidecar)));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_server_writes_the_end_of_a_killed_guard() {
    let mut sidecar = audited(&[]);
    let id = sidecar.start("setsid sleep 301 & exec sleep 302");
    let guard = sidecar.guard(&id).to_string();
    assert!(kill(&guard));
    assert_eq!(sidecar.state(&id, "failed")["exitCode"], -1);
    assert_eq!(pairs(&events(&log_of(&sidecar)))[&id]["exit_code"], -1);
    // One whose leader has ended has its line already.
    let daemon = sidecar.start("setsid sleep 303 & exit 4");
    sidecar.state(&daemon, "failed");
    let guard = wait_until(PATIENCE, || {
        let trees = sidecar.trees();
        let guards = &sidecar.marked() - &trees;
        guards.into_iter().next().filter(|_| trees.len() == 1)
    });
    assert!(kill(&guard.unwrap().to_string()));
    sidecar.call("stop", json!({ "id": daemon }));
    assert_eq!(pairs_when(&log_of(&sidecar), 2)[&daemon]["exit_code"], 4);
}

#[cfg(target_os = "linux")]
fn kill(pid: &str) -> bool {
    Command::new("kill")
        .args(["-9", pid])
        .status()
        .unwrap()
        .success()
}

#[test]
fn two_servers_share_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let padding = "x".repeat(6000);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut sidecar = Sidecar::with(&[
                    ("SIDECAR_AUDIT_LOG", place),
                    ("SIDECAR_MAX_PROCESSES", "100"),
                ]);
                let asked: Vec<_> = (0..60)
                    .map(|_| {
                        let command = format!(": {padding}");
                        sidecar.ask("start", &json!({ "command": command }))
                    })
                    .collect();
                for asked in asked {
                    sidecar.answer(&asked).unwrap();
                }
            });
        }
    });
    pairs_when(&dir.path().join(FILE), 120);
}

#[test]
fn a_log_may_be_renamed_and_removed() {
    let mut sidecar = audited(&[]);
    let log = log_of(&sidecar);
    let id = sidecar.start("exec sleep 300");
    let old = log.with_extension("1");
    std::fs::rename(&log, &old).unwrap();
    sidecar.call("stop", json!({ "id": id }));
    assert_eq!(
        (events(&old)[0]["event"].as_str(), events(&old).len()),
        (Some("start"), 1)
    );
    assert_eq!(
        (events(&log)[0]["event"].as_str(), events(&log).len()),
        (Some("stop"), 1)
    );
    std::fs::remove_file(&log).unwrap();
    let id = sidecar.start("exit 0");
    sidecar.state(&id, "exited");
    assert_eq!(events(&log).len(), 2);
}

#[test]
fn without_its_line_nothing_runs() {
    let mut sidecar = audited(&[]);
    let log = log_of(&sidecar);
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink("elsewhere", &log).unwrap();
    let sentence = sidecar.fail("start", json!({ "command": "echo ran > ran" }));
    assert!(
        sentence.contains(FILE) && sentence.contains("regular file"),
        "{sentence}"
    );
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let sentence = sidecar.fail("start", json!({ "command": "echo ran > ran" }));
    assert!(sentence.contains("directory"), "{sentence}");
    sidecar.nothing_left();
    assert!(!sidecar.dir.path().join("ran").exists());
    assert!(!sidecar.dir.path().join("logs/elsewhere").exists());
    assert_eq!(sidecar.call("list", json!({})), json!([]));
}

/// A file that must not grow fails in the middle of a line, as a full disk does.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_stops_starts_and_nothing_else_and_tears_no_line() {
    let mut sidecar = audited(&[]);
    let log = log_of(&sidecar);
    let limit = |pid: &str, bytes: &str| {
        let fsize = format!("--fsize={bytes}:");
        assert!(
            Command::new("prlimit")
                .args(["--pid", pid, &fsize])
                .status()
                .unwrap()
                .success()
        );
    };
    let server = sidecar.client.pid().to_string();
    let running = sidecar.start("exec sleep 300");
    let lost = sidecar.start("exec sleep 300");
    let size = std::fs::metadata(&log).unwrap().len();
    limit(&server, &(size + 20).to_string());
    let sentence = sidecar.fail("start", json!({ "command": "echo ran > ran" }));
    assert!(sentence.contains("File too large"), "{sentence}");
    assert!(!sidecar.dir.path().join("ran").exists());
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(
        text.ends_with(&format!("\n{}", "\t".repeat(20))),
        "{text:?}"
    );
    // A guard that cannot write does the rest of its work.
    limit(&sidecar.guard(&lost).to_string(), &(size + 20).to_string());
    assert_eq!(sidecar.call("stop", json!({ "id": lost }))["exitCode"], -1);
    limit(&server, "unlimited");
    let id = sidecar.start("exit 0");
    sidecar.state(&id, "exited");
    sidecar.call("stop", json!({ "id": running }));
    let mut events = events(&log);
    events.retain(|event| event["id"] != lost);
    assert_eq!(pairs(&events).len(), 2);
}

#[test]
fn what_the_log_lacks_is_told_on_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("stderr");
    let mut client = Client::start(program(), |command| {
        clean(command).current_dir(dir.path());
        command.env("SIDECAR_AUDIT_LOG", "true");
        command.stderr(std::fs::File::create(&said).unwrap());
    })
    .unwrap();
    client.initialize().unwrap();
    let started = client.call("start", &json!({ "command": "exec sleep 300" }));
    let id = started.unwrap()["id"].clone();
    std::fs::remove_file(dir.path().join(FILE)).unwrap();
    std::fs::create_dir(dir.path().join(FILE)).unwrap();
    assert_eq!(
        client.call("stop", &json!({ "id": id })).unwrap()["exitCode"],
        -1
    );
    let said = std::fs::read_to_string(said).unwrap();
    assert!(
        said.contains("audit log") && said.contains(id.as_str().unwrap()),
        "{said}"
    );
}

#[test]
fn a_log_that_cannot_be_opened_ends_the_server_at_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let place = dir.path().join(name);
        std::fs::create_dir(&place).unwrap();
        place
    };
    let folder = place("folder");
    std::fs::create_dir(folder.join(FILE)).unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    for (value, why) in [
        (folder, "directory"),
        (dir.path().join("file"), "exists"),
        (dir.path().join("file/below"), "directory"),
        (PathBuf::from("/proc"), "cannot be opened"),
    ] {
        let (code, err) = serve(
            dir.path(),
            &[("SIDECAR_AUDIT_LOG", value.to_str().unwrap())],
        );
        assert_eq!(code, Some(2), "{err}");
        assert!(
            err.contains("SIDECAR_AUDIT_LOG=") && err.contains(why),
            "{err}"
        );
        assert_eq!(err.lines().count(), 1, "{err}");
    }
}

#[test]
fn a_log_that_others_may_read_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join(FILE);
    std::fs::write(&log, "").unwrap();
    let variables = [("SIDECAR_AUDIT_LOG", ".")];
    for (mode, warned) in [(0o644, true), (0o600, false)] {
        std::fs::set_permissions(&log, PermissionsExt::from_mode(mode)).unwrap();
        let (code, told) = serve(dir.path(), &variables);
        assert_eq!(
            (code, told.contains("others may read or write")),
            (Some(0), warned),
            "{told}"
        );
    }
}

#[test]
fn a_log_that_is_a_link_is_not_followed_and_nothing_runs() {
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("stderr");
    std::os::unix::fs::symlink("elsewhere", dir.path().join(FILE)).unwrap();
    let mut client = Client::start(program(), |command| {
        clean(command).current_dir(dir.path());
        command.env("SIDECAR_AUDIT_LOG", "true");
        command.stderr(std::fs::File::create(&said).unwrap());
    })
    .unwrap();
    client.initialize().unwrap();
    let sentence = client
        .call("start", &json!({ "command": "echo ran >ran" }))
        .unwrap_err();
    assert!(
        sentence.contains("links are not followed") && sentence.contains(FILE),
        "{sentence}"
    );
    let said = std::fs::read_to_string(said).unwrap();
    assert!(
        said.contains("audit log") && said.contains("ERROR"),
        "{said}"
    );
    assert!(!dir.path().join("ran").exists() && !dir.path().join("elsewhere").exists());
    // It is a log again once it is one.
    std::fs::remove_file(dir.path().join(FILE)).unwrap();
    client.call("start", &json!({ "command": "true" })).unwrap();
}

#[test]
fn the_words_true_and_temp_name_a_directory_and_the_log_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let temp = dir.path().join("temp");
    std::fs::create_dir(&temp).unwrap();
    for (value, log) in [
        ("true", dir.path().join(FILE)),
        ("temp", temp.join(FILE)),
        ("a/b", dir.path().join("a/b").join(FILE)),
        ("", dir.path().join("none")),
    ] {
        let variables = [
            ("SIDECAR_AUDIT_LOG", value),
            ("TMPDIR", temp.to_str().unwrap()),
        ];
        let (code, told) = serve(dir.path(), &variables);
        assert_eq!(
            (code, told.is_empty()),
            (Some(0), !value.is_empty()),
            "{told}"
        );
        if value.is_empty() {
            assert!(told.contains("set but empty"), "{told}");
            continue;
        }
        let found = std::fs::metadata(&log).unwrap();
        assert_eq!(
            (found.len(), found.permissions().mode() & 0o777),
            (0, 0o600)
        );
    }
}

/// A life without a call: its exit code, and what it says.
fn serve(dir: &Path, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = clean(&mut Command::new(program()))
        .current_dir(dir)
        .envs(variables.iter().copied())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}
