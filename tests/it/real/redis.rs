//! A store that writes its data down when it is asked to end.

use std::io::{Read, Write};

use mcp_sidecar::doctor::client::{PATIENCE, wait_until};
use serde_json::json;

use super::{assert_free, connect, free_port, need};
use crate::harness::Sidecar;

const READY: &str = "Ready to accept connections";
const CLEAN_END: &str = "Redis is now ready to exit, bye bye...";

/// Sends one command in the protocol of Redis; the answer must be this.
#[track_caller]
fn ask(port: u16, words: &[&str], expected: &str) {
    let mut stream = connect(port);
    write!(stream, "*{}\r\n", words.len()).unwrap();
    for word in words {
        write!(stream, "${}\r\n{word}\r\n", word.len()).unwrap();
    }
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), expected, "{words:?}");
}

#[test]
fn redis_ends_cleanly_and_keeps_its_data() {
    need("redis-server");
    let mut sidecar = Sidecar::new();
    let port = free_port();
    let command =
        format!("redis-server --port {port} --bind 127.0.0.1 --dir . --save '' --appendonly yes");

    // A shell that waits for it would end of the signal first, with a code of its own.
    let id = sidecar.start(&format!("exec {command}"));
    sidecar.output_with(&id, READY);
    ask(port, &["SET", "answer", "forty-two"], "+OK\r\n");
    let stopped = sidecar.call("stop", json!({ "id": id }));
    assert_eq!(stopped["exitCode"], 0);
    sidecar.output_with(&id, CLEAN_END);
    sidecar.state(&id, "killed");
    assert_free(port);

    // It ends as cleanly behind such a shell.
    let id = sidecar.start(&command);
    sidecar.output_with(&id, READY);
    ask(port, &["GET", "answer"], "$9\r\nforty-two\r\n");
    sidecar.call("stop", json!({ "id": id }));
    sidecar.output_with(&id, CLEAN_END);
    assert_free(port);
    sidecar.nothing_left();
}

#[test]
fn redis_ends_cleanly_when_the_server_is_killed() {
    need("redis-server");
    let mut sidecar = Sidecar::new();
    let port = free_port();
    // Its data is only in memory until it is asked to end.
    let command = format!(
        "redis-server --port {port} --bind 127.0.0.1 --dir . --save '3600 1' --logfile redis.log"
    );
    sidecar.start(&command);
    let log = sidecar.dir.path().join("redis.log");
    let logged = |wanted: &str| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains(wanted).then_some(())
    };
    wait_until(PATIENCE, || logged(READY)).unwrap();
    ask(port, &["SET", "answer", "forty-two"], "+OK\r\n");
    sidecar.client.kill();
    sidecar.nothing_left();
    logged(CLEAN_END).expect("it was not asked to end");

    let mut next = Sidecar::new();
    let data = sidecar.dir.path();
    let id = next.start(&format!(
        "exec redis-server --port {port} --bind 127.0.0.1 --dir '{}' --save ''",
        data.display()
    ));
    next.output_with(&id, READY);
    ask(port, &["GET", "answer"], "$9\r\nforty-two\r\n");
}
