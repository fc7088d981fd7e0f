//! From a program's word to one file.
//!
//! A word is resolved once, against the server's own `PATH` and directory as they were at its
//! start. What comes out is a canonical path, with links followed: neither the request's `PATH`
//! nor its `cwd` can make another file of it.

use std::fmt;
use std::io;

use super::World;
use super::paths::Flavour;
use super::rule::{Executable, Kind};
use super::windows;
use crate::guard::protocol::Identity;

/// What the policy must know of files.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// The path without links and dots of what exists under this one.
    fn canonical(&self, path: &str) -> io::Result<String>;
    /// Whether this is a file that this user may execute.
    fn is_executable(&self, path: &str) -> io::Result<bool>;
    /// Where a directory is, without links and dots, and which one it is, of one look.
    fn locate(&self, path: &str) -> io::Result<(String, Option<Identity>)>;
    /// Which file this is, where the system can tell.
    fn identity(&self, path: &str) -> io::Result<Option<Identity>>;
}

/// The one file that a word means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Canonical.
    pub(super) path: String,
    /// What the program sees as its own name. Never the caller's choice where that could matter:
    /// programs with many names act on it, others look for their files beside it.
    pub(super) argv0: String,
}

/// Why a word means no file under an entry. The later, the closer it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Miss {
    /// The entry speaks of something else.
    Other,
    /// The name is right, the place is not.
    Planted,
    /// There is no such file.
    Missing,
    /// There is, but it may not be executed.
    NotExecutable,
    /// Only `cmd` could run it.
    NotAProgram,
}

/// The file that this word means under this entry.
pub(super) fn resolve(
    server: &World,
    files: &dyn FileSystem,
    word: &str,
    entry: &Executable,
) -> Result<Found, Miss> {
    let flavour = server.flavour;
    match entry.kind {
        Kind::Name if !entry.has_base(word, flavour) => Err(Miss::Other),
        Kind::Name if flavour.has_separator(word) => in_place(server, files, word, entry),
        Kind::Name => search(server, files, word, entry),
        Kind::Relative if word != entry.text => Err(Miss::Other),
        Kind::Relative => {
            let argv0 = flavour.join(&server.cwd, &entry.text);
            let path = runnable(files, &argv0, flavour)?;
            Ok(Found { path, argv0 })
        }
        Kind::Absolute => exactly(server, files, word, entry),
    }
}

/// A base name, in the directories of the server's `PATH`.
fn search(
    server: &World,
    files: &dyn FileSystem,
    word: &str,
    entry: &Executable,
) -> Result<Found, Miss> {
    let found = first(server, files, &server.path, word, entry)?;
    // As it was written, as from a shell: that is what programs with many names expect.
    Ok(Found {
        argv0: word.to_owned(),
        ..found
    })
}

/// A path whose base name is allowed, if its directory is one of the server's `PATH`.
fn in_place(
    server: &World,
    files: &dyn FileSystem,
    word: &str,
    entry: &Executable,
) -> Result<Found, Miss> {
    let flavour = server.flavour;
    let path = if flavour.is_absolute(word) {
        word.to_owned()
    } else {
        flavour.join(&server.cwd, word)
    };
    let directory = files
        .canonical(flavour.parent(&path))
        .map_err(|_| Miss::Planted)?;
    let known = server.path.iter().find(|known| {
        files
            .canonical(known)
            .is_ok_and(|known| flavour.same(&known, &directory))
    });
    let known = known.ok_or(Miss::Planted)?;
    first(
        server,
        files,
        std::slice::from_ref(known),
        flavour.base(word),
        entry,
    )
}

/// One file, by whichever of its paths, or by its name where `PATH` leads to it.
fn exactly(
    server: &World,
    files: &dyn FileSystem,
    word: &str,
    entry: &Executable,
) -> Result<Found, Miss> {
    let flavour = server.flavour;
    let named = entry.has_base(word, flavour);
    let meant = if flavour.is_absolute(word) {
        files.canonical(word).map_err(|_| ())
    } else if flavour.has_separator(word) || !named {
        Err(())
    } else {
        let any = Executable::new(word, flavour);
        first(server, files, &server.path, word, &any)
            .map(|found| found.path)
            .map_err(|_| ())
    };
    let (Ok(meant), Ok(allowed)) = (meant, files.canonical(&entry.text)) else {
        let same = flavour.same(word, &entry.text);
        return Err(if same { Miss::Missing } else { Miss::Other });
    };
    // A file with many names does other things under another one.
    let by_its_name = named || flavour.same(flavour.base(word), flavour.base(&allowed));
    if !flavour.same(&meant, &allowed) || !by_its_name {
        return Err(Miss::Other);
    }
    Ok(Found {
        path: runnable(files, &allowed, flavour)?,
        argv0: entry.text.clone(),
    })
}

/// The first file of this name that may be executed.
fn first(
    server: &World,
    files: &dyn FileSystem,
    directories: &[String],
    word: &str,
    entry: &Executable,
) -> Result<Found, Miss> {
    let flavour = server.flavour;
    let names = match flavour {
        Flavour::Unix => vec![word.to_owned()],
        Flavour::Windows => windows::candidates(word, &server.extensions),
    };
    let mut miss = Miss::Missing;
    for directory in directories {
        for name in &names {
            let argv0 = flavour.join(directory, name);
            match runnable(files, &argv0, flavour) {
                // The extension that was found need not be the one that is allowed.
                Ok(path) if entry.has_base(name, flavour) => return Ok(Found { path, argv0 }),
                Ok(_) => miss = miss.max(Miss::Planted),
                // `cmd` would run this one, and nothing behind it.
                Err(Miss::NotAProgram) => return Err(Miss::NotAProgram),
                Err(found) => miss = miss.max(found),
            }
        }
    }
    Err(miss)
}

fn runnable(files: &dyn FileSystem, path: &str, flavour: Flavour) -> Result<String, Miss> {
    let path = files.canonical(path).map_err(|_| Miss::Missing)?;
    match files.is_executable(&path) {
        Ok(true) if flavour == Flavour::Windows && !windows::is_program(flavour.base(&path)) => {
            Err(Miss::NotAProgram)
        }
        Ok(true) => Ok(path),
        Ok(false) => Err(Miss::NotExecutable),
        Err(_) => Err(Miss::Missing),
    }
}
