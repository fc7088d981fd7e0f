//! All that must hold, in the order in which a fault is found soonest.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::run::{Result, cargo, root, run, tools};
use crate::{cross, dependencies, interop, setup};

/// `cargo xtask ci`
pub fn main() -> Result<()> {
    step("format", || run(cargo().args(["fmt", "--all", "--check"])))?;
    step("lints", || {
        let lints = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        run(cargo().args(lints))
    })?;
    step("dependencies", dependencies::main)?;
    step("documentation", || {
        run(cargo()
            .args(["doc", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    test()?;
    step("other systems", || {
        // It tells by itself what went wrong.
        if cross::main(vec!["check".into()]) == ExitCode::SUCCESS {
            Ok(())
        } else {
            Err("`cargo xtask cross check` failed".into())
        }
    })
}

/// `cargo xtask test`
pub fn test() -> Result<()> {
    step("setup", setup::main)?;
    step("tests", || {
        run(cargo()
            .args(["test", "--workspace"])
            .env("MCP_SIDECAR_TOOLS", tools()))
    })?;
    step("release build", || {
        run(cargo().args(["build", "--release", "--package", "mcp-sidecar"]))
    })?;
    step("interop tests", interop::main)
}

/// The release build of the server.
pub fn server() -> PathBuf {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let file = format!("mcp-sidecar{}", env::consts::EXE_SUFFIX);
    root().join(target).join("release").join(file)
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("=== {name}");
    let start = Instant::now();
    work().map_err(|error| format!("{name}: {error}"))?;
    println!("=== {name}: done in {} s", start.elapsed().as_secs());
    Ok(())
}
