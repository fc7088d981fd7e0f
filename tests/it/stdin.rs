//! Input is taken whole or not at all, and no call waits for a process that does not read.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Sidecar;

#[test]
fn a_newline_is_added_once() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("exec cat");
    for input in ["one", "two\n", "", "drei ☃\n"] {
        let answer = sidecar.call("send", json!({ "id": id, "input": input }));
        assert_eq!(answer, json!({ "ok": true }));
    }
    let output = sidecar.output_with(&id, "drei ☃\n");
    assert_eq!(output, "one\ntwo\n\ndrei ☃\n");
}

#[test]
fn a_newline_may_be_left_out_and_a_key_follows_in_the_same_line() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("exec cat");
    for arguments in [
        json!({ "id": id, "input": "ab", "newline": false }),
        json!({ "id": id, "input": "c", "key": "enter" }),
        json!({ "id": id, "key": "up" }),
        json!({ "id": id, "key": "ctrl-a" }),
        json!({ "id": id, "input": "d", "key": "tab", "newline": true }),
        json!({ "id": id, "input": "end" }),
    ] {
        assert_eq!(sidecar.call("send", arguments), json!({ "ok": true }));
    }
    sidecar.output_with(&id, "end");
    let raw = sidecar.call("output", json!({ "id": id, "raw": true }));
    assert_eq!(raw["stdout"], "abc\n\u{1b}[A\u{1}d\n\tend\n");
    for (arguments, wanted) in [
        (json!({ "id": id }), "eof"),
        (json!({ "id": id, "key": "ctrl-1" }), "ctrl-1"),
        (json!({ "id": id, "key": "return" }), "enter"),
        (json!({ "id": id, "eof": "yes" }), "eof"),
    ] {
        let sentence = sidecar.fail("send", arguments);
        assert!(sentence.contains(wanted), "{sentence}");
    }
}

#[test]
fn its_input_can_be_closed_after_the_last_line() {
    let mut sidecar = Sidecar::new();
    for last in [json!({ "eof": true }), json!({ "key": "ctrl-d" })] {
        let id = sidecar.start("cat; echo done; exec sleep 300");
        let mut arguments = json!({ "id": id, "input": "last" });
        let last = last.as_object().unwrap().clone();
        let with_newline = !last.contains_key("key");
        arguments.as_object_mut().unwrap().extend(last);
        sidecar.call("send", arguments);
        let text = sidecar.output_with(&id, "done");
        assert_eq!(
            text,
            if with_newline {
                "last\ndone\n"
            } else {
                "lastdone\n"
            }
        );
        let sentence = sidecar.fail("send", json!({ "id": id, "input": "more" }));
        assert!(sentence.contains("closed"), "{sentence}");
    }
}

#[test]
fn an_end_waits_for_what_is_pending() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("sleep 0.3; wc -c");
    sidecar.call(
        "send",
        json!({ "id": id, "input": "x".repeat(500_000), "eof": true }),
    );
    assert_eq!(sidecar.output_with(&id, "\n").trim(), "500001");
}

#[test]
#[cfg(unix)]
fn ctrl_c_interrupts_as_a_terminal_would() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("trap 'echo interrupted' INT; echo armed; while :; do sleep 0.05; done");
    sidecar.output_with(&id, "armed");
    sidecar.call("send", json!({ "id": id, "key": "ctrl-c" }));
    sidecar.output_with(&id, "interrupted");
    sidecar.call("status", json!({ "id": id }));
    let id = sidecar.start("exec sleep 300");
    sidecar.call("send", json!({ "id": id, "key": "ctrl-c" }));
    // Not by stop: it ended by itself.
    let status = sidecar.state(&id, "failed");
    assert_eq!(
        (&status["exitCode"], &status["signal"]),
        (&json!(-1), &json!(2))
    );
}

#[test]
fn parallel_inputs_do_not_mix() {
    let mut sidecar = Sidecar::new();
    let id = sidecar
        .start("while read line; do echo ${#line} $line | tr -s 'a-i' | head -c 40; echo; done");
    let inputs: Vec<_> = "abcdefghi"
        .chars()
        .map(|c| c.to_string().repeat(15_000))
        .collect();
    let asked: Vec<_> = inputs
        .iter()
        .map(|input| sidecar.ask("send", &json!({ "id": id, "input": input })))
        .collect();
    for asked in &asked {
        sidecar.answer(asked).unwrap();
    }
    let output = sidecar.output_when(&id, "nine lines", |output| {
        output["stdout"]
            .as_str()
            .unwrap()
            .lines()
            .filter(|line| !line.is_empty())
            .count()
            >= 9
    });
    let mut lines: Vec<_> = output["stdout"]
        .as_str()
        .unwrap()
        .lines()
        .filter(|line| !line.is_empty())
        .collect();
    lines.sort_unstable();
    let expected: Vec<_> = "abcdefghi".chars().map(|c| format!("15000 {c}")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn what_a_process_does_not_read_is_pending_up_to_a_limit() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_KILL_TIMEOUT", "500")]);
    let id = sidecar.start("exec sleep 300");
    let begun = Instant::now();
    let answer = sidecar.call("send", json!({ "id": id, "input": "x".repeat(300_000) }));
    assert!(begun.elapsed() < Duration::from_secs(2));
    let pending = answer["pending"].as_u64().unwrap();
    assert!(pending > 200_000 && pending < 300_000, "{answer}");
    let sentence = sidecar.fail("send", json!({ "id": id, "input": "y".repeat(1_000_000) }));
    assert!(
        sentence.contains("nothing of this input was taken"),
        "{sentence}"
    );
    // A small one still fits, so the refused one left nothing behind.
    let more = sidecar.call("send", json!({ "id": id, "input": "z" }));
    assert_eq!(more["pending"].as_u64(), Some(pending + 2));
    sidecar.call("stop", json!({ "id": id }));
}

#[test]
fn a_large_input_is_taken_by_a_process_that_reads() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("read line; echo ${#line}; exec cat >/dev/null");
    let answer = sidecar.call("send", json!({ "id": id, "input": "y".repeat(6_000_000) }));
    assert_eq!(answer["ok"], true);
    sidecar.output_with(&id, "6000000\n");
}

#[test]
fn a_large_input_to_a_process_that_does_not_read_is_refused() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_KILL_TIMEOUT", "500")]);
    let id = sidecar.start("exec sleep 300");
    let sentence = sidecar.fail("send", json!({ "id": id, "input": "y".repeat(3_000_000) }));
    assert!(sentence.contains("stopped reading"), "{sentence}");
}

#[test]
fn an_echo_of_its_input_does_not_deadlock() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("exec cat");
    let input = format!("{}END", "x".repeat(700_000));
    sidecar.call("send", json!({ "id": id, "input": input }));
    sidecar.output_with(&id, "END\n");
}

#[test]
fn nobody_reads_after_the_end() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("exit 3");
    sidecar.state(&id, "failed");
    let sentence = sidecar.fail("send", json!({ "id": id, "input": "x" }));
    assert!(
        sentence.contains(&id) && sentence.contains("exit code 3"),
        "{sentence}"
    );
    let id = sidecar.start("exec <&-; echo closed; exec sleep 300");
    sidecar.output_with(&id, "closed");
    let sentence = sidecar.fail("send", json!({ "id": id, "input": "x" }));
    assert!(sentence.contains("standard input is closed"), "{sentence}");
}

#[test]
fn a_blocked_send_does_not_hold_up_others() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_KILL_TIMEOUT", "500")]);
    let id = sidecar.start("exec sleep 300");
    let asked: Vec<_> = (0..10)
        .map(|_| sidecar.ask("send", &json!({ "id": id, "input": "x".repeat(200_000) })))
        .collect();
    let begun = Instant::now();
    assert_eq!(sidecar.call("list", json!({})).as_array().unwrap().len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(1));
    let answers: Vec<Result<Value, String>> =
        asked.iter().map(|asked| sidecar.answer(asked)).collect();
    assert!(answers[0].is_ok() && answers[9].is_err(), "{answers:?}");
}
