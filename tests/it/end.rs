//! When the server ends, for whatever reason, every tree ends as `stop` would end it.

#![cfg(unix)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mcp_sidecar::doctor::client::wait_until;
use serde_json::json;

use crate::harness::{Sidecar, clean, program, signal};

#[test]
fn a_life_without_a_call_ends_with_zero() {
    let mut sidecar = Sidecar::silent(&[]);
    sidecar.client.close();
    assert_eq!(
        sidecar.client.exit(Duration::from_secs(5)).unwrap().code(),
        Some(0)
    );
}

#[test]
fn the_end_of_input_ends_the_trees_and_waits_for_them() {
    let (mut sidecar, _) = Sidecar::stubborn("300");
    sidecar.client.close();
    assert!(
        sidecar
            .client
            .exit(Duration::from_secs(5))
            .unwrap()
            .success()
    );
    // The forced end came after 300 ms, and the server has waited for it.
    assert!(sidecar.trees().is_empty());
}

#[test]
fn calls_in_flight_are_answered_at_the_end_of_input() {
    let (mut sidecar, id) = Sidecar::stubborn("300");
    let stop = sidecar.ask("stop", &json!({ "id": id }));
    let start = sidecar.ask("start", &json!({ "command": "exec sleep 300" }));
    let list = sidecar.ask("list", &json!({}));
    sidecar.client.close();
    assert!(sidecar.answer(&start).unwrap()["pid"].as_u64().unwrap() > 0);
    sidecar.answer(&list).unwrap();
    assert_eq!(sidecar.answer(&stop).unwrap()["exitCode"], -1);
    assert!(
        sidecar
            .client
            .exit(Duration::from_secs(5))
            .unwrap()
            .success()
    );
    sidecar.nothing_left();
}

#[test]
fn a_stop_that_takes_longer_than_the_server_is_answered_all_the_same() {
    let (mut sidecar, id) = Sidecar::stubborn("3000");
    let stop = sidecar.ask("stop", &json!({ "id": id }));
    sidecar.client.close();
    let sentence = sidecar.answer(&stop).unwrap_err();
    assert!(
        sentence.contains(&id) && sentence.contains("still ending"),
        "{sentence}"
    );
    assert!(
        sidecar
            .client
            .exit(Duration::from_secs(5))
            .unwrap()
            .success()
    );
    sidecar.nothing_left();
}

#[test]
#[cfg(target_os = "linux")]
fn input_without_end_does_not_keep_a_signal_away() {
    for (device, flood) in [("/dev/zero", false), ("/dev/null", true)] {
        let mut command = Command::new(program());
        let stdin = if flood {
            Stdio::piped()
        } else {
            File::open(device).unwrap().into()
        };
        let mut server = clean(&mut command)
            .stdin(stdin)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let writer = server.stdin.take().map(|mut stdin| {
            std::thread::spawn(move || {
                let pings = SESSION.repeat(1000);
                while stdin.write_all(&pings).is_ok() {}
            })
        });
        // It has begun to read once it has used some time.
        let stat = format!("/proc/{}/stat", server.id());
        wait_until(Duration::from_secs(10), || {
            let stat = std::fs::read_to_string(&stat).ok()?;
            let used = stat
                .rsplit(") ")
                .next()?
                .split(' ')
                .nth(11)?
                .parse::<u32>()
                .ok()?;
            (used > 20).then_some(())
        })
        .unwrap();
        signal(server.id(), "TERM");
        let begun = Instant::now();
        let status = wait_until(Duration::from_secs(10), || server.try_wait().unwrap()).unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(status.code(), Some(0));
        if let Some(writer) = writer {
            writer.join().unwrap();
        }
    }
}

#[test]
fn a_tree_that_takes_longer_than_the_server_keeps_its_whole_grace() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_KILL_TIMEOUT", "10000")]);
    let done = sidecar.dir.path().join("done");
    let id = sidecar.start(
        "trap 'sleep 2; echo clean > done; exit 0' TERM; echo armed; while :; do sleep 0.05; done",
    );
    sidecar.output_with(&id, "armed");
    sidecar.client.close();
    let begun = Instant::now();
    assert!(
        sidecar
            .client
            .exit(Duration::from_secs(5))
            .unwrap()
            .success()
    );
    assert!(
        begun.elapsed() < Duration::from_millis(1900),
        "{:?}",
        begun.elapsed()
    );
    sidecar.nothing_left();
    assert_eq!(std::fs::read_to_string(done).unwrap(), "clean\n");
}

#[test]
fn a_signal_ends_the_server_at_once_and_then_the_trees() {
    for name in ["TERM", "INT", "HUP"] {
        let (mut sidecar, id) = Sidecar::stubborn("300");
        sidecar.start("setsid sleep 300 & exec sleep 300");
        let stop = sidecar.ask("stop", &json!({ "id": id }));
        signal(sidecar.client.pid(), name);
        let begun = Instant::now();
        let status = sidecar.client.exit(Duration::from_secs(5)).unwrap();
        // 100 ms are promised; the rest is for a busy machine.
        assert!(
            begun.elapsed() < Duration::from_millis(400),
            "{name}: {:?}",
            begun.elapsed()
        );
        assert_eq!(status.code(), Some(0), "{name}");
        let _ = stop;
        sidecar.nothing_left();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_server_leaves_nothing_and_its_trees_end_gracefully() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_KILL_TIMEOUT", "5000")]);
    let done = sidecar.dir.path().join("done");
    let id = sidecar
        .start("trap 'echo clean > done; exit 0' TERM; echo armed; while :; do sleep 0.02; done");
    sidecar.output_with(&id, "armed");
    sidecar.start("setsid sleep 300 & exec sleep 300");
    let daemon = sidecar.start("(setsid sh -c 'exec sleep 300 </dev/null >/dev/null 2>&1' &)");
    sidecar.state(&daemon, "exited");
    sidecar.client.kill();
    sidecar.nothing_left();
    assert_eq!(std::fs::read_to_string(done).unwrap(), "clean\n");
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_killed_while_it_starts_processes_leaves_nothing() {
    for round in 0..20 {
        let mut sidecar = Sidecar::with(&[
            ("SIDECAR_KILL_TIMEOUT", "100"),
            ("SIDECAR_MAX_PROCESSES", "50"),
        ]);
        for _ in 0..10 {
            sidecar.ask(
                "start",
                &json!({ "command": "setsid sleep 300 & exec sleep 300" }),
            );
        }
        // A different moment each time, from before the first spawn to after the last.
        let moment = Instant::now() + Duration::from_micros(700 * round);
        wait_until(Duration::from_secs(1), || {
            (Instant::now() >= moment).then_some(())
        });
        sidecar.client.kill();
        sidecar.nothing_left();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn neither_a_flood_nor_an_unread_stdout_delays_the_end() {
    let mut command = Command::new(program());
    let dir = tempfile::tempdir().unwrap();
    clean(&mut command)
        .current_dir(dir.path())
        .env("SIDECAR_KILL_TIMEOUT", "300");
    let mut server = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let initialize = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "t", "version": "1" },
    });
    let request = |id: u32, method: &str, params: serde_json::Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    writeln!(stdin, "{}", request(1, "initialize", initialize)).unwrap();
    let mut say = |id: u32, tool: &str, arguments: serde_json::Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        writeln!(stdin, "{}", request(id, "tools/call", params)).unwrap();
    };
    // Nobody reads stdout, and much more than it holds is asked for.
    say(
        2,
        "start",
        json!({ "command": "echo $$ > pid; exec yes", "name": "flood" }),
    );
    let pid = wait_until(Duration::from_secs(10), || {
        std::fs::read_to_string(dir.path().join("pid"))
            .ok()?
            .trim()
            .parse::<u32>()
            .ok()
    })
    .unwrap();
    for id in 3..1500 {
        say(id, "output", json!({ "id": "flood" }));
    }
    drop(stdin);
    let begun = Instant::now();
    let status = wait_until(Duration::from_secs(10), || server.try_wait().unwrap()).unwrap();
    assert!(
        // 1.5 s are promised; the rest is for a slow build on a busy machine.
        status.success() && begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    wait_until(Duration::from_secs(10), || {
        (!mcp_sidecar::platform::is_alive(pid)).then_some(())
    })
    .unwrap();
}

#[test]
fn a_broken_stdout_ends_the_server() {
    let mut command = Command::new(program());
    let mut server = clean(&mut command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(server.stdout.take());
    let mut stdin = server.stdin.take().unwrap();
    stdin
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
        .unwrap();
    assert!(
        wait_until(Duration::from_secs(5), || server.try_wait().unwrap())
            .unwrap()
            .success()
    );
}

/// One request, whatever the client's ends are, and the end of input.
const SESSION: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

#[test]
fn the_clients_ends_may_be_sockets_or_files() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let stdin: std::os::fd::OwnedFd = theirs.try_clone().unwrap().into();
    let stdout: std::os::fd::OwnedFd = theirs.into();
    let mut command = Command::new(program());
    let mut server = clean(&mut command)
        .stdin(stdin)
        .stdout(stdout)
        .spawn()
        .unwrap();
    drop(command);
    ours.write_all(SESSION).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let mut heard = String::new();
    ours.read_to_string(&mut heard).unwrap();
    assert!(heard.contains("\"id\":1"), "{heard}");
    assert!(server.wait().unwrap().success());

    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in"), dir.path().join("out"));
    std::fs::write(&input, SESSION).unwrap();
    let status = clean(&mut Command::new(program()))
        .stdin(File::open(input).unwrap())
        .stdout(File::create(&output).unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    assert!(
        std::fs::read_to_string(output)
            .unwrap()
            .contains("\"id\":1")
    );
}

#[test]
#[cfg(target_os = "linux")]
fn the_clients_end_may_be_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    // util-linux `script` gives its child a terminal.
    let line = format!("{} 2> {}", program().display(), err.display());
    let mut command = Command::new("script");
    let mut terminal = clean(&mut command)
        .args(["-q", "-e", "-f", "-c", &line, out.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = terminal.stdin.take().unwrap();
    stdin.write_all(SESSION).unwrap();
    wait_until(Duration::from_secs(10), || {
        std::fs::read_to_string(&out)
            .ok()?
            .contains("\"result\"")
            .then_some(())
    })
    .expect("no answer on the terminal");
    // Ctrl-D.
    stdin.write_all(b"\x04").unwrap();
    let status = wait_until(Duration::from_secs(10), || terminal.try_wait().unwrap()).unwrap();
    assert!(status.success());
    let said = std::fs::read_to_string(err).unwrap();
    assert!(
        said.contains("MCP server") && said.contains("claude mcp add"),
        "{said}"
    );
}
