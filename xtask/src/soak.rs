//! `cargo xtask soak`: what takes too long for every change.

use std::ffi::OsStr;

use crate::run::{Result, cargo, run};

/// Minutes of a random life that is compared with a model, and 500 deaths at random moments. With
/// `--seed N` and `--seconds N` it goes another way, or a longer one.
pub fn main(args: &[String]) -> Result<()> {
    let mut tests = cargo();
    for pair in args.chunks(2) {
        match pair {
            [name, value] if name == "--seed" => tests.env("SOAK_SEED", value),
            [name, value] if name == "--seconds" => tests.env("SOAK_SECONDS", value),
            _ => {
                return Err(format!(
                    "there is no argument {}; see `cargo xtask --help`",
                    pair.join(" ")
                ));
            }
        };
    }
    for (name, value) in tests.get_envs() {
        println!(
            "{}={}",
            name.display(),
            value.unwrap_or(OsStr::new("")).display()
        );
    }
    let words = [
        "test",
        "--release",
        "--test",
        "it",
        "soak",
        "--",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ];
    run(tests.args(words))
}
