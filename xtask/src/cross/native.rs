//! The route of an ordinary machine: the toolchain in use, if it has the target.
//!
//! Nothing is installed here. A developer's machine is not ours to change, and `rustup` does it
//! in one command, which is named.

use std::path::Path;
use std::process::Command;

use super::target::{System, Target};
use super::{Result, Route, Task, sh};

pub(super) fn route(task: Task, target: Target) -> Result<Route> {
    if !has_std(target)? {
        return Err(format!(
            "this toolchain has no standard library for it: `rustup target add {target}`"
        ));
    }
    let linker = Linker::of(target);
    if task.links() {
        linker.is_there()?;
    }
    Ok(Route {
        cargo: linker.cargo(task),
        runs: target.is_native(),
    }
    .with_wine(target))
}

fn has_std(target: Target) -> Result<bool> {
    let dir =
        sh::output(Command::new("rustc").args(["--print=target-libdir", "--target", target.name]))?;
    Ok(Path::new(dir.trim()).is_dir())
}

/// What turns objects into a program for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linker {
    /// The one that rustc finds by itself.
    Own,
    Mingw,
    Zig,
}

impl Linker {
    fn of(target: Target) -> Self {
        match target.system {
            // Xcode's links for both kinds of Mac.
            System::Windows | System::MacOs if target.is_of_this_system() => Self::Own,
            // rustup's musl brings its own start objects and libc, and needs only the host's `cc`.
            System::Musl if target.is_native() => Self::Own,
            System::Windows => Self::Mingw,
            System::MacOs | System::Musl => Self::Zig,
        }
    }

    fn is_there(self) -> Result<()> {
        match self {
            Self::Mingw if !sh::exists("x86_64-w64-mingw32-gcc") => {
                Err("its linker `x86_64-w64-mingw32-gcc` (mingw-w64) is missing".to_owned())
            }
            Self::Zig if !sh::exists("cargo-zigbuild") => Err(
                "linking for it needs `cargo-zigbuild` and zig (`pip install cargo-zigbuild` \
                 brings both)"
                    .to_owned(),
            ),
            Self::Own | Self::Mingw | Self::Zig => Ok(()),
        }
    }

    fn cargo(self, task: Task) -> Command {
        if self == Self::Zig && task.links() {
            return super::zig::command("cargo-zigbuild", task);
        }
        let mut cargo = Command::new("cargo");
        cargo.arg(task.verb());
        cargo
    }
}

impl Route {
    /// Lets the user's own wine run what the system itself does not.
    fn with_wine(mut self, target: Target) -> Self {
        if target.system == System::Windows && !self.runs && sh::exists("wine") {
            self.cargo.env(target.variable("RUNNER"), "wine");
            self.runs = true;
        }
        self
    }
}
