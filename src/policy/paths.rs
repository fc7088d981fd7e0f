//! Paths as text, by the rules of the system that is meant, not of the one that this runs on.

/// Whose rules hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Linux and macOS.
    Unix,
    /// Windows.
    Windows,
}

impl Flavour {
    /// Of the system that this was built for.
    pub const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else {
        Self::Unix
    };

    /// Whether a name is more than a base name.
    pub fn has_separator(self, path: &str) -> bool {
        path.contains(|c| self.is_separator(c))
    }

    /// Whether a path means the same file wherever it is used.
    pub fn is_absolute(self, path: &str) -> bool {
        match self {
            Self::Unix => path.starts_with('/'),
            Self::Windows => match path.as_bytes() {
                [drive, b':', b'/' | b'\\', ..] => drive.is_ascii_alphabetic(),
                [b'\\', b'\\', ..] => true,
                _ => false,
            },
        }
    }

    /// What follows the last separator.
    pub fn base(self, path: &str) -> &str {
        path.rsplit(|c| self.is_separator(c)).next().unwrap_or(path)
    }

    /// What stands before the base name, with the separator, so that a root stays one.
    pub fn parent(self, path: &str) -> &str {
        &path[..path.len() - self.base(path).len()]
    }

    /// A path below a directory.
    pub fn join(self, directory: &str, path: &str) -> String {
        let separator = match self {
            Self::Unix => "/",
            Self::Windows => "\\",
        };
        let ends = directory.ends_with(|c| self.is_separator(c));
        format!("{directory}{}{path}", if ends { "" } else { separator })
    }

    /// Whether two names or canonical paths are one. On Windows only ASCII letters are folded:
    /// what else the file system holds for equal must be written as it is stored.
    pub fn same(self, one: &str, other: &str) -> bool {
        match self {
            Self::Unix => one == other,
            Self::Windows => one.eq_ignore_ascii_case(other),
        }
    }

    /// Whether a canonical path is a canonical directory or lies in it, component by component.
    pub fn is_within(self, path: &str, directory: &str) -> bool {
        let mut path = self.components(path);
        self.components(directory)
            .all(|component| path.next().is_some_and(|own| self.same(own, component)))
    }

    fn components(self, path: &str) -> impl Iterator<Item = &str> {
        path.split(move |c| self.is_separator(c))
            .filter(|component| !component.is_empty())
    }

    fn is_separator(self, c: char) -> bool {
        c == '/' || (self == Self::Windows && c == '\\')
    }
}

#[cfg(test)]
mod tests {
    use super::Flavour::{Unix, Windows};

    #[test]
    fn a_path_falls_into_parent_and_base() {
        for (flavour, path, parent, base) in [
            (Unix, "/usr/bin/node", "/usr/bin/", "node"),
            (Unix, "/node", "/", "node"),
            (Unix, "node", "", "node"),
            (Unix, r"a\b", "", r"a\b"),
            (Windows, r"C:\node.exe", r"C:\", "node.exe"),
            (Windows, r"C:/a\b", r"C:/a\", "b"),
        ] {
            assert_eq!((flavour.parent(path), flavour.base(path)), (parent, base));
        }
    }

    #[test]
    fn absolute_is_what_means_one_file() {
        for path in [r"C:\x", "c:/x", r"\\server\share\x"] {
            assert!(Windows.is_absolute(path), "{path}");
        }
        for path in [r"C:x", r"\x", "/x", "x", "C:", ""] {
            assert!(!Windows.is_absolute(path), "{path}");
        }
        assert!(Unix.is_absolute("/x") && !Unix.is_absolute("x") && !Unix.is_absolute("~/x"));
    }

    #[test]
    fn a_directory_is_no_prefix() {
        assert!(Unix.is_within("/srv/app", "/srv/app"));
        assert!(Unix.is_within("/srv/app/x", "/srv/app/"));
        assert!(Unix.is_within("/srv", "/"));
        assert!(!Unix.is_within("/srv/app2", "/srv/app"));
        assert!(!Unix.is_within("/srv", "/srv/app"));
        assert!(!Unix.is_within("/SRV/app", "/srv"));
        assert!(Windows.is_within(r"C:\Srv\App\x", r"c:\srv/app"));
        assert!(!Windows.is_within(r"C:\srv\app.x", r"C:\srv\app"));
    }
}
