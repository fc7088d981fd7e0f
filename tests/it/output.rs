//! Nothing that a tree writes is lost or hidden.

use serde_json::json;

use crate::harness::Sidecar;

#[test]
fn a_prompt_without_newline_is_visible() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("printf 'Continue? [y/N] '; read answer; echo \"you said $answer\"");
    sidecar.output_with(&id, "Continue? [y/N] ");
    sidecar.call("send", json!({ "id": id, "input": "y" }));
    sidecar.output_with(&id, "you said y");
}

#[test]
fn what_was_written_before_the_end_is_there_when_the_end_is() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_MAX_PROCESSES", "40")]);
    for _ in 0..20 {
        let id = sidecar.start("head -c 900000 /dev/zero | tr '\\0' x; echo; echo LAST");
        let status = sidecar.state(&id, "exited");
        assert_eq!(status["outputSize"], 900_006);
        let output = sidecar.call("output", json!({ "id": id, "tail": 1 }));
        assert_eq!(output["stdout"], "LAST\n");
    }
}

#[test]
fn a_grandchild_that_writes_later_is_heard() {
    let mut sidecar = Sidecar::new();
    let trigger = sidecar.dir.path().join("go");
    let id = sidecar.start("(while [ ! -e go ]; do sleep 0.02; done; echo late) & echo now");
    sidecar.state(&id, "exited");
    std::fs::write(trigger, "").unwrap();
    sidecar.output_with(&id, "late\n");
}

#[test]
fn a_flood_costs_no_more_than_the_buffer() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_BUFFER_SIZE", "100000")]);
    let endless_line = sidecar.start("head -c 60000000 /dev/zero | tr '\\0' x; echo; echo DONE");
    let empty_lines = sidecar.start("yes '' | head -n 20000000; echo DONE");
    for id in [&endless_line, &empty_lines] {
        sidecar.output_with(id, "DONE\n");
        let status = sidecar.state(id, "exited");
        assert!(
            status["outputSize"].as_u64().unwrap() <= 100_000,
            "{status}"
        );
    }
    #[cfg(target_os = "linux")]
    {
        let kib = sidecar.peak_memory();
        assert!(kib < 64 << 10, "the server's peak was {kib} KiB");
    }
}

#[test]
fn a_cut_is_told() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_BUFFER_SIZE", "1000")]);
    let id = sidecar.start("seq 1 3000");
    sidecar.state(&id, "exited");
    let output = sidecar.call("output", json!({ "id": id }));
    assert!(
        output["stdout"]
            .as_str()
            .unwrap()
            .ends_with("\n2999\n3000\n")
    );
    assert_eq!(
        (&output["truncated"], &output["totalBytes"]),
        (&json!(true), &json!(13_893))
    );
    let output = sidecar.call("output", json!({ "id": id, "tail": 2 }));
    assert_eq!(output["stdout"], "2999\n3000\n");
    assert!(output.get("truncated").is_none(), "{output}");
}

#[test]
fn the_smaller_limit_counts_and_zero_is_none() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_MAX_OUTPUT_SIZE", "50")]);
    let id = sidecar.start("seq 1 1000");
    sidecar.state(&id, "exited");
    for (max, size) in [
        (json!(0), 50),
        (json!(null), 50),
        (json!(20), 20),
        (json!(10_000), 50),
    ] {
        let output = sidecar.call("output", json!({ "id": id, "maxBytes": max, "tail": 0 }));
        let length = output["stdout"].as_str().unwrap().len();
        assert!(length <= size && length > size - 5, "{max}: {output}");
        assert_eq!(output["truncated"], true);
    }
}

#[test]
fn an_answer_stays_below_four_mebibytes_on_the_wire() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_BUFFER_SIZE", "20000000")]);
    let id = sidecar.start("yes '\"\\\"\\' | head -c 12000000");
    sidecar.state(&id, "exited");
    let asked = sidecar.ask("output", &json!({ "id": id }));
    let result = sidecar
        .client
        .hear(&asked, std::time::Duration::from_secs(20))
        .unwrap();
    let wire = result.to_string().len();
    assert!(wire < 4 << 20 && wire > 3 << 20, "{wire}");
    let output = Sidecar::answer_of(&result);
    assert_eq!(
        (&output["truncated"], &output["totalBytes"]),
        (&json!(true), &json!(12_000_000))
    );
}

#[test]
fn both_streams_are_read_at_the_same_time() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start(
        "head -c 3000000 /dev/zero | tr '\\0' e >&2; echo end >&2; head -c 3000000 /dev/zero | tr '\\0' o; echo end",
    );
    sidecar.state(&id, "exited");
    let output = sidecar.call("output", json!({ "id": id, "tail": 1, "maxBytes": 100 }));
    assert!(
        output["stdout"].as_str().unwrap().ends_with("end\n"),
        "{output}"
    );
    assert!(
        output["stderr"].as_str().unwrap().ends_with("end\n"),
        "{output}"
    );
}

#[test]
fn what_ends_in_the_middle_is_shown_when_nothing_more_can_come() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("printf 'ok\\nab\\342\\202'");
    sidecar.state(&id, "exited");
    sidecar.output_with(&id, "ok\nab\u{fffd}");
}

#[test]
fn raw_output_is_as_it_was_written() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("printf '\\033[31mred\\033[0m 1%%\\r2%%\\n'");
    sidecar.state(&id, "exited");
    let output = sidecar.call("output", json!({ "id": id, "raw": true }));
    assert_eq!(output["stdout"], "\u{1b}[31mred\u{1b}[0m 1%\r2%\n");
    assert_eq!(
        sidecar.call("output", json!({ "id": id }))["stdout"],
        "2%d 1%\n"
    );
}

#[test]
fn a_cursor_gives_only_what_is_new_and_grep_only_what_matches() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("echo first; echo oops >&2; exec cat");
    sidecar.output_when(&id, "both", |output| {
        output["stdout"] == "first\n" && output["stderr"] == "oops\n"
    });
    let cursor = sidecar.call("output", json!({ "id": id }))["cursor"].clone();
    assert_eq!(cursor, 11);
    assert_eq!(
        sidecar.call("status", json!({ "id": id }))["cursor"],
        cursor
    );
    sidecar.call(
        "send",
        json!({ "id": id, "input": "a error\nb\nc error\nd" }),
    );
    sidecar.output_with(&id, "d\n");
    let new = sidecar.call("output", json!({ "id": id, "since": cursor }));
    assert_eq!(
        (&new["stdout"], &new["stderr"]),
        (&json!("a error\nb\nc error\nd\n"), &json!(""))
    );
    // First what is new, then what matches, then the last of it.
    for (arguments, wanted) in [
        (
            json!({ "since": cursor, "grep": "error" }),
            "a error\nc error\n",
        ),
        (
            json!({ "since": cursor, "grep": "error", "tail": 1 }),
            "c error\n",
        ),
        (json!({ "grep": "^(first|d)$" }), "first\nd\n"),
        (json!({ "since": new["cursor"] }), ""),
        (json!({ "since": cursor.to_string(), "tail": 1 }), "d\n"),
        (json!({ "since": 11.0, "tail": 1 }), "d\n"),
    ] {
        let mut arguments = arguments;
        arguments["id"] = json!(id);
        assert_eq!(
            sidecar.call("output", arguments.clone())["stdout"],
            wanted,
            "{arguments}"
        );
    }
    for (arguments, wanted) in [
        (json!({ "id": id, "grep": "(" }), "\"(\" is not a valid"),
        (json!({ "id": id, "since": -1 }), "since"),
        (json!({ "id": id, "since": 1.5 }), "since"),
        (json!({ "id": id, "since": "x" }), "since"),
    ] {
        let sentence = sidecar.fail("output", arguments);
        assert!(sentence.contains(wanted), "{sentence}");
    }
}

#[test]
fn what_is_gone_since_a_cursor_is_told() {
    let mut sidecar = Sidecar::with(&[("SIDECAR_BUFFER_SIZE", "1000")]);
    let id = sidecar.start("echo first; read line; seq 1000 1999; echo end; exec sleep 300");
    sidecar.output_with(&id, "first");
    let cursor = sidecar.call("output", json!({ "id": id }))["cursor"].clone();
    sidecar.call("send", json!({ "id": id, "input": "go" }));
    sidecar.output_with(&id, "end");
    let output = sidecar.call("output", json!({ "id": id, "since": cursor }));
    let text = output["stdout"].as_str().unwrap();
    assert!(text.ends_with("1998\n1999\nend\n"), "{output}");
    let dropped = output["dropped"].as_u64().unwrap();
    assert_eq!(dropped + text.len() as u64, 5004);
    assert_eq!(output["truncated"], true);
}

#[test]
fn the_cursor_stands_behind_the_keys_that_were_there_before() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("printf 'a\\nb\\n'");
    sidecar.state(&id, "exited");
    for (arguments, keys) in [
        (json!({ "id": id }), "stdout stderr uptime cursor"),
        (
            json!({ "id": id, "maxBytes": 2 }),
            "stdout stderr uptime truncated totalBytes cursor",
        ),
    ] {
        let asked = sidecar.ask("output", &arguments);
        let result = sidecar
            .client
            .hear(&asked, std::time::Duration::from_secs(20))
            .unwrap();
        let text = result["content"][0]["text"].as_str().unwrap();
        let at: Vec<_> = keys
            .split(' ')
            .map(|key| text.find(&format!("\"{key}\":")).unwrap())
            .collect();
        assert!(at.is_sorted(), "{text}");
        assert_eq!(text.matches("\":").count(), at.len(), "{text}");
    }
}

#[test]
fn a_line_that_is_written_in_two_halves_is_found_and_a_bare_escape_repeats_nothing() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start(
        "printf '\\033]0;never closed\\nan err'; read line; printf 'or\\033[0m\\nend\\n'; exec cat",
    );
    sidecar.output_with(&id, "an err");
    let first = sidecar.call("output", json!({ "id": id, "grep": "error$" }));
    assert_eq!(first["stdout"], "");
    let cursor = &first["cursor"];
    let again = sidecar.call("output", json!({ "id": id, "since": cursor, "raw": true }));
    assert_eq!(
        (&again["stdout"], &again["cursor"]),
        (&json!(""), cursor),
        "{again}"
    );
    sidecar.call("send", json!({ "id": id, "input": "" }));
    sidecar.output_with(&id, "end\n");
    for (grep, wanted) in [
        (json!(null), "or\nend\n"),
        (json!("error$"), "an error\n"),
        (json!("^an"), "or\n"),
    ] {
        let new = sidecar.call("output", json!({ "id": id, "since": cursor, "grep": grep }));
        assert_eq!(new["stdout"], wanted, "{grep}");
    }
    let raw = json!({ "id": id, "since": cursor, "grep": "error$", "raw": true });
    assert_eq!(sidecar.call("output", raw)["stdout"], "an error\u{1b}[0m\n");
}
