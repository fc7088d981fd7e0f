//! One call to ready: every condition, and what ends a wait before it holds.

#![cfg(unix)]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Sidecar;

/// A server on a port of its own choice would not be waited for by its port.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn a_line_is_waited_for_wherever_and_however_it_comes() {
    let mut sidecar = Sidecar::new();
    for (command, pattern, matched) in [
        (
            "echo starting; sleep 0.1; echo 'listening on 1'; exec sleep 300",
            "listening on \\d",
            "listening on 1",
        ),
        // In two writes.
        (
            "printf 'list'; sleep 0.2; echo ening; exec sleep 300",
            "^listening$",
            "listening",
        ),
        // Without its end.
        (
            "printf 'password: '; exec sleep 300",
            "password: $",
            "password: ",
        ),
        (
            "sleep 0.1; echo ready >&2; exec sleep 300",
            "ready",
            "ready",
        ),
        // In colours.
        (
            "sleep 0.1; printf '\\033[32mrea\\033[1mdy\\033[0m in 3 ms\\r\\n'; exec sleep 300",
            "^ready in",
            "ready in 3 ms",
        ),
        // It was there before.
        ("echo ready; exec sleep 300", "ready", "ready"),
    ] {
        let started = sidecar.call(
            "start",
            json!({ "command": command, "wait": { "pattern": pattern } }),
        );
        assert_eq!(started["wait"], "pattern", "{started}");
        assert_eq!(started["match"], matched, "{started}");
        assert_eq!(started["state"], "running");
        assert_eq!(started.get("exitCode"), None);
        let text = format!("{}{}", started["stdout"], started["stderr"]);
        assert!(text.contains(matched.trim_end()), "{started}");
        sidecar.call("stop", json!({ "id": started["id"] }));
    }
    // A string is a pattern.
    let started = sidecar.call(
        "start",
        json!({ "command": "echo up; exec sleep 300", "wait": "up" }),
    );
    assert_eq!(started["wait"], "pattern");
}

#[test]
fn an_end_while_waiting_is_told_at_once_with_its_last_lines() {
    let mut sidecar = Sidecar::new();
    let begun = Instant::now();
    let started = sidecar.call(
        "start",
        json!({ "command": "echo oops >&2; exit 3", "wait": { "pattern": "ready", "port": 1, "timeout": 20_000 } }),
    );
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(
        (&started["wait"], &started["state"]),
        (&json!("exit"), &json!("failed"))
    );
    assert_eq!(
        (&started["exitCode"], &started["stderr"]),
        (&json!(3), &json!("oops\n"))
    );
    let started = sidecar.call(
        "start",
        json!({ "command": "sleep 0.1; echo done", "wait": { "exit": true } }),
    );
    assert_eq!(
        (&started["wait"], &started["exitCode"], &started["stdout"]),
        (&json!("exit"), &json!(0), &json!("done\n"))
    );
}

#[test]
fn time_and_silence_end_a_wait_and_are_no_errors() {
    let mut sidecar = Sidecar::new();
    let started = sidecar.call(
        "start",
        json!({ "command": "echo up; exec sleep 300", "wait": { "pattern": "never", "timeout": 100 } }),
    );
    assert_eq!(
        (&started["wait"], &started["stdout"]),
        (&json!("timeout"), &json!("up\n"))
    );
    let id = &started["id"];
    let answer = sidecar.call("output", json!({ "id": id, "wait": { "idle": 100 } }));
    assert_eq!(
        (&answer["wait"], &answer["stdout"]),
        (&json!("idle"), &json!("up\n"))
    );
    // It is as alive as before.
    assert_eq!(
        sidecar.call("status", json!({ "id": id }))["state"],
        "running"
    );
}

#[test]
fn a_port_is_ready_when_the_tree_itself_listens() {
    let mut sidecar = Sidecar::new();
    for bind in ["127.0.0.1", "::1"] {
        let port = free_port();
        let command = format!("sleep 0.2; exec python3 -m http.server {port} --bind {bind}");
        let started = sidecar.call(
            "start",
            json!({ "command": command, "wait": { "port": port } }),
        );
        assert_eq!(started["wait"], "port", "{started}");
        let url = format!(
            "http://{}:{port}/",
            if bind == "::1" { "[::1]" } else { bind }
        );
        let answer = sidecar.call(
            "output",
            json!({ "id": started["id"], "wait": { "url": url } }),
        );
        assert_eq!(answer["wait"], "url", "{answer}");
        let missing = format!("{url}no/such/file");
        let answer = sidecar.call(
            "output",
            json!({ "id": started["id"], "wait": { "url": missing, "timeout": 200 } }),
        );
        assert_eq!(answer["wait"], "timeout", "{answer}");
        sidecar.call("stop", json!({ "id": started["id"] }));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn somebody_elses_port_is_never_ready() {
    let mut sidecar = Sidecar::new();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let sentence = sidecar.fail(
        "start",
        json!({ "command": "echo ran >ran", "wait": { "port": port } }),
    );
    let owner = format!("process {}", std::process::id());
    assert!(
        sentence.contains(&port.to_string()) && sentence.contains(&owner),
        "{sentence}"
    );
    assert!(!sidecar.dir.path().join("ran").exists());
    assert_eq!(sidecar.call("list", json!({})), json!([]));
    // Nor is it once something runs.
    let id = sidecar.start("exec sleep 300");
    for condition in ["port", "url"] {
        let value = if condition == "port" {
            json!(port)
        } else {
            json!(format!("http://localhost:{port}/"))
        };
        let mut wait = json!({ "timeout": 300 });
        wait[condition] = value;
        let answer = sidecar.call("output", json!({ "id": id, "wait": wait }));
        assert_eq!(answer["wait"], "timeout", "{answer}");
    }
    // The one that is replaced holds it, and lets go of it.
    drop(stranger);
    let command = format!("exec python3 -m http.server {port} --bind 127.0.0.1");
    for _ in 0..2 {
        let started = sidecar.call(
            "start",
            json!({ "command": command, "name": "web", "replace": true, "wait": { "port": port } }),
        );
        assert_eq!(started["wait"], "port", "{started}");
    }
}

/// The first address of this machine that is not of the loop, if it has one.
#[cfg(target_os = "linux")]
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: it only chooses the address that would be sent from.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[test]
#[cfg(target_os = "linux")]
fn no_spelling_of_this_machine_makes_somebody_elses_server_ready() {
    let mut sidecar = Sidecar::new();
    let stranger = TcpListener::bind("0.0.0.0:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let port = stranger.local_addr().unwrap().port();
    let id = sidecar.start("exec sleep 300");
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut hosts: Vec<String> = [
        "127.1",
        "2130706433",
        "0x7f000001",
        "0",
        "[::ffff:127.0.0.1]",
        "LOCALHOST",
    ]
    .map(str::to_owned)
    .into();
    hosts.push(name.trim().to_owned());
    hosts.extend(own_address().map(|address| address.to_string()));
    for host in hosts {
        let url = format!("http://{host}:{port}/");
        let wait = json!({ "url": url, "timeout": 300 });
        let answer = sidecar.call("output", json!({ "id": id, "wait": wait }));
        assert_eq!(answer["wait"], "timeout", "{url}: {answer}");
        assert!(stranger.accept().is_err(), "{url} was asked");
    }
}

#[test]
fn in_secure_mode_no_other_machine_is_asked() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_ALLOWED_EXECUTABLES", "sleep,python3")]);
    for host in ["192.0.2.1", "[::ffff:192.0.2.1]", "nosuchhost.invalid"] {
        let wait = json!({ "url": format!("http://{host}/") });
        let sentence = sidecar.fail("start", json!({ "command": "sleep 300", "wait": wait }));
        assert!(
            sentence.contains("only this machine") && sentence.contains(host),
            "{sentence}"
        );
    }
    assert_eq!(sidecar.call("list", json!({})), json!([]));
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let command = format!("python3 -m http.server {port} --bind 127.0.0.1");
    let wait = json!({ "url": format!("http://127.1:{port}/") });
    let started = sidecar.call("start", json!({ "command": command, "wait": wait }));
    assert_eq!(started["wait"], "url", "{started}");
    // Nor are the arguments of a stranger told.
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let sentence = sidecar.fail(
        "start",
        json!({ "command": "sleep 1", "wait": { "port": port } }),
    );
    assert!(
        sentence.contains("already taken by") && !sentence.contains('/'),
        "{sentence}"
    );
}

#[test]
#[cfg(unix)]
fn an_end_and_a_line_end_a_wait_for_a_server_that_does_not_answer() {
    let mut sidecar = Sidecar::new();
    // Takes the connection, and never says a word.
    let silent = "import socket, sys, time\ns = socket.create_server(('127.0.0.1', 0))\n\
                  print(s.getsockname()[1], flush=True)\nc, _ = s.accept()\n\
                  print('asked', flush=True)\nsys.stdin.readline()";
    let started = sidecar.call(
        "start",
        json!({ "command": format!("exec python3 -c \"{silent}\""), "wait": r"\d+" }),
    );
    let id = &started["id"];
    let url = format!("http://127.0.0.1:{}/", started["match"].as_str().unwrap());
    let begun = std::time::Instant::now();
    let answer = sidecar.call(
        "output",
        json!({ "id": id, "wait": { "url": url, "pattern": "asked" } }),
    );
    assert_eq!(answer["wait"], "pattern", "{answer}");
    let asked = sidecar.client.ask(
        "tools/call",
        &json!({ "name": "output", "arguments": { "id": id, "wait": { "url": url } } }),
    );
    sidecar.call("send", json!({ "id": id, "input": "end" }));
    let answer = sidecar.answer(&asked.unwrap()).unwrap();
    assert_eq!(answer["wait"], "exit", "{answer}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(4));
}

/// Answers one request with a large page, and says how that went.
const PAGE: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
print('port', listener.getsockname()[1], flush=True)
client, _ = listener.accept()
client.recv(65536)
client.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n')
try:
    for _ in range(8):
        client.sendall(b'x' * 65536)
    client.shutdown(socket.SHUT_WR)
    print('read to its end', client.recv(1) == b'', flush=True)
except OSError as error:
    print(error, flush=True)
";

#[test]
fn a_server_that_is_asked_by_its_url_is_not_cut_off() {
    let mut sidecar = Sidecar::new();
    std::fs::write(sidecar.dir.path().join("page.py"), PAGE).unwrap();
    let id = sidecar.start("exec python3 page.py");
    let said = sidecar.output_with(&id, "\n");
    let port = said.trim().trim_start_matches("port ");
    let url = json!({ "url": format!("http://127.0.0.1:{port}/") });
    let answer = sidecar.call("output", json!({ "id": id, "wait": url }));
    assert_eq!(answer["wait"], "url", "{answer}");
    sidecar.output_with(&id, "read to its end True");
}

#[test]
fn a_reply_comes_with_the_call_and_nothing_else() {
    let mut sidecar = Sidecar::new();
    let started = sidecar.call(
        "start",
        json!({ "command": "exec python3 -i -q -u", "name": "repl", "wait": ">>> $" }),
    );
    assert_eq!(started["wait"], "pattern", "{started}");
    for (input, reply) in [
        ("6 * 7", "42\n"),
        ("print('a\\nb')", "a\nb\n"),
        ("x = 1", ""),
    ] {
        let answer = sidecar.call(
            "send",
            json!({ "id": "repl", "input": input, "wait": ">>> $" }),
        );
        assert_eq!(
            (&answer["ok"], &answer["wait"]),
            (&json!(true), &json!("pattern"))
        );
        assert_eq!(
            (&answer["stdout"], &answer["stderr"]),
            (&json!(reply), &json!(">>> ")),
            "{answer}"
        );
    }
    let answer = sidecar.call(
        "send",
        json!({ "id": "repl", "input": "exit(4)", "wait": { "exit": true } }),
    );
    assert_eq!(
        (&answer["wait"], &answer["exitCode"]),
        (&json!("exit"), &json!(4))
    );
}

#[test]
fn output_waits_for_what_comes_after_a_cursor() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("echo ready; read line; sleep 0.1; echo ready again; exec sleep 300");
    let first = sidecar.call("output", json!({ "id": id, "wait": "ready" }));
    assert_eq!(first["stdout"], "ready\n");
    let asked = sidecar.ask(
        "output",
        &json!({ "id": id, "since": first["cursor"], "wait": "ready" }),
    );
    sidecar.call("send", json!({ "id": id, "input": "" }));
    let second = sidecar.answer(&asked).unwrap();
    assert_eq!(
        (&second["stdout"], &second["match"]),
        (&json!("ready again\n"), &json!("ready again"))
    );
}

#[test]
fn a_wait_blocks_nobody_and_can_be_cancelled() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("exec sleep 300");
    let asked = sidecar.ask(
        "output",
        &json!({ "id": id, "wait": { "pattern": "never", "timeout": 60_000 } }),
    );
    sidecar.call("list", json!({}));
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": asked },
    });
    sidecar.client.say(&cancel.to_string()).unwrap();
    assert_eq!(
        sidecar.call("status", json!({ "id": id }))["state"],
        "running"
    );
    // Nothing is left that would keep the server: one that is not cancelled ends with its input.
    let asked = sidecar.ask(
        "output",
        &json!({ "id": id, "wait": { "pattern": "never", "timeout": 60_000 } }),
    );
    sidecar.call("list", json!({}));
    sidecar.client.close();
    let answer = sidecar.answer(&asked).unwrap();
    assert_eq!(answer["wait"], "timeout", "{answer}");
    assert!(
        sidecar
            .client
            .exit(Duration::from_secs(5))
            .unwrap()
            .success()
    );
}

#[test]
fn a_long_wait_tells_that_it_goes_on() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("exec sleep 300");
    let arguments = json!({ "id": id, "wait": { "pattern": "never", "timeout": 6000 } });
    let params =
        json!({ "name": "output", "arguments": arguments, "_meta": { "progressToken": "t1" } });
    let asked = sidecar.client.ask("tools/call", &params).unwrap();
    let progress = |message: &Value| message["method"] == "notifications/progress";
    let heard = sidecar
        .client
        .hear_where(progress, Duration::from_secs(20))
        .unwrap();
    assert_eq!(heard["params"]["progressToken"], "t1", "{heard}");
    assert_eq!(sidecar.answer(&asked).unwrap()["wait"], "timeout");
}

#[test]
fn what_cannot_be_waited_for_is_told_and_nothing_is_started() {
    let mut sidecar = Sidecar::new();
    for (wait, wanted) in [
        (json!({ "pattern": "(" }), "wait.pattern"),
        (json!({ "port": 0 }), "wait.port"),
        (json!({ "port": 70_000 }), "70000"),
        (json!({ "url": "https://localhost/" }), "http://"),
        (json!({ "url": "localhost:3000" }), "localhost:3000"),
        (json!({ "for": "ready" }), "for"),
        (json!({ "timeout": "soon" }), "timeout"),
        (json!({ "idle": -1 }), "idle"),
        (json!(5), "wait"),
        (json!(["ready"]), "wait"),
    ] {
        let sentence = sidecar.fail("start", json!({ "command": "true", "wait": wait }));
        assert!(sentence.contains(wanted), "{sentence}");
    }
    assert_eq!(sidecar.call("list", json!({})), json!([]));
}

#[test]
fn a_flood_is_searched_without_end_and_found_in() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_BUFFER_SIZE", "100000")]);
    let started = sidecar.call(
        "start",
        json!({
            "command": "yes 'nothing here' | head -n 3000000; echo needle; exec sleep 300",
            "wait": { "pattern": "needle", "timeout": 60_000 },
        }),
    );
    assert_eq!(started["wait"], "pattern", "{started}");
    assert_eq!(started["truncated"], true);
    assert!(started["stdout"].as_str().unwrap().len() <= 8192);
}
