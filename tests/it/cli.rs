//! The command line around the server.

use std::process::{Command, Output};

use crate::harness::{clean, program};

fn run(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program());
    let Output {
        status,
        stdout,
        stderr,
    } = clean(&mut command)
        .args(args)
        .envs(variables.iter().copied())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    (
        status.code(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

#[test]
fn version_and_help_go_to_stdout() {
    let version = format!("mcp-sidecar {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["--version"], &[]), (Some(0), version, String::new()));
    let (code, help, _) = run(&["--help"], &[]);
    assert!(code == Some(0) && help.contains("SIDECAR_KILL_TIMEOUT") && help.contains("doctor"));
}

#[test]
fn what_it_does_not_understand_is_told_on_stderr() {
    for args in [["--port"], ["start"], ["guard"]] {
        let (code, out, err) = run(&args, &[]);
        assert_eq!((code, out.as_str()), (Some(2), ""));
        assert!(
            err.contains(args[0]) && err.contains("--help") && err.lines().count() == 1,
            "{err}"
        );
    }
}

#[test]
fn each_bad_variable_has_a_line_of_its_own() {
    let bad = [
        ("SIDECAR_MAX_PROCESSES", "many"),
        ("SIDECAR_BUFFER_SIZE", "0"),
        ("SIDECAR_KILL_TIMEOUT", "-1"),
        ("SIDECAR_CLEANUP_AFTER", "1h"),
        ("SIDECAR_MAX_OUTPUT_SIZE", "1.5"),
    ];
    let (code, out, err) = run(&[], &bad);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(err.lines().count(), bad.len(), "{err}");
    for (line, (name, value)) in err.lines().zip(bad) {
        assert!(line.contains(name) && line.contains(value), "{line}");
    }
}

#[test]
fn an_idle_server_says_nothing() {
    assert_eq!(run(&[], &[]), (Some(0), String::new(), String::new()));
}

#[test]
fn the_doctor_passes_here_and_fails_on_a_bad_configuration() {
    let (code, out, _) = run(&["doctor"], &[("SIDECAR_MAX_PROCESSES", "3")]);
    assert_eq!(code, Some(0), "{out}");
    assert!(
        out.contains("All checks passed.") && !out.contains("FAILED"),
        "{out}"
    );
    let setting = out
        .lines()
        .find(|line| line.contains("SIDECAR_MAX_PROCESSES"))
        .unwrap();
    assert!(
        setting.contains('3') && setting.contains("set"),
        "{setting}"
    );
    assert!(out.contains("claude mcp add"));
    // What a user wants to see of output is no fault.
    let little = [
        ("SIDECAR_MAX_OUTPUT_SIZE", "1"),
        ("SIDECAR_BUFFER_SIZE", "1"),
        ("SIDECAR_KILL_TIMEOUT", "0"),
        ("SIDECAR_CLEANUP_AFTER", "1"),
    ];
    let (code, out, _) = run(&["doctor"], &little);
    assert_eq!(code, Some(0), "{out}");
    // What the checks run needs nothing of a search path.
    let (code, out, _) = run(&["doctor"], &[("PATH", "/nowhere")]);
    assert_eq!(code, Some(0), "{out}");
    let (code, out, _) = run(&["doctor"], &[("SIDECAR_MAX_PROCESSES", "none")]);
    assert!(
        code == Some(1) && out.contains("FAILED") && out.contains("none"),
        "{out}"
    );
}
