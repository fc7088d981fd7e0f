//! The standard library for a target, built from Debian's sources of it.
//!
//! Debian has the compiler and the sources, but not the library for other systems. It is built
//! once and put where rustc looks, so that builds of the project are ordinary ones: with
//! `-Zbuild-std` they would need `RUSTC_BOOTSTRAP`, by which build scripts of dependencies take
//! the compiler for a nightly one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use super::debian::{CARGO, RUSTC, clean};
use super::sh::at;
use super::target::{System, Target};
use super::{Result, say, sh};

const RUSTLIB: &str = "/usr/lib/rustlib";

const MANIFEST: &str = r#"
[package]
name = "nothing"
edition = "2024"

[profile.release]
debug = false
"#;

/// Objects that rustc names in each link for Windows, and that are no part of any crate.
const WINDOWS_OBJECTS: [&str; 2] = ["rsbegin", "rsend"];

fn dir(target: Target) -> PathBuf {
    Path::new(RUSTLIB).join(target.name)
}

/// Tells cargo by a flag which build of the library is there. Without it, artefacts that belong
/// to an earlier one pass for fresh, and then rustc cannot find their crates.
pub(super) fn flag(target: Target) -> Result<String> {
    let lib = dir(target).join("lib");
    let built = at(&lib, fs::metadata(&lib).and_then(|lib| lib.modified()))?;
    let age = built.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(format!("-Cmetadata=std{}", age.as_nanos()))
}

/// Builds the library for those of `targets` that have none, in one go.
pub(super) fn install(home: &Path, targets: &[Target]) -> Result<()> {
    let mut missing = Vec::new();
    for &target in targets {
        if !is_there(home, target) {
            missing.push(target);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|target| target.name).collect();
    say(&format!("building std for {}", names.join(", ")));
    let package = home.join("std");
    build(&package, &missing)?;
    for target in missing {
        place(&package, target)?;
    }
    at(&package, fs::remove_dir_all(&package))
}

/// Asks the compiler itself: so a library of another version counts as none, and one that
/// somebody else has put there is as good as ours.
fn is_there(home: &Path, target: Target) -> bool {
    let objects = target.system != System::Windows
        || WINDOWS_OBJECTS
            .iter()
            .all(|object| dir(target).join(format!("lib/{object}.o")).is_file());
    objects
        && sh::succeeds(
            clean(Command::new(RUSTC))
                .args(["--crate-type=lib", "--emit=metadata", "--target"])
                .arg(target.name)
                .arg("-o")
                .arg(home.join("probe.rmeta"))
                .arg("-")
                .env("RUSTC_BOOTSTRAP", "1"),
            "#![feature(test)] extern crate test;",
        )
}

/// Builds a crate with nothing in it, for the sake of what it depends on.
fn build(package: &Path, targets: &[Target]) -> Result<()> {
    let source = package.join("src");
    at(&source, fs::create_dir_all(&source))?;
    let manifest = package.join("Cargo.toml");
    at(&manifest, fs::write(&manifest, MANIFEST))?;
    let lib = source.join("lib.rs");
    at(&lib, fs::write(&lib, "#![no_std]\n"))?;

    let mut cargo = clean(Command::new(CARGO));
    cargo
        .args(["build", "--quiet", "--release"])
        .arg("-Zbuild-std=std,panic_unwind,test")
        .current_dir(package)
        .env("RUSTC_BOOTSTRAP", "1")
        // Lets the project's link-time optimisation reach into it.
        .env("RUSTFLAGS", "-Cembed-bitcode=yes")
        .env("CARGO_TARGET_DIR", package.join("target"));
    for target in targets {
        cargo.args(["--target", target.name]);
    }
    sh::run(&mut cargo)
}

/// Puts what [`build`] has made for a target to where rustc looks. It appears there whole: an
/// interrupted copy would look complete to rustc.
fn place(package: &Path, target: Target) -> Result<()> {
    let new = dir(target).with_extension("new");
    let old = dir(target);
    remove(&new)?;
    let lib = new.join("lib");
    at(&lib, fs::create_dir_all(&lib))?;
    let built = package
        .join("target")
        .join(target.name)
        .join("release/deps");
    for entry in at(&built, fs::read_dir(&built))? {
        let path = at(&built, entry)?.path();
        let is_library = path
            .extension()
            .is_some_and(|extension| extension == "rlib");
        if let Some(name) = path.file_name()
            && is_library
            && !name.to_string_lossy().starts_with("libnothing-")
        {
            at(&path, fs::copy(&path, lib.join(name)))?;
        }
    }
    if target.system == System::Windows {
        compile_objects(target, &lib)?;
    }
    remove(&old)?;
    at(&old, fs::rename(&new, &old))
}

fn compile_objects(target: Target, lib: &Path) -> Result<()> {
    let sources = Path::new(RUSTLIB).join("src/rust/library/rtstartup");
    for object in WINDOWS_OBJECTS {
        sh::quietly(
            clean(Command::new(RUSTC))
                .args(["-O", "--crate-type=lib", "--emit=obj", "--target"])
                .arg(target.name)
                .arg("-o")
                .arg(lib.join(format!("{object}.o")))
                .arg(sources.join(format!("{object}.rs")))
                .env("RUSTC_BOOTSTRAP", "1"),
        )?;
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        at(dir, fs::remove_dir_all(dir))?;
    }
    Ok(())
}
