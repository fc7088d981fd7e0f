//! The policy of this system: its files and the server's own surroundings.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::{FileSystem, Flavour, Policy, Settings, World};
use crate::guard::protocol::Identity;
use crate::platform;

/// The files of this system.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl FileSystem for Disk {
    fn canonical(&self, path: &str) -> io::Result<String> {
        let path = std::fs::canonicalize(path)?;
        // What cannot be written down cannot be compared either.
        let path = path.to_str().ok_or(io::ErrorKind::InvalidData)?;
        Ok(plain(path))
    }

    fn locate(&self, path: &str) -> io::Result<(String, Option<Identity>)> {
        let (path, identity) = platform::locate(Path::new(path))?;
        let path = path.to_str().ok_or(io::ErrorKind::InvalidData)?;
        Ok((plain(path), identity))
    }

    fn is_executable(&self, path: &str) -> io::Result<bool> {
        platform::is_executable(Path::new(path))
    }

    fn identity(&self, path: &str) -> io::Result<Option<Identity>> {
        platform::identity(Path::new(path))
    }
}

impl Policy {
    /// Of this server, as it is now.
    pub fn here(settings: Settings) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path)
            .filter_map(|directory| directory.to_str().map(str::to_owned))
            .collect::<Vec<_>>();
        let extensions = std::env::var_os("PATHEXT");
        let cwd = std::env::current_dir().unwrap_or_default();
        let cwd = cwd.to_str().unwrap_or_default();
        let extensions = extensions.as_deref().and_then(OsStr::to_str);
        Self::new(
            settings,
            World::new(Flavour::HERE, cwd, path, extensions),
            Box::new(Disk),
        )
    }
}

/// Without the marks that Windows puts before a canonical path: nobody writes them.
fn plain(path: &str) -> String {
    if let Some(share) = path.strip_prefix(r"\\?\UNC\") {
        format!(r"\\{share}")
    } else {
        path.strip_prefix(r"\\?\").unwrap_or(path).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonical_path_is_one_that_people_write() {
        assert_eq!(plain(r"\\?\C:\x"), r"C:\x");
        assert_eq!(plain(r"\\?\UNC\server\share\x"), r"\\server\share\x");
        assert_eq!(plain("/usr/bin"), "/usr/bin");
    }

    #[test]
    fn this_system_knows_its_own_program() {
        let program = std::env::current_exe().unwrap();
        let program = Disk.canonical(program.to_str().unwrap()).unwrap();
        assert!(Disk.is_executable(&program).unwrap());
        assert_eq!(Disk.identity(&program).unwrap().is_some(), cfg!(unix));
        let directory = std::env::temp_dir();
        assert!(!Disk.is_executable(directory.to_str().unwrap()).unwrap());
        assert!(Disk.canonical("/does/not/exist").is_err());
    }
}
