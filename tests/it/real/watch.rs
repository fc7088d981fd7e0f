//! A watcher that builds what changes.

use std::fs;

use mcp_sidecar::doctor::client::{PATIENCE, wait_until};
use serde_json::json;

use super::{need, stderr_with};
use crate::harness::{Sidecar, tools};

#[test]
fn a_watcher_that_ends_with_its_input() {
    need("node");
    let esbuild = tools().join("node_modules/esbuild/bin/esbuild");
    assert!(
        esbuild.is_file(),
        "{} is missing: run `cargo xtask setup`",
        esbuild.display()
    );
    let mut sidecar = Sidecar::new();
    let (source, built) = ["in.js", "out.js"]
        .map(|file| sidecar.dir.path().join(file))
        .into();
    fs::write(&source, "console.log('first state');\n").unwrap();
    // A wrapper in Node that runs the program itself, as packages have them.
    let id = sidecar.start(&format!(
        "node \"{}\" in.js --bundle --outfile=out.js --watch",
        esbuild.display()
    ));
    stderr_with(
        &mut sidecar,
        &id,
        "build finished, watching for changes...\n",
    );
    assert!(
        fs::read_to_string(&built).unwrap().contains("first state"),
        "the first build is not there"
    );
    // It would have ended if its input had.
    for state in ["second state", "third state"] {
        fs::write(&source, format!("console.log('{state}');\n")).unwrap();
        wait_until(PATIENCE, || {
            let built = fs::read_to_string(&built).unwrap_or_default();
            built.contains(state).then_some(())
        })
        .unwrap_or_else(|| panic!("{state} was not built"));
    }
    sidecar.state(&id, "running");
    sidecar.call("stop", json!({ "id": id }));
    sidecar.state(&id, "killed");
    sidecar.nothing_left();
}
