//! Zig: a linker for macOS and musl that brings the libraries of those systems along.
//!
//! `cargo-zigbuild` translates between rustc and it. Both come from `PyPI`: no package of Debian
//! has them, and they need nothing of it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Result, Task, say, sh};

const PACKAGES: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// Where the programs are, below `home`.
pub(super) fn bin(home: &Path) -> PathBuf {
    home.join("zig").join("bin")
}

/// Whether Python can make the environment that [`install`] wants.
pub(super) fn python_is_complete() -> bool {
    sh::succeeds(Command::new("python3").args(["-c", "import ensurepip"]), "")
}

pub(super) fn install(home: &Path) -> Result<()> {
    let environment = home.join("zig");
    // Written last, so it also says that what it names is complete. Asking pip takes 0.4 s.
    let stamp = environment.join("xtask-installed");
    let packages = PACKAGES.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == packages) {
        return Ok(());
    }
    say(&format!("installing {}", PACKAGES.join(" and ")));
    sh::quietly(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment),
    )?;
    sh::quietly(
        Command::new(bin(home).join("pip"))
            .args(["install", "--quiet", "--only-binary=:all:"])
            .args(PACKAGES),
    )?;
    sh::at(&stamp, fs::write(&stamp, packages))
}

/// Gives rustc what it strips programs for macOS with: `llvm-objcopy` by the name that rustup has
/// for it. It signs them anew, which a plain `strip` does not.
pub(super) fn link_strip(home: &Path) -> Result<()> {
    let name = bin(home).join("rust-objcopy");
    if name.exists() {
        return Ok(());
    }
    sh::quietly(
        Command::new("ln")
            .args(["-s", "/usr/bin/llvm-objcopy"])
            .arg(&name),
    )
}

/// The cargo for a task that links with zig.
pub(super) fn command(program: impl AsRef<OsStr>, task: Task) -> Command {
    let mut cargo = Command::new(program);
    // Only building has a name of its own there.
    cargo.arg(match task.verb() {
        "build" => "zigbuild",
        verb => verb,
    });
    cargo
}
