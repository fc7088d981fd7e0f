//! What runs out, is missing or was left wrong by a host: a clear error or a way around it, and
//! the server goes on.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use mcp_sidecar::doctor::client::wait_until;
use mcp_sidecar::platform::is_alive;
use serde_json::json;

use crate::harness::{Sidecar, clean, program, signal};

/// Leaves a daemon behind and goes on.
const TREE: &str = "(setsid sh -c 'echo daemon >&2; exec sleep 301' </dev/null >/dev/null &); echo leader; exec sleep 302";

/// Whether this machine lets us do that. Where it does not, there is nothing to see.
fn possible(words: &[&str]) -> bool {
    let done = Command::new(words[0]).args(&words[1..]).status();
    done.unwrap().success()
}

#[track_caller]
fn lives_a_whole_life(sidecar: &mut Sidecar) {
    let id = sidecar.start(TREE);
    sidecar.output_with(&id, "leader");
    sidecar.output_when(&id, "daemon", |output| output["stderr"] == "daemon\n");
    sidecar.call("stop", json!({ "id": id }));
    assert!(sidecar.trees().is_empty(), "{:?}", sidecar.trees());
}

#[test]
fn without_descriptors_a_start_fails_and_all_else_goes_on() {
    let mut sidecar = Sidecar::under(
        &["prlimit", "--nofile=64:64"],
        &[("SIDECAR_MAX_PROCESSES", "50")],
    );
    let mut ids = Vec::new();
    let sentence = loop {
        match sidecar.client.call(
            "start",
            &json!({ "command": "setsid sleep 300 & echo up; exec cat" }),
        ) {
            Ok(started) => ids.push(started["id"].as_str().unwrap().to_owned()),
            Err(sentence) => break sentence,
        }
    };
    assert!(
        ids.len() >= 8 && sentence.contains("ulimit -n") && sentence.contains("open files"),
        "{}: {sentence}",
        ids.len()
    );
    for id in &ids {
        sidecar.output_with(id, "up");
    }
    // A guard is killed now, of all times.
    let killed = ids.pop().unwrap();
    let guard = sidecar.guard(&killed);
    signal(guard, "KILL");
    sidecar.state(&killed, "failed");
    sidecar.call("stop", json!({ "id": killed }));
    sidecar.start("exec sleep 300");
    let fed = ids.pop().unwrap();
    sidecar.call("send", json!({ "id": fed, "input": "heard" }));
    sidecar.output_with(&fed, "heard");
    sidecar.client.close();
    sidecar.client.exit(Duration::from_secs(10)).unwrap();
    sidecar.nothing_left();
}

#[test]
fn without_processes_a_start_fails_and_the_next_one_may_not() {
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let limit = ["prlimit", "--nproc=1:4096"];
    // The limit does not hold for root.
    let user = if possible(&[&nobody[..], &["true"]].concat()) {
        &nobody[..]
    } else {
        &["env"]
    };
    let mut sidecar = Sidecar::under(&[user, &limit].concat(), &[]);
    let sentence = sidecar.fail("start", json!({ "command": "true" }));
    assert!(sentence.contains("ulimit -u"), "{sentence}");
    assert_eq!(sidecar.call("list", json!({})), json!([]));
    let pid = sidecar.client.pid().to_string();
    let raise = ["prlimit", "--pid", &pid, "--nproc=4096:4096"];
    assert!(possible(&[user, &raise].concat()));
    sidecar.start("echo up; exec sleep 300");
}

#[test]
fn without_proc_a_tree_ends_all_the_same() {
    let hidden = ["unshare", "-m", "sh", "-c"];
    let hide = "mount -t tmpfs none /proc && exec \"$0\"";
    if !possible(&[&hidden[..], &["mount -t tmpfs none /proc"]].concat()) {
        return;
    }
    let mut sidecar = Sidecar::under(&[&hidden[..], &[hide]].concat(), &[]);
    lives_a_whole_life(&mut sidecar);
    let id = sidecar.start(TREE);
    sidecar.output_with(&id, "leader");
    // It is not known, so it is not told.
    assert_eq!(
        sidecar.call("status", json!({ "id": id })).get("processes"),
        None
    );
    sidecar.client.kill();
    sidecar.nothing_left();

    let hide = "mount -t tmpfs none /proc && exec \"$0\" doctor";
    let mut doctor = Command::new(hidden[0]);
    doctor.args(&hidden[1..]).arg(hide).arg(program());
    let said = clean(&mut doctor).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("All checks passed."), "{said}");
}

#[test]
fn a_program_that_was_removed_or_replaced_goes_on() {
    let mut sidecar = Sidecar::under(&["env"], &[]);
    let copy = sidecar.dir.path().join("mcp-sidecar");
    std::fs::remove_file(&copy).unwrap();
    lives_a_whole_life(&mut sidecar);
    std::fs::copy("/bin/false", &copy).unwrap();
    lives_a_whole_life(&mut sidecar);
}

#[test]
fn without_proc_a_program_that_was_replaced_says_so() {
    let hidden = ["unshare", "-m", "sh", "-c"];
    if !possible(&[&hidden[..], &["mount -t tmpfs none /proc"]].concat()) {
        return;
    }
    let hide = "mount -t tmpfs none /proc && exec \"$0\"";
    let mut sidecar = Sidecar::under(&[&hidden[..], &[hide]].concat(), &[]);
    let copy = sidecar.dir.path().join("mcp-sidecar");
    std::fs::remove_file(&copy).unwrap();
    std::fs::copy("/bin/false", &copy).unwrap();
    let sentence = sidecar.fail("start", json!({ "command": "true" }));
    assert!(sentence.contains("restart the server"), "{sentence}");
    std::fs::remove_file(&copy).unwrap();
    let sentence = sidecar.fail("start", json!({ "command": "true" }));
    assert!(sentence.contains("restart the server"), "{sentence}");
    assert_eq!(sidecar.call("list", json!({})), json!([]));
}

#[test]
fn a_directory_that_was_removed_keeps_nobody_from_working_elsewhere() {
    let mut sidecar = Sidecar::new();
    std::fs::remove_dir_all(sidecar.dir.path()).unwrap();
    sidecar.call(
        "start",
        json!({ "command": "echo here; exec sleep 300", "cwd": "/", "name": "root" }),
    );
    sidecar.output_with("root", "here");
    let sentence = sidecar.fail("start", json!({ "command": "true", "cwd": "sub" }));
    assert!(
        sentence.contains("sub") && sentence.contains("not exist"),
        "{sentence}"
    );
    let id = sidecar.start("echo nowhere; exec sleep 300");
    sidecar.output_with(&id, "nowhere");
}

#[test]
fn signals_that_a_host_ignores_or_blocks_work() {
    let wrapper = [
        "env",
        "--ignore-signal=CHLD,TERM,INT,HUP,PIPE,USR1",
        "--block-signal=CHLD,TERM,INT,HUP,CONT,WINCH",
    ];
    if !possible(&[&wrapper[..], &["true"]].concat()) {
        return;
    }
    for name in ["TERM", "INT", "HUP"] {
        let mut sidecar = Sidecar::under(&wrapper, &[]);
        let id = sidecar.start("exit 3");
        assert_eq!(sidecar.state(&id, "failed")["exitCode"], 3);
        lives_a_whole_life(&mut sidecar);
        let id =
            sidecar.start("grep -E 'SigBlk|SigIgn' /proc/self/status; echo done; exec sleep 300");
        let text = sidecar.output_with(&id, "done");
        assert!(
            text.contains("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"),
            "{text}"
        );
        signal(sidecar.client.pid(), name);
        sidecar.client.exit(Duration::from_secs(10)).unwrap();
        sidecar.nothing_left();
    }
}

#[test]
fn descriptors_that_a_host_leaks_stop_with_us() {
    let leak = "exec 5</dev/null 7>leak 9<>leak; exec \"$0\"";
    let mut sidecar = Sidecar::under(&["sh", "-c", leak], &[]);
    let id = sidecar.start("ls /proc/self/fd | tr '\\n' ' '; echo done");
    // The fourth is the one with which ls reads the directory.
    assert_eq!(sidecar.output_with(&id, "done"), "0 1 2 3 done\n");
}

#[test]
fn a_log_that_cannot_be_written_stops_nobody() {
    for stderr in ["2>/dev/full", "2>&-"] {
        let mut sidecar = Sidecar::under(
            &["sh", "-c", &format!("exec \"$0\" {stderr}")],
            &[("SIDECAR_LOG", "debug")],
        );
        lives_a_whole_life(&mut sidecar);
        let id = sidecar.start("exec sleep 300");
        // This is something to log.
        let guard = sidecar.guard(&id);
        signal(guard, "KILL");
        sidecar.state(&id, "failed");
        lives_a_whole_life(&mut sidecar);
    }
}

#[test]
fn a_log_that_may_not_grow_stops_nobody() {
    // A shell that redirects says nothing of this limit; the file is full at once.
    let wrapper = "exec \"$0\" 2>>log";
    let mut sidecar = Sidecar::under(
        &["prlimit", "--fsize=0:0", "sh", "-c", wrapper],
        &[("SIDECAR_LOG", "debug")],
    );
    let id = sidecar.start("exec sleep 300");
    // This is something to log.
    let guard = sidecar.guard(&id);
    signal(guard, "KILL");
    sidecar.state(&id, "failed");
    lives_a_whole_life(&mut sidecar);
    // What is started gets the signal as ever.
    let id = sidecar.start("exec head -c 10 /dev/zero >grown");
    assert_eq!(sidecar.state(&id, "failed")["exitCode"], -1);
}

/// Starts a server, leaks the other end of its input to a program of its own, and waits.
const LEAKING_HOST: &str = "
import os, socket, subprocess, sys
if sys.argv[2] == 'pipe':
    ours, theirs = reversed(os.pipe())
else:
    a, b = socket.socketpair()
    ours, theirs = a.detach(), b.detach()
leak = subprocess.Popen(['sleep', '300'], pass_fds=[ours])
server = subprocess.Popen([sys.argv[1]], stdin=theirs, stdout=subprocess.PIPE)
os.close(theirs)
call = lambda text: (os.write(ours, text.encode() + b'\\n'), server.stdout.readline())[1]
call('{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"0\"}}}')
call('{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"start\",\"arguments\":{\"command\":\"setsid sleep 301 & exec sleep 302\"}}}')
print(leak.pid, server.pid, flush=True)
server.wait()
";

#[test]
fn a_host_that_dies_is_missed_though_somebody_else_holds_our_input_open() {
    for kind in ["pipe", "socket"] {
        let mut host = clean(&mut Command::new("python3"))
            .args(["-c", LEAKING_HOST, program().to_str().unwrap(), kind])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(host.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let pids: Vec<u32> = line
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect();
        let [leak, server] = pids[..] else {
            panic!("{line}")
        };
        assert!(is_alive(server));
        host.kill().unwrap();
        host.wait().unwrap();
        let gone = wait_until(Duration::from_secs(10), || {
            (!is_alive(server)).then_some(())
        });
        assert!(
            is_alive(leak),
            "the leak must outlive the server to prove it"
        );
        signal(leak, "KILL");
        assert!(gone.is_some(), "{kind}: the server lives on");
    }
}
