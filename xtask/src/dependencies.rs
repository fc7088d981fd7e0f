//! `cargo xtask dependencies`: every dependency, on every system, may be used and comes from
//! crates.io.
//!
//! A check of our own, because building `cargo deny` takes longer than all the other checks.

use crate::run::{Result, cargo, output};

/// Licences that ask for no more than their text.
const ALLOWED: [&str; 3] = ["Apache-2.0", "MIT", "Unicode-3.0"];

/// `cargo xtask dependencies`
pub fn main() -> Result<()> {
    let tree = output(
        cargo()
            .args(["tree", "--locked", "--workspace", "--target", "all"])
            .args([
                "--edges",
                "normal,build,dev",
                "--prefix",
                "none",
                "--no-dedupe",
                "--format",
                "{p}|{l}",
            ]),
    )?;
    let mut packages: Vec<_> = tree.lines().filter(|line| !line.is_empty()).collect();
    packages.sort_unstable();
    packages.dedup();
    let problems: Vec<_> = packages.iter().filter_map(|line| problem(line)).collect();
    if problems.is_empty() {
        println!("{} packages are as they should be", packages.len());
        Ok(())
    } else {
        Err(problems.join("; "))
    }
}

/// What is wrong with a package: `name version (where from)|licence`.
fn problem(line: &str) -> Option<String> {
    let (package, licence) = line.split_once('|').unwrap_or((line, ""));
    let mut words = package.split(' ');
    let name = words.next().unwrap_or_default();
    // Cargo tells where a package is from unless that is crates.io.
    let elsewhere = words.any(|word| word.starts_with('(') && word != "(proc-macro)");
    if elsewhere && !["mcp-sidecar", "xtask"].contains(&name) {
        return Some(format!("{package} is not from crates.io"));
    }
    if allowed(licence) {
        None
    } else {
        Some(format!("{package} has the licence \"{licence}\""))
    }
}

/// Whether an SPDX expression can be met with allowed licences only.
fn allowed(expression: &str) -> bool {
    // An older way to write OR.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words) -> bool {
    let mut holds = all(words);
    while words.next_if_eq(&"OR").is_some() {
        holds |= all(words);
    }
    holds
}

fn all(words: &mut Words) -> bool {
    let mut holds = one(words);
    while words.next_if_eq(&"AND").is_some() {
        holds &= one(words);
    }
    holds
}

fn one(words: &mut Words) -> bool {
    let holds = match words.next() {
        Some("(") => any(words) & words.next().is_some_and(|word| word == ")"),
        Some(licence) => ALLOWED.contains(&licence),
        None => false,
    };
    // An exception only adds to what is allowed.
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_understood() {
        for yes in [
            "MIT",
            "GPL-3.0-only OR MIT",
            "(MIT OR GPL-3.0-only) AND Unicode-3.0",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(allowed(yes), "{yes}");
        }
        for no in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "MIT MIT",
            "(MIT",
        ] {
            assert!(!allowed(no), "{no}");
        }
    }

    #[test]
    fn sources_are_understood() {
        assert_eq!(problem("serde_derive v1.0.2 (proc-macro)|MIT"), None);
        assert_eq!(problem("xtask v0.0.0 (/home/me/xtask)|MIT"), None);
        assert!(problem("other v1.0.0 (https://git.example/other#1)|MIT").is_some());
        assert!(problem("other v1.0.0|AGPL-3.0-only").is_some());
    }
}
