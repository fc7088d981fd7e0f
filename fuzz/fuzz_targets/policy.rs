//! Whatever the request, what is permitted is one of the allowed programs, in an allowed directory.
//!
//! The input is lines: the command, the directory, then one variable a line. The command's own line
//! breaks are written as U+2424.

#![no_main]

use std::collections::BTreeMap;
use std::io;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mcp_sidecar::guard::protocol::Identity;
use mcp_sidecar::policy::{
    Executable, FileSystem, Flavour, Patterns, Policy, Request, Settings, Shape, World, list,
};

/// A disk on which everything exists but links, and dots are followed.
#[derive(Debug)]
struct Everything(Flavour);

impl FileSystem for Everything {
    fn canonical(&self, path: &str) -> io::Result<String> {
        assert!(!path.contains('\0'), "a NUL reaches the system");
        let (separator, root, rest) = match (self.0, path.get(..2)) {
            (Flavour::Unix, _) => ("/", "", path.to_owned()),
            (Flavour::Windows, Some(drive)) if drive.ends_with(':') => {
                ("\\", drive, path[2..].replace('/', "\\"))
            }
            (Flavour::Windows, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        let mut parts = Vec::new();
        for part in rest.split(separator) {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        Ok(format!("{root}{separator}{}", parts.join(separator)))
    }

    fn is_executable(&self, _: &str) -> io::Result<bool> {
        Ok(true)
    }

    fn locate(&self, path: &str) -> io::Result<(String, Option<Identity>)> {
        Ok((self.canonical(path)?, None))
    }

    fn identity(&self, _: &str) -> io::Result<Option<Identity>> {
        Ok(None)
    }
}

fn policy(flavour: Flavour) -> Policy {
    let (cwd, path, executables, roots) = match flavour {
        Flavour::Unix => ("/srv/app", "/usr/bin", "echo,./build.sh,/opt/tool", "/srv"),
        Flavour::Windows => (
            r"C:\srv\app",
            r"C:\bin",
            r"echo,.\build.exe,C:\opt\tool.exe",
            r"C:\srv",
        ),
    };
    let settings = Settings {
        executables: list::entries(executables)
            .iter()
            .map(|entry| Executable::new(entry, flavour))
            .collect(),
        commands: vec![Shape::parse("git log * 'a b' **", flavour).expect("it is a shape")],
        patterns: Patterns::new(&["secret".into(), r"push\s+--force".into()])
            .expect("they are patterns"),
        directories: vec![roots.into()],
        variables: None,
    };
    let world = World::new(flavour, cwd, [path.to_owned(), ".".into()], None);
    Policy::new(settings, world, Box::new(Everything(flavour)))
}

static UNIX: LazyLock<Policy> = LazyLock::new(|| policy(Flavour::Unix));
static WINDOWS: LazyLock<Policy> = LazyLock::new(|| policy(Flavour::Windows));

fuzz_target!(|input: &str| {
    let mut lines = input.split('\n');
    let line = lines.next().unwrap_or_default().replace('\u{2424}', "\n");
    let cwd = lines.next().filter(|cwd| !cwd.is_empty());
    let env: BTreeMap<_, _> = lines.map(|name| (name.to_owned(), None)).collect();
    let request = Request {
        line: &line,
        cwd,
        env: &env,
    };
    for (policy, programs, root) in [
        (
            &*UNIX,
            &[
                "/usr/bin/echo",
                "/usr/bin/git",
                "/srv/app/build.sh",
                "/opt/tool",
            ][..],
            "/srv",
        ),
        (
            &*WINDOWS,
            &[
                r"c:\bin\echo",
                r"c:\bin\git",
                r"c:\srv\app\build",
                r"c:\opt\tool",
            ],
            r"c:\srv",
        ),
    ] {
        let permit = match policy.check(&request) {
            Ok(permit) => permit,
            Err(refusal) => {
                assert!(
                    !refusal.reason.contains('\n') && !refusal.to_string().contains('\n'),
                    "{refusal}"
                );
                continue;
            }
        };
        let program = permit.program().expect("secure mode is on");
        let path = program.path.as_str();
        let plain = path.to_ascii_lowercase();
        let plain = plain
            .strip_suffix(".exe")
            .or(plain.strip_suffix(".com"))
            .unwrap_or(&plain);
        let known = if root.starts_with('/') { path } else { plain };
        assert!(programs.contains(&known), "{path} is permitted");
        if known.ends_with("git") {
            assert!(
                program.args.len() >= 3 && program.args[0] == "log" && program.args[2] == "a b"
            );
        }
        let directory = permit
            .directory()
            .and_then(|path| path.to_str())
            .expect("directories are set");
        assert!(
            directory.eq_ignore_ascii_case(root)
                || directory.starts_with(&format!("{root}/"))
                || directory
                    .to_ascii_lowercase()
                    .starts_with(&format!("{root}\\")),
            "{directory} is permitted"
        );
        let whole = std::iter::once(&program.argv0).chain(&program.args);
        assert!(!line.contains("secret") && !whole.clone().any(|word| word.contains("secret")));
        assert!(!whole.clone().any(|word| word.contains('\0')));
        assert!(!env.contains_key("PATH") && !env.keys().any(|name| name.starts_with("LD_")));
    }
});
