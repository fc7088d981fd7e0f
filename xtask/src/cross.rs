//! `cargo xtask cross`: builds and tests the project for systems other than the one it runs on.
//!
//! On a Debian 12 machine where we are root, everything that is missing is installed first
//! ([`debian`]), so that one command does all from nothing. Everywhere else the toolchain in use
//! must have the target's standard library ([`native`]); what it lacks is said, not installed.
//!
//! Artefacts go to `target/cross`: the two compilers of a Debian machine would otherwise undo each
//! other's work.

mod debian;
mod native;
mod sh;
mod stdlib;
mod target;
mod wine;
mod zig;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use target::{System, Target};

const HELP: &str = "\
usage: cargo xtask cross TASK [TARGET...] [-- CARGO-ARGUMENT...]

tasks
  check   builds and links the debug profile
  clippy  lints all targets of the package; a warning is a failure
  build   builds and links the release profile
  test    runs the tests where that is possible (Windows: wine), else only links them

Without TARGET: Windows and both Macs; for `test` Windows and musl.
On Debian 12 as root, what is missing is installed; XTASK_CROSS_HOME
(/opt/mcp-sidecar-cross) is where that which is no Debian package goes.
";

const CHECKED: [&str; 3] = [
    "x86_64-pc-windows-gnu",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
];
const TESTED: [&str; 2] = ["x86_64-pc-windows-gnu", "x86_64-unknown-linux-musl"];

/// What went wrong, as one sentence for whoever ran the command.
type Result<T> = std::result::Result<T, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Check,
    Clippy,
    Build,
    Test,
}

impl Task {
    fn parse(word: &str) -> Result<Self> {
        match word {
            "check" => Ok(Self::Check),
            "clippy" => Ok(Self::Clippy),
            "build" => Ok(Self::Build),
            "test" => Ok(Self::Test),
            _ => Err(format!("`{word}` is no task: check, clippy, build or test")),
        }
    }

    /// Cargo's subcommand. A mere `cargo check` would miss what only the linker finds.
    fn verb(self) -> &'static str {
        match self {
            Self::Check | Self::Build => "build",
            Self::Clippy => "clippy",
            Self::Test => "test",
        }
    }

    fn links(self) -> bool {
        self != Self::Clippy
    }

    fn default_targets(self) -> &'static [&'static str] {
        if self == Self::Test {
            &TESTED
        } else {
            &CHECKED
        }
    }
}

/// The command line, understood.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    task: Task,
    targets: Vec<Target>,
    extra: Vec<String>,
}

impl Request {
    fn parse(mut args: Vec<String>) -> Result<Self> {
        let extra = match args.iter().position(|arg| arg == "--") {
            Some(at) => args.drain(at..).skip(1).collect(),
            None => Vec::new(),
        };
        let (task, named) = args.split_first().ok_or("which task? See --help")?;
        let task = Task::parse(task)?;
        let targets = if named.is_empty() {
            find_all(task.default_targets())?
        } else {
            find_all(named)?
        };
        Ok(Self {
            task,
            targets,
            extra,
        })
    }
}

fn find_all(names: &[impl AsRef<str>]) -> Result<Vec<Target>> {
    names
        .iter()
        .map(|name| Target::find(name.as_ref()))
        .collect()
}

/// How this machine reaches a target: a cargo that is ready for arguments, and whether what it
/// builds can be run.
struct Route {
    cargo: Command,
    runs: bool,
}

/// The entry: `args` are the words after `cross`.
pub(crate) fn main(args: Vec<String>) -> ExitCode {
    if args.first().is_some_and(|arg| arg == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match Request::parse(args).and_then(|request| run(&request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(request: &Request) -> Result<()> {
    let root = workspace()?;
    let debian = debian::Debian::here();
    if let Some(debian) = &debian {
        debian.prepare(request.task, &request.targets)?;
    }
    let mut failed = Vec::new();
    for &target in &request.targets {
        let start = Instant::now();
        let route = match &debian {
            Some(debian) => debian.route(request.task, target),
            None => native::route(request.task, target),
        };
        let result = route.and_then(|route| compile(request, target, route, &root));
        let seconds = start.elapsed().as_secs();
        match result {
            Ok(done) => say(&format!("{target}: {done} ({seconds} s)")),
            Err(error) => {
                say(&format!("{target}: {error}"));
                failed.push(target.name);
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("failed for {}", failed.join(", ")))
    }
}

/// Completes the command of `route` and runs it. The answer says what has been shown.
fn compile(request: &Request, target: Target, route: Route, root: &Path) -> Result<&'static str> {
    let Route { mut cargo, runs } = route;
    cargo
        .args(["--package", "mcp-sidecar", "--locked", "--target"])
        .arg(target.name)
        .current_dir(root)
        .env("CARGO_TARGET_DIR", root.join("target").join("cross"));
    if target.system == System::MacOs {
        // The oldest that Rust supports on both; zig would assume its own, far newer one.
        cargo.env("MACOSX_DEPLOYMENT_TARGET", "11.0");
    }
    let done = match request.task {
        Task::Check => "builds",
        Task::Clippy => {
            cargo.arg("--all-targets");
            "clean"
        }
        Task::Build => {
            cargo.arg("--release");
            "built"
        }
        Task::Test if runs => "tests pass",
        Task::Test => {
            cargo.arg("--no-run");
            "tests build, but cannot run here"
        }
    };
    cargo.args(&request.extra);
    if request.task == Task::Clippy && !request.extra.iter().any(|arg| arg == "--") {
        cargo.args(["--", "-Dwarnings"]);
    }
    sh::run(&mut cargo)?;
    Ok(done)
}

/// The root of the workspace that the current directory is in.
fn workspace() -> Result<PathBuf> {
    let manifest = sh::output(Command::new("cargo").args([
        "locate-project",
        "--workspace",
        "--message-format=plain",
    ]))?;
    Path::new(manifest.trim())
        .parent()
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("`{manifest}` is in no directory"))
}

fn say(text: &str) {
    eprintln!("cross: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request> {
        Request::parse(line.split_whitespace().map(String::from).collect())
    }

    #[test]
    fn without_targets_ci_s_are_meant() {
        let names = |line| -> Vec<_> {
            let request = parse(line).unwrap();
            request.targets.iter().map(|target| target.name).collect()
        };
        assert_eq!(names("check"), CHECKED);
        assert_eq!(names("test -- one"), TESTED);
    }

    #[test]
    fn what_follows_two_dashes_is_cargo_s() {
        let request = parse("test aarch64-apple-darwin -- --lib -- --nocapture").unwrap();
        assert_eq!(request.targets.len(), 1);
        assert_eq!(request.extra, ["--lib", "--", "--nocapture"]);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(parse("").unwrap_err().contains("--help"));
        assert!(parse("chekc").unwrap_err().contains("chekc"));
        assert!(
            parse("check sparc-sun-solaris")
                .unwrap_err()
                .contains("sparc")
        );
    }
}
