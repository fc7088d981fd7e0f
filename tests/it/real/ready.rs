//! One call to ready: a dev server of npm, by its line, by its port and by its URL.

use std::fs;

use serde_json::{Value, json};

use super::{free_port, need};
use crate::harness::{Sidecar, tools};

/// A project with a dev server, as `npm create vite` makes one, and the command that starts it.
#[track_caller]
fn project(sidecar: &Sidecar, port: u16) -> String {
    need("npm");
    let vite = tools().join("node_modules/vite/bin/vite.js");
    assert!(
        vite.is_file(),
        "{} is missing: run `cargo xtask setup`",
        vite.display()
    );
    let script = format!("node '{}' --port {port} --strictPort", vite.display());
    let package =
        json!({ "name": "app", "private": true, "type": "module", "scripts": { "dev": script } });
    let dir = sidecar.dir.path();
    fs::write(dir.join("package.json"), package.to_string()).unwrap();
    fs::write(dir.join("index.html"), "<h1>ready</h1>").unwrap();
    "npm run dev".into()
}

/// Starts the dev server and waits; what is served right after that.
#[track_caller]
fn start(sidecar: &mut Sidecar, port: u16, wait: &Value) -> Value {
    let command = project(sidecar, port);
    let started = sidecar.call(
        "start",
        json!({ "command": command, "name": "app", "wait": wait }),
    );
    assert_eq!(started["state"], "running", "{started}");
    started
}

#[track_caller]
fn stop(sidecar: &mut Sidecar) {
    let stopped = sidecar.call("stop", json!({ "id": "app" }));
    assert!(stopped.get("forced").is_none(), "{stopped}");
    sidecar.nothing_left();
}

#[test]
fn a_dev_server_by_its_line_in_colours() {
    let mut sidecar = Sidecar::new();
    let port = free_port();
    let line = format!("Local:.*localhost:{port}");
    let started = start(&mut sidecar, port, &json!(line));
    assert_eq!(started["wait"], "pattern", "{started}");
    let matched = started["match"].as_str().unwrap();
    assert!(
        matched.contains(&format!("http://localhost:{port}/")),
        "{started}"
    );
    // Colours are for people.
    assert!(!started.to_string().contains("\\u001b"), "{started}");
    stop(&mut sidecar);
}

#[test]
fn a_dev_server_by_its_port_and_by_its_url() {
    for wanted in ["port", "url"] {
        let mut sidecar = Sidecar::new();
        let port = free_port();
        let url = format!("http://localhost:{port}/");
        let wait = match wanted {
            "port" => json!({ "port": port }),
            _ => json!({ "url": url }),
        };
        let started = start(&mut sidecar, port, &wait);
        assert_eq!(started["wait"], wanted, "{started}");
        // It serves: the same URL is there at once.
        let again = sidecar.call("output", json!({ "id": "app", "wait": { "url": url } }));
        assert_eq!(again["wait"], "url", "{again}");
        // Another one on the same port is told by whom it is taken, and is not started.
        let command = format!("exec sleep 300; : {port}");
        let sentence = sidecar.fail(
            "start",
            json!({ "command": command, "wait": { "port": port } }),
        );
        assert!(
            sentence.contains(&port.to_string()) && sentence.contains("app (sc-"),
            "{sentence}"
        );
        stop(&mut sidecar);
    }
}

#[test]
fn a_dev_server_that_cannot_start_is_told_at_once() {
    let mut sidecar = Sidecar::new();
    let port = free_port();
    let command = project(&sidecar, port);
    fs::write(
        sidecar.dir.path().join("vite.config.js"),
        "export default nothing;",
    )
    .unwrap();
    let wait = json!({ "port": port, "timeout": 600_000 });
    let ended = sidecar.call("start", json!({ "command": command, "wait": wait }));
    assert_eq!(ended["wait"], "exit", "{ended}");
    assert_eq!(ended["state"], "failed", "{ended}");
    assert_eq!(ended["exitCode"], 1, "{ended}");
    let stderr = ended["stderr"].as_str().unwrap();
    assert!(stderr.contains("nothing is not defined"), "{ended}");
}
