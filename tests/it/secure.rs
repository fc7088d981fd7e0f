//! Secure mode, blocked patterns and allowed directories, on the real program.

#![cfg(unix)]

use std::path::Path;
use std::process::Stdio;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::harness::{Sidecar, clean, program};

const EXECUTABLES: &str = "SIDECAR_ALLOWED_EXECUTABLES";
const COMMANDS: &str = "SIDECAR_ALLOWED_COMMANDS";
const DIRS: &str = "SIDECAR_ALLOWED_DIRS";
const PATTERNS: &str = "SIDECAR_BLOCKED_PATTERNS";

/// A program of a test's own.
fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// What a server says that ends at once, and its exit code.
fn ended(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(program());
    let output = clean(&mut command)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), told)
}

#[test]
fn words_reach_the_program_as_they_were_written() {
    let mut sidecar = Sidecar::with(&[(EXECUTABLES, "printf")]);
    let id =
        sidecar.start(r#"printf "<%s>" 'a;b' "c d"e $x "" '$HOME' \"#.replace("$x ", "").as_str());
    assert_eq!(sidecar.output_with(&id, r"<\>"), r"<a;b><c de><><$HOME><\>");
    assert_eq!(sidecar.state(&id, "exited")["exitCode"], 0);
}

#[test]
fn what_is_refused_is_told_and_starts_nothing() {
    let mut sidecar = Sidecar::with(&[(EXECUTABLES, "echo,nosuchprogram"), (PATTERNS, "secret")]);
    for (arguments, told) in [
        (
            json!({ "command": "rm -rf x" }),
            "executable \"rm\" is not in allowed list",
        ),
        (json!({ "command": "echo a | sh" }), "'|'"),
        (json!({ "command": "echo a\ntouch pwned" }), r"'\n'"),
        (json!({ "command": "./echo" }), "PATH"),
        (json!({ "command": "nosuchprogram" }), "no such file"),
        (
            json!({ "command": "echo se'cret'" }),
            "blocked pattern \"secret\"",
        ),
        (
            json!({ "command": "echo", "env": { "LD_PRELOAD": "x" } }),
            "\"LD_PRELOAD\"",
        ),
        (
            json!({ "command": "echo", "env": { "PATH": null } }),
            "\"PATH\"",
        ),
    ] {
        let sentence = sidecar.fail("start", arguments);
        assert!(sentence.contains(told), "{sentence}");
        assert!(sentence.ends_with("Nothing was started"), "{sentence}");
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
    }
    assert_eq!(sidecar.call("list", json!({})), json!([]));
    assert!(sidecar.marked().is_empty());
    let id = sidecar.start("echo allowed");
    sidecar.output_with(&id, "allowed");
}

#[test]
fn a_refusal_is_written_down_whatever_the_command_holds() {
    let mut sidecar = Sidecar::with(&[(EXECUTABLES, "echo"), ("SIDECAR_AUDIT_LOG", "log")]);
    for (line, told) in [
        ("echo a\0b", "NUL"),
        ("echo a\nb", r"\nb"),
        (&"x".repeat(130), "xxx...\""),
    ] {
        let sentence = sidecar.fail("start", json!({ "command": line }));
        assert!(sentence.contains(told), "{sentence}");
    }
    let sentence = sidecar.fail("start", json!({ "command": " " }));
    assert!(
        sentence.contains("empty") && !sentence.contains("shell"),
        "{sentence}"
    );
    let log = std::fs::read_to_string(sidecar.dir.path().join("log/sidecar-audit.jsonl")).unwrap();
    assert_eq!(log.matches("\"event\":\"blocked\"").count(), 3, "{log}");
    assert!(log.contains(r"echo a\u0000b"), "{log}");
}

#[test]
fn neither_path_nor_directory_of_a_request_choose_the_file() {
    let tools = tempfile::tempdir().unwrap();
    script(&tools.path().join("tool"), "echo the right one");
    let path = format!("{}:.:evil:/usr/bin:/bin", tools.path().display());
    let mut sidecar = Sidecar::with(&[(EXECUTABLES, "tool,./build.sh"), ("PATH", &path)]);
    let dir = sidecar.dir.path().to_owned();
    script(&dir.join("build.sh"), "echo built in $PWD");
    for planted in ["tool", "evil/tool", "evil/build.sh"] {
        script(&dir.join(planted), "touch pwned; echo pwned");
    }
    std::os::unix::fs::symlink(tools.path(), dir.join("link")).unwrap();
    for refused in ["./tool", "evil/tool", "./evil/../tool", "evil/build.sh"] {
        sidecar.fail("start", json!({ "command": refused }));
    }
    for allowed in ["tool", "link/tool", "'tool' x"] {
        let started = sidecar.call(
            "start",
            json!({ "command": allowed, "cwd": dir.join("evil") }),
        );
        sidecar.output_with(started["id"].as_str().unwrap(), "the right one");
    }
    let started = sidecar.call("start", json!({ "command": "./build.sh", "cwd": "evil" }));
    sidecar.output_with(started["id"].as_str().unwrap(), "built in");
    assert!(!dir.join("pwned").exists() && !dir.join("evil/pwned").exists());
}

#[test]
fn a_program_sees_the_name_that_was_allowed() {
    let tools = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", tools.path().join("speaker")).unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.path().display());
    let mut sidecar = Sidecar::with(&[(EXECUTABLES, "speaker"), ("PATH", &path)]);
    let id = sidecar.start("speaker -c 'echo I am $0'");
    assert_eq!(sidecar.output_with(&id, "\n"), "I am speaker\n");
}

#[test]
fn a_file_that_is_swapped_after_it_was_checked_does_not_run() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let mut sidecar = Sidecar::with(&[(EXECUTABLES, "./tool")]);
    let dir = sidecar.dir.path().to_owned();
    script(&dir.join("tool"), "echo one");
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                script(&dir.join("other"), "echo other");
                std::fs::rename(dir.join("other"), dir.join("tool")).unwrap();
            }
        });
        // The file is another one every moment, so a start meets a swap very soon.
        let caught = (0..2000).any(|_| {
            match sidecar
                .client
                .call("start", &json!({ "command": "./tool" }))
            {
                Err(sentence) => sentence.contains("was replaced after it was checked"),
                Ok(started) => {
                    sidecar.call("stop", json!({ "id": started["id"] }));
                    false
                }
            }
        });
        done.store(true, Ordering::Relaxed);
        assert!(caught);
    });
}

#[test]
fn a_command_is_allowed_word_by_word() {
    let mut sidecar = Sidecar::with(&[(COMMANDS, r"echo hello *,echo a\,b")]);
    for line in [
        "echo hello you",
        "'echo' \"hello\" ''",
        "echo a,b",
        "/bin/echo hello you",
    ] {
        sidecar.start(line);
    }
    for line in [
        "echo",
        "echo hello",
        "echo hello you all",
        "echo bye you",
        "printf hello x",
    ] {
        let sentence = sidecar.fail("start", json!({ "command": line }));
        assert!(
            sentence.contains("allowed are \"echo hello *\", \"echo a,b\""),
            "{sentence}"
        );
    }
}

#[test]
fn a_process_runs_only_in_an_allowed_directory() {
    let root = tempfile::tempdir().unwrap();
    for name in ["app", "app2", "app/sub"] {
        std::fs::create_dir_all(root.path().join(name)).unwrap();
    }
    let at = |path: &str| root.path().join(path).display().to_string();
    std::os::unix::fs::symlink(at("app2"), at("app/out")).unwrap();
    std::os::unix::fs::symlink(at("app/sub"), at("in")).unwrap();
    // In both modes.
    for more in [(EXECUTABLES, "pwd"), (PATTERNS, "secret")] {
        let mut sidecar = Sidecar::with(&[(DIRS, &at("app")), more]);
        for cwd in ["app2", "app/out", "app/..", "", "in/../../app2"] {
            let sentence = sidecar.fail("start", json!({ "command": "pwd", "cwd": at(cwd) }));
            assert!(
                sentence.contains("is not in an allowed directory"),
                "{sentence}"
            );
        }
        let sentence = sidecar.fail("start", json!({ "command": "pwd" }));
        assert!(sentence.contains("give a cwd in one of"), "{sentence}");
        for (cwd, real) in [("app", "app"), ("app/sub/..", "app"), ("in", "app/sub")] {
            let started = sidecar.call("start", json!({ "command": "pwd", "cwd": at(cwd) }));
            let real = std::fs::canonicalize(at(real)).unwrap();
            sidecar.output_with(
                started["id"].as_str().unwrap(),
                &format!("{}\n", real.display()),
            );
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_directory_that_is_swapped_all_the_time_never_leads_outside() {
    let root = tempfile::tempdir().unwrap();
    for name in ["app/sub", "outside"] {
        std::fs::create_dir_all(root.path().join(name)).unwrap();
    }
    let app = root.path().join("app");
    std::os::unix::fs::symlink(root.path().join("outside"), app.join("link")).unwrap();
    let swap = "import ctypes\nc = ctypes.CDLL(None)\nprint(flush=True)\n\
                while c.renameat2(-100, b'sub', -100, b'link', 2) == 0: pass";
    let mut swapper = std::process::Command::new("python3")
        .args(["-c", swap])
        .current_dir(&app)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(swapper.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let (mut inside, mut refused) = (0, 0);
    for mode in [(EXECUTABLES, "pwd"), (PATTERNS, "secret")] {
        let mut sidecar = Sidecar::with(&[(DIRS, app.to_str().unwrap()), mode]);
        for _ in 0..150 {
            let started = sidecar.client.call(
                "start",
                &json!({ "command": "/bin/pwd", "cwd": app.join("sub"), "wait": { "exit": true } }),
            );
            match started {
                Err(_) => refused += 1,
                Ok(started) => {
                    let place = started["stdout"].as_str().unwrap();
                    assert!(place.contains("/app/"), "{started}");
                    inside += 1;
                }
            }
        }
    }
    assert!(swapper.try_wait().unwrap().is_none(), "nothing was swapped");
    swapper.kill().unwrap();
    swapper.wait().unwrap();
    assert!(inside > 0 && refused > 0, "{inside} {refused}");
}

#[test]
fn what_is_outside_is_not_told_and_is_written_down() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("app")).unwrap();
    std::fs::write(root.path().join("file"), "").unwrap();
    let at = |path: &str| root.path().join(path).display().to_string();
    let mut sidecar = Sidecar::with(&[(DIRS, &at("app")), ("SIDECAR_AUDIT_LOG", &at("log"))]);
    let sentences = ["file", "none", "app/../log"].map(|cwd| {
        let sentence = sidecar.fail("start", json!({ "command": "pwd", "cwd": at(cwd) }));
        sentence.replace(cwd, "X")
    });
    assert!(
        sentences.iter().all(|sentence| *sentence == sentences[0]),
        "{sentences:?}"
    );
    let log = std::fs::read_to_string(root.path().join("log/sidecar-audit.jsonl")).unwrap();
    assert_eq!(log.matches("\"event\":\"blocked\"").count(), 3, "{log}");
}

#[test]
fn patterns_hold_in_a_shell() {
    let mut sidecar = Sidecar::with(&[(PATTERNS, r"push\s+--force,a{2\,3}b")]);
    for line in [
        "git push --force",
        "true; git pu''sh  \"--force\"",
        "git push \\\n--force",
        "echo aab",
    ] {
        let sentence = sidecar.fail("start", json!({ "command": line }));
        assert!(sentence.contains("matches blocked pattern"), "{sentence}");
    }
    let id = sidecar.start("echo a b | cat; echo $((1 + 1))");
    sidecar.output_with(&id, "2");
}

#[test]
fn what_protects_less_than_it_says_does_not_start() {
    for (name, value) in [
        (EXECUTABLES, " , "),
        (PATTERNS, "ok,(["),
        (DIRS, "/none/such"),
        (COMMANDS, "a | b"),
    ] {
        let (code, told) = ended(&[(name, value)]);
        assert_eq!(code, Some(2));
        assert!(told.contains(name) && told.lines().count() == 1, "{told}");
    }
    let (_, told) = ended(&[(EXECUTABLES, ","), (PATTERNS, "["), (COMMANDS, "'")]);
    assert_eq!(told.lines().count(), 3, "{told}");
}

#[test]
fn an_operator_is_warned_of_what_allows_everything() {
    let (code, told) = ended(&[
        (EXECUTABLES, "echo,python3,sh"),
        (COMMANDS, "npm run dev,git *"),
    ]);
    assert_eq!(code, Some(0));
    assert_eq!(told.lines().count(), 4, "{told}");
    for (line, name) in told.lines().zip(["python3", "sh", "npm run dev", "git *"]) {
        assert!(
            line.contains("WARN") && line.contains(&format!("{name:?}")),
            "{line}"
        );
    }
    let variables = [(EXECUTABLES, "echo,python3"), ("SIDECAR_LOG", "error")];
    assert_eq!(ended(&variables), (Some(0), String::new()));
}

#[test]
fn a_protection_that_is_not_there_is_told() {
    let (code, told) = ended(&[
        (DIRS, ""),
        ("SIDECAR_ALLOWED_EXECUTABLE", "echo"),
        ("sidecar_allowed_dirs", "/"),
    ]);
    assert_eq!(code, Some(0));
    assert_eq!(told.lines().count(), 3, "{told}");
    for part in [
        "is set but empty",
        "known is SIDECAR_ALLOWED_EXECUTABLES",
        "known is SIDECAR_ALLOWED_DIRS",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let mut command = std::process::Command::new(program());
    let output = clean(&mut command)
        .arg("doctor")
        .env(EXECUTABLES, "")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.contains("warning: SIDECAR_ALLOWED_EXECUTABLES is set but empty"),
        "{told}"
    );
}

#[test]
fn variables_are_those_that_are_listed() {
    let mut sidecar = Sidecar::with(&[
        (EXECUTABLES, "printenv"),
        ("SIDECAR_ALLOWED_ENV", "PORT,APP_*"),
    ]);
    let start = |name: &str| json!({ "command": "printenv APP_CONFIG", "env": { name: "value" }, "wait": { "exit": true } });
    let started = sidecar.call("start", start("APP_CONFIG"));
    assert_eq!(started["stdout"], "value\n", "{started}");
    let sentence = sidecar.fail("start", start("HOST"));
    assert!(
        sentence.contains("\"HOST\"") && sentence.contains("allowed are \"PORT\", \"APP_*\""),
        "{sentence}"
    );
    let (code, told) = ended(&[(EXECUTABLES, "echo"), ("SIDECAR_ALLOWED_ENV", "PORT,LD_*")]);
    assert_eq!(code, Some(2));
    assert!(
        told.lines().count() == 1 && told.contains("\"LD_*\" would allow"),
        "{told}"
    );
}

#[test]
fn the_doctor_passes_in_secure_mode_and_warns() {
    let mut command = std::process::Command::new(program());
    let output = clean(&mut command)
        .arg("doctor")
        .env(EXECUTABLES, "node")
        .env(PATTERNS, "echo")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("secure mode refuses what is not allowed"),
        "{told}"
    );
    assert!(
        told.contains("warning: SIDECAR_ALLOWED_EXECUTABLES: \"node\""),
        "{told}"
    );
}

/// Lines made of what has broken such gates elsewhere.
fn hostile_line() -> impl Strategy<Value = String> {
    let pieces = [
        "true",
        "./true",
        "evil/",
        "sh -c ",
        "touch pwned",
        " ",
        "\n",
        "'",
        "\"",
        ";",
        "|",
        "&&",
        "$(",
        ")",
        "`",
        "\\",
        "../",
        "/bin/",
        "é",
        "\u{2028}",
        "{,}",
        "-",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..8)
        .prop_map(|pieces| pieces.concat())
}

#[test]
fn what_is_refused_never_reaches_a_spawn() {
    let mut sidecar = Sidecar::with(&[(EXECUTABLES, "true"), ("SIDECAR_MAX_PROCESSES", "1000")]);
    let dir = sidecar.dir.path().to_owned();
    for planted in ["true", "evil/true", "evil/sh"] {
        script(
            &dir.join(planted),
            &format!("touch {}/pwned", dir.display()),
        );
    }
    let mut runner = TestRunner::deterministic();
    let mut started = 0;
    for _ in 0..400 {
        let line = hostile_line().new_tree(&mut runner).unwrap().current();
        match sidecar.client.call("start", &json!({ "command": line })) {
            Ok(_) => started += 1,
            Err(sentence) => assert!(
                sentence.contains("Nothing was started") || sentence.contains("command is empty"),
                "{line:?}: {sentence}"
            ),
        }
    }
    let list = sidecar.call("list", json!({}));
    assert_eq!(list.as_array().unwrap().len(), started);
    assert!(started > 0 && started < 100, "{started}");
    sidecar.client.close();
    sidecar.nothing_left();
    assert!(!dir.join("pwned").exists());
}
