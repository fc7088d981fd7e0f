//! The route of a Debian 12 machine where we are root: a container or a machine for builds.
//!
//! Its compilers for the web browsers are recent ones, and with their sources they reach any
//! target; no download from rust-lang.org is needed.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::sh::at;
use super::target::{System, Target};
use super::{Result, Route, Task, say, sh, stdlib, wine, zig};

pub(super) const CARGO: &str = "/usr/bin/cargo";
pub(super) const RUSTC: &str = "/usr/bin/rustc";

pub(super) struct Debian {
    home: PathBuf,
}

impl Debian {
    /// This machine, if it is one of those.
    pub(super) fn here() -> Option<Self> {
        let home = env::var_os("XTASK_CROSS_HOME");
        let home = home.map_or_else(|| "/opt/mcp-sidecar-cross".into(), PathBuf::from);
        (is_bookworm() && is_root()).then_some(Self { home })
    }

    /// Installs what `task` needs for `targets` and is not there yet.
    pub(super) fn prepare(&self, task: Task, targets: &[Target]) -> Result<()> {
        at(&self.home, fs::create_dir_all(&self.home))?;
        let lock = self.home.join("lock");
        // Held to the end: two runs at once must not build in the same place.
        let file = at(&lock, File::create(&lock))?;
        at(&lock, file.lock())?;

        install_packages(&packages(task, targets))?;
        if targets.iter().any(|&target| links_by_zig(task, target)) {
            zig::install(&self.home)?;
        }
        if targets.iter().any(|&target| strips_by_llvm(task, target)) {
            zig::link_strip(&self.home)?;
        }
        stdlib::install(&self.home, targets)?;
        if targets.iter().any(|&target| runs_in_wine(task, target)) {
            wine::install(&self.home)?;
        }
        Ok(())
    }

    pub(super) fn route(&self, task: Task, target: Target) -> Result<Route> {
        let mut cargo = if links_by_zig(task, target) {
            clean(zig::command(
                zig::bin(&self.home).join("cargo-zigbuild"),
                task,
            ))
        } else {
            let mut cargo = clean(Command::new(CARGO));
            cargo.arg(task.verb());
            cargo
        };
        let mut flags = stdlib::flag(target)?;
        match target.system {
            System::Windows => {
                cargo.env(target.variable("LINKER"), "x86_64-w64-mingw32-gcc");
                cargo.env(target.variable("RUNNER"), "wine");
                wine::environment(&mut cargo, &self.home);
            }
            // Start objects and libc are zig's; rustc would look for those of rustup.
            System::Musl => flags.push_str(" -Clink-self-contained=no"),
            System::MacOs => {}
        }
        cargo
            .env(target.variable("RUSTFLAGS"), flags)
            .env("PATH", self.path()?);
        Ok(Route {
            cargo,
            runs: target.is_native() || target.system == System::Windows,
        })
    }

    /// A search path by which cargo and its helpers find each other, not those of rustup.
    fn path(&self) -> Result<std::ffi::OsString> {
        let first = [zig::bin(&self.home), "/usr/bin".into(), "/bin".into()];
        let rest = env::var_os("PATH").unwrap_or_default();
        env::join_paths(first.into_iter().chain(env::split_paths(&rest)))
            .map_err(|error| error.to_string())
    }
}

/// `command` without what the cargo that runs us has set for its own compiler.
pub(super) fn clean(mut command: Command) -> Command {
    for name in [
        "CARGO_BUILD_TARGET",
        "CARGO_ENCODED_RUSTFLAGS",
        "LD_LIBRARY_PATH",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
    ] {
        command.env_remove(name);
    }
    command
        .env("CARGO", CARGO)
        .env("RUSTC", RUSTC)
        .env("RUSTDOC", "/usr/bin/rustdoc");
    command
}

fn links_by_zig(task: Task, target: Target) -> bool {
    task.links() && target.system != System::Windows
}

fn strips_by_llvm(task: Task, target: Target) -> bool {
    task == Task::Build && target.system == System::MacOs
}

fn runs_in_wine(task: Task, target: Target) -> bool {
    task == Task::Test && target.system == System::Windows
}

fn packages(task: Task, targets: &[Target]) -> Vec<&'static str> {
    let any =
        |condition: fn(Task, Target) -> bool| targets.iter().any(|&target| condition(task, target));
    let mut packages = vec!["rustc-web", "cargo-web", "rust-web-src"];
    if task == Task::Clippy {
        packages.push("rust-web-clippy");
    }
    if any(|task, target| task.links() && target.system == System::Windows) {
        packages.push("gcc-mingw-w64-x86-64-win32");
    }
    if any(runs_in_wine) {
        packages.extend(["wine", "wine64"]);
    }
    if any(strips_by_llvm) {
        packages.push("llvm");
    }
    if any(links_by_zig) && !zig::python_is_complete() {
        packages.push("python3-venv");
    }
    packages
}

fn install_packages(packages: &[&str]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.iter().map(|name| **name).collect::<Vec<_>>();
    say(&format!("installing {}", names.join(", ")));
    // The compiler that is recent enough is one of Debian's security updates.
    sh::quietly(Command::new("apt-get").args(["update", "-qq"]))?;
    sh::quietly(
        Command::new("apt-get")
            .args(["install", "-qq", "--yes", "--no-install-recommends"])
            .args(names)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
}

fn is_installed(package: &str) -> bool {
    let status = sh::output(Command::new("dpkg-query").args([
        "--show",
        "--showformat=${db:Status-Status}",
        package,
    ]));
    status.is_ok_and(|status| status == "installed")
}

fn is_bookworm() -> bool {
    let release = fs::read_to_string(Path::new("/etc/os-release")).unwrap_or_default();
    env::consts::ARCH == "x86_64"
        && ["ID=debian", "VERSION_ID=\"12\""]
            .iter()
            .all(|line| release.lines().any(|have| have == *line))
}

fn is_root() -> bool {
    sh::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}
