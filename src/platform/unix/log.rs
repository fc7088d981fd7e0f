//! A file that several processes append to.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::platform::not_a_log;

/// Opens a log to append to, and makes it where there is none. A link is not followed, and
/// nothing else than a regular file is a log.
pub fn open_log(path: &Path) -> io::Result<File> {
    // A pipe or a terminal in its place must neither keep us waiting nor become ours.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let log = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => not_a_log(),
            _ => error,
        })?;
    let found = log.metadata()?;
    if found.is_file() && !is_planted(path, &found) {
        Ok(log)
    } else {
        Err(not_a_log())
    }
}

/// The mode of a file that others than its owner may read or write.
pub fn shared_mode(path: &Path) -> Option<u32> {
    const OTHERS: u32 = 0o066;
    let mode = std::fs::symlink_metadata(path).ok()?.mode() & 0o777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Overwrites what is in the middle of a log.
pub fn overwrite(log: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    // Linux appends whatever is written while this flag is set, wherever it was meant to go.
    rustix::fs::fcntl_setfl(log, OFlags::empty())?;
    log.write_all_at(bytes, at)
}

/// Whether somebody else may have put a file there, in a directory that is everybody's.
fn is_planted(path: &Path, found: &Metadata) -> bool {
    const OTHERS_WRITE: u32 = 0o002;
    let foreign = found.uid() != rustix::process::geteuid().as_raw() || found.nlink() > 1;
    let shared = || {
        let directory = path.parent().and_then(|parent| parent.metadata().ok());
        directory.is_none_or(|directory| directory.mode() & OTHERS_WRITE != 0)
    };
    foreign && shared()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_log_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mode = open_log(&path).unwrap().metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(shared_mode(&path), None);
        for mode in [0o640, 0o604, 0o622] {
            let mode_of_file = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&path, mode_of_file).unwrap();
            assert_eq!(shared_mode(&path), Some(mode));
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [link, dangling, pipe, folder] =
            ["link", "dangling", "pipe", "folder"].map(|name| dir.path().join(name));
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        std::os::unix::fs::symlink("nothing", &dangling).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [&link, &dangling, &pipe, Path::new("/dev/null")] {
            let error = open_log(path).unwrap_err();
            assert!(
                error.to_string().contains("regular file"),
                "{path:?}: {error}"
            );
        }
        assert!(open_log(&folder).is_err());
        assert!(!dir.path().join("nothing").exists());
    }

    #[test]
    fn in_a_directory_of_everybody_a_second_name_is_suspicious() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("log"), dir.path().join("other"));
        std::fs::write(&other, "").unwrap();
        std::fs::hard_link(&other, &path).unwrap();
        open_log(&path).unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
        std::fs::set_permissions(dir.path(), everybody).unwrap();
        open_log(&path).unwrap_err();
        std::fs::remove_file(&other).unwrap();
        open_log(&path).unwrap();
    }
}
