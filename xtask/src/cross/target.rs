//! The systems that the project is built for.

use std::env::consts;
use std::fmt;

use super::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Windows,
    MacOs,
    /// Linux with a libc of its own, linked in: runs on every distribution.
    Musl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    /// As rustc calls it.
    pub(super) name: &'static str,
    pub(super) system: System,
}

const ALL: [Target; 5] = [
    Target::new("x86_64-pc-windows-gnu", System::Windows),
    Target::new("aarch64-apple-darwin", System::MacOs),
    Target::new("x86_64-apple-darwin", System::MacOs),
    Target::new("x86_64-unknown-linux-musl", System::Musl),
    Target::new("aarch64-unknown-linux-musl", System::Musl),
];

impl Target {
    const fn new(name: &'static str, system: System) -> Self {
        Self { name, system }
    }

    pub(super) fn find(name: &str) -> Result<Self> {
        ALL.into_iter()
            .find(|target| target.name == name)
            .ok_or_else(|| {
                let known = ALL.map(|target| target.name).join(", ");
                format!("`{name}` is no target of this project: {known}")
            })
    }

    /// The environment variable by which cargo takes a setting for this target alone.
    pub(super) fn variable(self, setting: &str) -> String {
        let name = self.name.to_uppercase().replace('-', "_");
        format!("CARGO_TARGET_{name}_{setting}")
    }

    /// Whether this machine's own system runs its programs.
    pub(super) fn is_native(self) -> bool {
        self.is_of_this_system() && self.name.starts_with(consts::ARCH)
    }

    pub(super) fn is_of_this_system(self) -> bool {
        let os = match self.system {
            System::Windows => "windows",
            System::MacOs => "macos",
            System::Musl => "linux",
        };
        os == consts::OS
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_as_cargo_spells_them() {
        assert_eq!(
            ALL[0].variable("LINKER"),
            "CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER"
        );
    }
}
