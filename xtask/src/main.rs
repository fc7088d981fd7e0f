//! The project's own commands, each with what it needs and nothing by hand.

mod ci;
mod cross;
mod dependencies;
mod interop;
mod run;
mod setup;
mod soak;

use std::env;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

commands
  setup         installs what the tests need, as far as it is missing
  test          setup, then all tests: cargo's, and those with clients of other makers
  interop       only those with clients of other makers, against the release build
  soak          long tests; [--seed N] [--seconds N]
  dependencies  looks at the licence and the source of each dependency
  ci            everything that must hold before a change is merged
  cross         builds and tests for other systems; see `cargo xtask cross --help`
";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<_> = args.collect();
    if command == "cross" {
        return cross::main(rest);
    }
    if matches!(&*command, "-h" | "--help" | "help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if command == "soak" {
        return report(&command, soak::main(&rest));
    }
    let task: fn() -> run::Result<()> = match &*command {
        "setup" => setup::main,
        "test" => ci::test,
        "interop" => interop::main,
        "dependencies" => dependencies::main,
        "ci" => ci::main,
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    if let Some(word) = rest.first() {
        eprintln!("xtask {command}: there is no argument `{word}`");
        return ExitCode::from(2);
    }
    report(&command, task())
}

fn report(command: &str, done: run::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {command}: {error}");
            ExitCode::FAILURE
        }
    }
}
