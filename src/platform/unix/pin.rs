//! What a leader must find as it was when the server looked: its directory and its program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Stat, fstat};

use super::system;
use crate::guard::protocol::{Identity, Pin, Spec};

/// Where a directory is, without links, and which one it is. Both are of one descriptor: nobody
/// can put another one in its place between two looks.
pub fn locate(path: &Path) -> io::Result<(PathBuf, Option<Identity>)> {
    let directory = system::open_directory(path)?;
    let identity = identity_of(&fstat(&directory)?);
    if let Some(place) = system::place(&directory) {
        return Ok((place, Some(identity)));
    }
    // Without a system that tells, by two looks that must agree.
    let place = std::fs::canonicalize(path)?;
    if super::identity(&place)? == Some(identity) {
        Ok((place, Some(identity)))
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// What a spec says that a path must still be.
pub(in crate::platform) fn of<'a>(spec: &'a Spec, path: &OsStr) -> Option<&'a Pin> {
    spec.pins.iter().find(|pin| pin.path == path)
}

/// Lets a leader begin only in the directory and as the program that were looked at: it enters the
/// one by its descriptor, and looks at the other last of all. Call it after everything else that
/// the leader is to do.
pub(in crate::platform) fn hold(command: &mut Command, spec: &Spec) -> io::Result<()> {
    let directory = match spec.cwd.as_ref().and_then(|cwd| of(spec, cwd)) {
        None => None,
        Some(pin) => {
            let directory = system::open_directory(pin.path.as_ref())?;
            if identity_of(&fstat(&directory)?) != pin.identity {
                return Err(replaced());
            }
            Some(directory)
        }
    };
    let program = match of(spec, &spec.program) {
        None => None,
        Some(pin) => Some((CString::new(pin.path.as_bytes())?, pin.identity)),
    };
    // SAFETY: the closure only makes system calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if let Some(directory) = &directory {
                rustix::process::fchdir(directory)?;
            }
            match &program {
                Some((path, identity)) if identity_of(&rustix::fs::stat(path)?) != *identity => {
                    Err(replaced())
                }
                _ => Ok(()),
            }
        });
    }
    Ok(())
}

/// What is looked at by the wrong name. The number alone gets from a leader to its guard.
fn replaced() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

fn identity_of(stat: &Stat) -> Identity {
    Identity {
        device: system::device(stat),
        inode: stat.st_ino,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_where_its_links_lead() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        let identity = super::super::identity(&real).unwrap();
        for path in [&real, &link, &link.join("../real/.")] {
            assert_eq!(locate(path).unwrap(), (real.clone(), identity));
        }
        std::fs::write(dir.path().join("file"), "").unwrap();
        for path in ["file", "none"] {
            locate(&dir.path().join(path)).unwrap_err();
        }
    }
}
