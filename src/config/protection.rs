//! The lists that say what may be started. Whatever is wrong with one of them ends the server: a
//! list that was half understood would protect half.

use std::ffi::OsString;

use super::Reader;
use crate::policy::{
    Disk, Executable, FileSystem, Flavour, Patterns, Settings, Shape, Variables, list,
};

pub(super) const EXECUTABLES: &str = "SIDECAR_ALLOWED_EXECUTABLES";
pub(super) const COMMANDS: &str = "SIDECAR_ALLOWED_COMMANDS";
pub(super) const DIRS: &str = "SIDECAR_ALLOWED_DIRS";
pub(super) const PATTERNS: &str = "SIDECAR_BLOCKED_PATTERNS";
pub(super) const ENV: &str = "SIDECAR_ALLOWED_ENV";

pub(super) fn read(reader: &mut Reader<impl Fn(&str) -> Option<OsString>>) -> Settings {
    Settings {
        executables: reader.list(EXECUTABLES, "names or paths of programs", |entries| {
            Ok(entries
                .iter()
                .map(|entry| Executable::new(entry, Flavour::HERE))
                .collect())
        }),
        commands: reader.list(COMMANDS, "commands such as npm run dev", |entries| {
            let shape = |entry: &String| Shape::parse(entry, Flavour::HERE);
            entries.iter().map(shape).collect()
        }),
        patterns: reader.list(PATTERNS, "regular expressions", Patterns::new),
        directories: reader.list(DIRS, "existing directories", |entries| {
            entries.iter().map(directory).collect()
        }),
        variables: reader.list(ENV, "variables such as PORT or APP_*", |entries| {
            Variables::new(entries).map(Some)
        }),
    }
}

fn directory(entry: &String) -> Result<String, String> {
    let found = Disk
        .canonical(entry)
        .map_err(|error| format!("{entry:?}: {error}"))?;
    if std::path::Path::new(&found).is_dir() {
        Ok(found)
    } else {
        Err(format!("{entry:?} is no directory"))
    }
}

impl<G: Fn(&str) -> Option<OsString>> Reader<G> {
    /// What the entries of a list mean; nothing, where the list is not set.
    fn list<T: Default>(
        &mut self,
        name: &'static str,
        what: &str,
        read: impl FnOnce(&[String]) -> Result<T, String>,
    ) -> T {
        let Some(value) = self.value(name) else {
            return T::default();
        };
        let list = match value.to_str() {
            None => Err("it is no valid Unicode".into()),
            Some(text) => match list::entries(text).as_slice() {
                [] => Err("it names nothing".into()),
                _ if text.contains('\0') => Err("it holds a NUL character".into()),
                entries => read(entries),
            },
        };
        list.unwrap_or_else(|reason| {
            self.problem(
                name,
                value,
                format!("a comma-separated list of {what}; {reason}"),
            );
            T::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
        Config::from_env(|name| {
            let variable = variables.iter().find(|(key, _)| *key == name);
            variable.map(|(_, value)| value.into())
        })
        .map(|config| config.policy)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn each_list_is_read() {
        let here = std::env::current_dir().unwrap();
        let settings = read(&[
            (EXECUTABLES, " node , ./build.sh,"),
            (COMMANDS, "git status,node server.js --port *"),
            (PATTERNS, r"rm\s+-rf,a{1\,2}"),
            (DIRS, here.to_str().unwrap()),
            (ENV, "PORT, APP_*"),
        ])
        .unwrap();
        assert_eq!(settings.executables.len(), 2);
        assert_eq!(settings.commands.len(), 2);
        let patterns = [r"rm\s+-rf".to_owned(), "a{1,2}".to_owned()];
        assert_eq!(settings.patterns, Patterns::new(&patterns).unwrap());
        assert_eq!(settings.directories.len(), 1);
        assert!(settings.variables.is_some());
        assert!(settings.is_secure());
    }

    #[test]
    fn either_list_of_what_is_allowed_makes_it_secure() {
        assert!(read(&[(EXECUTABLES, "node")]).unwrap().is_secure());
        assert!(read(&[(COMMANDS, "git status")]).unwrap().is_secure());
        assert!(!read(&[(PATTERNS, "rm")]).unwrap().is_secure());
        assert!(!read(&[(DIRS, ".")]).unwrap().is_secure());
    }

    #[test]
    fn a_list_that_would_protect_less_than_it_says_is_refused() {
        let file = std::env::current_exe().unwrap();
        for (name, value, reason) in [
            (EXECUTABLES, " , ", "names nothing"),
            (COMMANDS, ",", "names nothing"),
            (PATTERNS, " ", "names nothing"),
            (DIRS, ",,", "names nothing"),
            (PATTERNS, "ok,([", "unclosed"),
            (PATTERNS, "(a{1000}){1000}", "size limit"),
            (COMMANDS, "git status,a | b", "'|'"),
            (COMMANDS, "* x", "first word"),
            (ENV, ",", "names nothing"),
            (ENV, "PORT,LD_PRELOAD", "LD_PRELOAD"),
            (ENV, "NODE_*", "NODE_OPTIONS"),
            (ENV, "A*B", "at its end"),
            (DIRS, "/does/not/exist", "/does/not/exist"),
            (DIRS, file.to_str().unwrap(), "no directory"),
        ] {
            let problems = read(&[(name, value)]).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(
                problems[0].starts_with(name) && problems[0].contains(reason),
                "{problems:?}"
            );
            assert_eq!(problems[0].lines().count(), 1, "{problems:?}");
        }
    }

    #[test]
    fn every_bad_list_is_told() {
        let problems = read(&[(EXECUTABLES, ","), (PATTERNS, "["), (DIRS, "/none")]);
        assert_eq!(problems.unwrap_err().len(), 3);
    }
}
