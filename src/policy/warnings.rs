//! Entries of an allowlist that allow more than they seem to.
//!
//! The lists are what is common, for a hint to the operator; nothing is decided by them.

use super::{Flavour, Settings};

#[rustfmt::skip]
const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "ash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "busybox", "toybox",
    "cmd", "powershell", "pwsh", "nu", "elvish", "xonsh", "rbash", "rksh", "rzsh", "lksh", "pdksh",
    "osh", "oil",
];

#[rustfmt::skip]
const WRAPPERS: &[&str] = &[
    "env", "xargs", "parallel", "find", "fd", "timeout", "nice", "ionice", "nohup", "setsid",
    "stdbuf", "sudo", "doas", "su", "runuser", "watch", "time", "strace", "ltrace", "gdb", "lldb",
    "script", "expect", "entr", "flock", "chroot", "unshare", "nsenter", "systemd-run", "taskset",
    "setpriv", "start-stop-daemon", "tmux", "screen", "ssh", "socat", "docker", "podman",
    "kubectl", "nodemon", "concurrently", "dotenv", "direnv", "mise", "asdf", "command", "exec",
    "rundll32", "wsl", "forfiles", "start", "coreutils", "pkexec", "prlimit", "setarch", "linux32",
    "linux64", "chrt", "capsh", "setuidgid", "sg", "newgrp", "runcon", "ip", "bwrap", "proot",
    "fakeroot", "firejail", "flatpak", "rlwrap", "unbuffer", "xvfb-run", "dbus-launch",
    "dbus-run-session", "ssh-agent", "nerdctl", "docker-compose", "podman-compose", "lxc", "runc",
    "crun", "machinectl", "cgexec", "numactl", "perf", "valgrind", "rr", "dumb-init", "tini",
    "chpst", "supervisord", "pm2", "ccache", "sccache", "distcc", "watchexec", "hyperfine",
    "torsocks", "proxychains",
];

#[rustfmt::skip]
const INTERPRETERS: &[&str] = &[
    "python", "pypy", "node", "nodejs", "deno", "bun", "ruby", "irb", "perl", "php", "lua",
    "luajit", "tclsh", "wish", "r", "rscript", "julia", "java", "jshell", "kotlin", "scala",
    "groovy", "dotnet", "awk", "gawk", "mawk", "nawk", "ipython", "jupyter", "ts-node", "tsx",
    "erl", "elixir", "iex", "ghci", "runghc", "ocaml", "guile", "racket", "sbcl", "clojure",
    "osascript", "wscript", "cscript", "mshta", "uwsgi", "psh", "qjs",
];

#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    "npm", "npx", "pnpm", "pnpx", "yarn", "corepack", "make", "gmake", "cmake", "ninja", "meson",
    "bazel", "just", "task", "cargo", "go", "rake", "bundle", "gem", "pip", "pipx", "uv", "uvx",
    "poetry", "pdm", "hatch", "tox", "nox", "pytest", "invoke", "mvn", "gradle", "ant", "sbt",
    "mix", "composer", "swift", "zig", "msbuild", "jest", "vitest", "vite", "webpack", "gulp",
    "grunt", "flask", "gunicorn", "uvicorn", "celery", "rails", "turbo", "nx", "lerna", "foreman",
    "bunx", "mvnw", "gradlew", "helm", "terraform", "tofu", "ansible", "ansible-playbook",
    "vagrant", "apt", "apt-get", "dpkg", "nix", "nix-shell", "nix-build", "next", "nuxt", "mocha",
    "astro", "rollup", "parcel", "ng", "expo", "storybook", "cypress", "playwright", "eslint",
    "prettier", "pre-commit", "tilt", "skaffold", "ctest", "bazelisk", "buck2", "scons", "waf",
    "doit", "fab", "rspec", "puma", "unicorn", "rackup", "sidekiq", "phpunit", "symfony", "jekyll",
    "mkdocs", "sphinx-build", "latexmk", "pdflatex", "air",
];

#[rustfmt::skip]
const HELPERS: &[&str] = &[
    "git", "hg", "svn", "tar", "rsync", "scp", "sftp", "zip", "sed", "vi", "vim", "nvim", "view",
    "ex", "ed", "emacs", "nano", "less", "more", "man", "sort", "split", "tcpdump", "sqlite3",
    "psql", "mysql", "nc", "ncat", "openssl", "gcc", "g++", "cc", "clang", "ld", "rg", "rustc",
    "curl", "wget", "tee", "cp", "mv", "dd", "install", "ln", "crontab", "at", "systemctl",
    "redis-server", "redis-sentinel", "postgres", "mysqld", "mariadbd", "nginx", "httpd",
    "apache2", "caddy", "haproxy", "sshd", "gh", "chrome", "chromium", "google-chrome", "electron",
    "code",
];

/// A line for each entry that is worth one.
pub(super) fn of(settings: &Settings) -> Vec<String> {
    let executables = settings.executables.iter().filter_map(|entry| {
        if let Some(why) = why(&entry.text) {
            return Some(format!(
                "SIDECAR_ALLOWED_EXECUTABLES: {:?} {why}. SIDECAR_ALLOWED_COMMANDS can allow single commands of it",
                entry.text
            ));
        }
        let slip = slip(&entry.text)?;
        Some(format!("SIDECAR_ALLOWED_EXECUTABLES: {:?} {slip}", entry.text))
    });
    let commands = settings.commands.iter().filter_map(|shape| {
        let why = why(&shape.program.text)?;
        if shape.has_stars() {
            Some(format!(
                "SIDECAR_ALLOWED_COMMANDS: {:?} lets the caller choose arguments, options among them, and {:?} {why}",
                shape.text, shape.program.text
            ))
        } else if settings.directories.is_empty() {
            // The words are fixed, but what they name is looked for where the caller says.
            Some(format!(
                "SIDECAR_ALLOWED_COMMANDS: {:?} may act on files of its directory, and the caller chooses the \
                 directory: set SIDECAR_ALLOWED_DIRS",
                shape.text
            ))
        } else {
            None
        }
    });
    executables.chain(commands).collect()
}

/// Why an entry hardly means what it seems to, as the rest of a sentence.
fn slip(entry: &str) -> Option<&'static str> {
    if entry.contains(['"', '\'']) {
        Some("names a program with quotes in its name; leave them out")
    } else if entry.starts_with('~') {
        Some("allows nothing, since ~ is not expanded; give the whole path")
    } else if matches!(Flavour::HERE.base(entry), "" | "." | "..") {
        Some("names a directory, so it allows nothing")
    } else if entry.contains([' ', '\t', '*', ';', '|', '&', '<', '>', '$', '`', '(', ')']) {
        Some(
            "is taken for the name of one program; a command with arguments belongs in SIDECAR_ALLOWED_COMMANDS",
        )
    } else {
        None
    }
}

/// What a program does beyond its name, as the rest of a sentence.
fn why(entry: &str) -> Option<&'static str> {
    let base = Flavour::Windows.base(entry).to_ascii_lowercase();
    let base = [".exe", ".com", ".cmd", ".bat"]
        .iter()
        .find_map(|extension| base.strip_suffix(extension))
        .unwrap_or(&base);
    let plain = plain(base);
    // The loader runs the program that it is given.
    if base.starts_with("ld-linux") || base.starts_with("ld-musl") || base == "ld.so" {
        return Some("starts whatever program its arguments name");
    }
    let is = |list: &[&str]| list.contains(&base) || list.contains(&plain);
    if is(SHELLS) {
        Some("is a shell, so it runs whatever it is given as argument or input")
    } else if is(WRAPPERS) {
        Some("starts whatever program its arguments name")
    } else if is(INTERPRETERS) {
        Some(
            "is an interpreter, so it runs any code that it is given as argument, file or input (`send` too)",
        )
    } else if is(RUNNERS) {
        Some("runs what files of its directory and its arguments say")
    } else if is(HELPERS) {
        Some("has options, settings or commands that start other programs or write any file")
    } else {
        None
    }
}

/// The name without its version: python3.12, python3.13t and python3.12-dbg are python.
fn plain(base: &str) -> &str {
    let base = ["-dbg", "-debug"]
        .iter()
        .find_map(|build| base.strip_suffix(build))
        .unwrap_or(base);
    let abi = base.trim_end_matches(['t', 'd', 'm']);
    let base = if abi.ends_with(|c: char| c.is_ascii_digit()) {
        abi
    } else {
        base
    };
    base.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Executable, Shape};

    fn warnings(executables: &[&str], commands: &[&str], directories: &[&str]) -> Vec<String> {
        of(&Settings {
            executables: executables
                .iter()
                .map(|text| Executable::new(text, Flavour::Unix))
                .collect(),
            commands: commands
                .iter()
                .map(|text| Shape::parse(text, Flavour::Unix).unwrap())
                .collect(),
            directories: directories.iter().map(ToString::to_string).collect(),
            ..Settings::default()
        })
    }

    #[test]
    fn each_entry_that_means_more_has_one_line() {
        for entry in [
            "sh",
            "/bin/bash",
            "env",
            "python",
            "python3",
            "/usr/bin/python3.12",
            "Node.exe",
            "npm",
            "git",
            "find",
            "xargs",
            "make",
            r"C:\tools\npm.cmd",
            "perl5.36",
            "sqlite3",
            "g++-13",
            "python3.13t",
            "python3.12-dbg",
            "/lib64/ld-linux-x86-64.so.2",
            "redis-server",
            "./gradlew",
            "docker-compose",
            "pkexec",
            "rbash",
            "apt-get",
            "\"echo\"",
            "~/x",
            ".",
            "/",
            "./",
            "git;id",
            "$HOME/x",
        ] {
            let lines = warnings(&[entry], &[], &[]);
            assert!(
                lines.len() == 1 && lines[0].contains(&format!("{entry:?}")),
                "{lines:?}"
            );
        }
        assert!(warnings(&["echo", "memcached", "./server", "md5sum"], &[], &[]).is_empty());
        assert!(warnings(&["git status"], &[], &[])[0].contains("SIDECAR_ALLOWED_COMMANDS"));
    }

    #[test]
    fn a_fixed_command_is_as_safe_as_its_directory() {
        assert!(warnings(&[], &["npm run dev"], &[])[0].contains("SIDECAR_ALLOWED_DIRS"));
        assert!(warnings(&[], &["npm run dev"], &["/srv"]).is_empty());
        assert!(warnings(&[], &["npm run *"], &["/srv"])[0].contains("options"));
        assert!(warnings(&[], &["memcached **"], &[]).is_empty());
    }
}
