//! Interpreters that read what `send` writes.

use serde_json::json;

use super::{PYTHON, need, stderr_with};
use crate::harness::Sidecar;

#[track_caller]
fn send(sidecar: &mut Sidecar, id: &str, input: &str) {
    sidecar.call("send", json!({ "id": id, "input": input }));
}

#[test]
fn a_python_session() {
    need(PYTHON);
    let mut sidecar = Sidecar::new();
    let id = sidecar.start(&format!("{PYTHON} -i -q -u"));
    // Without a terminal the prompts go to standard error, and end no line.
    let prompts = stderr_with(&mut sidecar, &id, ">>> ");
    assert_eq!(prompts, ">>> ");
    send(&mut sidecar, &id, "1+41");
    sidecar.output_with(&id, "42\n");
    // The empty line that ends a definition must arrive too.
    send(
        &mut sidecar,
        &id,
        "def triple(x):\n    y = x * 3\n    return y\n\n",
    );
    send(&mut sidecar, &id, "triple('ab')");
    sidecar.output_with(&id, "'ababab'\n");
    stderr_with(&mut sidecar, &id, ">>> ... ... ... >>> ");
    send(&mut sidecar, &id, "1/0");
    stderr_with(&mut sidecar, &id, "ZeroDivisionError: division by zero\n");
    // It lives on after that.
    send(&mut sidecar, &id, "print('still', 'here')");
    assert_eq!(
        sidecar.output_with(&id, "still here\n"),
        "42\n'ababab'\nstill here\n"
    );
    send(&mut sidecar, &id, "exit(7)");
    assert_eq!(sidecar.state(&id, "failed")["exitCode"], 7);
    sidecar.nothing_left();
}

#[test]
fn a_node_session() {
    need("node");
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("node -i");
    sidecar.output_with(&id, "\n> ");
    send(&mut sidecar, &id, "1+41");
    sidecar.output_with(&id, "> 42\n> ");
    send(
        &mut sidecar,
        &id,
        "const twice = (x) => {\n  return x + x\n}",
    );
    send(&mut sidecar, &id, "twice('ab')");
    sidecar.output_with(&id, "'abab'\n> ");
    send(&mut sidecar, &id, "null.x");
    sidecar.output_with(&id, "Uncaught TypeError: Cannot read properties of null");
    send(&mut sidecar, &id, ".exit");
    assert_eq!(sidecar.state(&id, "exited")["exitCode"], 0);
    sidecar.nothing_left();
}
