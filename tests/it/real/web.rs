//! A web server, in the foreground and left behind by a script.

use std::io::{Read, Write};

use serde_json::json;

use super::{PYTHON, assert_free, connect, free_port, need, stderr_with};
use crate::harness::Sidecar;

/// What a server answers, headers included.
#[track_caller]
fn get(port: u16, path: &str) -> String {
    let mut stream = connect(port);
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Waits until the server listens, asks it for a file, and finds the access in its log.
#[track_caller]
fn is_served(sidecar: &mut Sidecar, id: &str, port: u16) {
    let ready = format!("Serving HTTP on 127.0.0.1 port {port} ");
    sidecar.output_with(id, &ready);
    std::fs::write(sidecar.dir.path().join("hello.txt"), "hello").unwrap();
    let answer = get(port, "/hello.txt");
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    stderr_with(sidecar, id, "\"GET /hello.txt HTTP/1.0\" 200");
}

#[test]
fn a_web_server() {
    need(PYTHON);
    let mut sidecar = Sidecar::new();
    let port = free_port();
    let command = format!("{PYTHON} -m http.server {port} --bind 127.0.0.1");
    let env = json!({ "PYTHONUNBUFFERED": 1 });
    sidecar.call(
        "start",
        json!({ "command": command, "name": "web", "env": env }),
    );
    is_served(&mut sidecar, "web", port);
    sidecar.call("stop", json!({ "id": "web" }));
    assert_free(port);
    sidecar.state("web", "killed");
    sidecar.nothing_left();
}

#[test]
#[cfg(unix)]
fn a_script_that_leaves_a_web_server_behind() {
    need(PYTHON);
    let mut sidecar = Sidecar::new();
    let port = free_port();
    let script = format!("{PYTHON} -u -m http.server {port} --bind 127.0.0.1 &\necho started\n");
    std::fs::write(sidecar.dir.path().join("dev.sh"), script).unwrap();
    let id = sidecar.start("sh dev.sh");
    assert_eq!(sidecar.state(&id, "exited")["exitCode"], 0);
    sidecar.output_with(&id, "started\n");
    is_served(&mut sidecar, &id, port);
    sidecar.call("stop", json!({ "id": id }));
    assert_free(port);
    // The leader had ended by itself before.
    sidecar.state(&id, "exited");
    sidecar.nothing_left();
}
