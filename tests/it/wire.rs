//! Whatever comes on stdin: a request that carries an id gets an answer with that id.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::Sidecar;

const SOON: Duration = Duration::from_secs(10);

fn modern(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn every_bad_line_with_an_id_is_answered_and_the_connection_lives() {
    let mut sidecar = Sidecar::new();
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"ping","params":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let long = format!(
        r#"{{"jsonrpc":"2.0","method":"ping","params":"{}","id":8}}"#,
        "x".repeat(17 << 20)
    );
    for (line, id, code) in [
        ("this is not json", Value::Null, -32700),
        (
            r#"{"jsonrpc":"2.0","id":701,"method":"ping""#,
            json!(701),
            -32700,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{]}"#,
            json!("a"),
            -32700,
        ),
        (deep.as_str(), json!(7), -32700),
        (long.as_str(), json!(8), -32700),
        (
            r#"{"jsonrpc":"1.0","id":702,"method":"ping"}"#,
            json!(702),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":703,"method":"tools/call","params":{"name":"list","arguments":[]}}"#,
            json!(703),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":704,"method":"no/such/method"}"#,
            json!(704),
            -32601,
        ),
        (
            r#"{"jsonrpc":"2.0","id":705,"method":"tools/call","params":{"name":"lst"}}"#,
            json!(705),
            -32602,
        ),
    ] {
        sidecar.client.say(line).unwrap();
        let answer = sidecar
            .client
            .hear_where(|message| message.get("id") == Some(&id), SOON)
            .unwrap_or_else(|error| panic!("{error}: {}", &line[..line.len().min(100)]));
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    sidecar.client.request("ping", &json!({})).unwrap();
}

#[test]
fn bad_utf8_blank_lines_and_byte_order_marks_are_no_matter() {
    let mut sidecar = Sidecar::new();
    sidecar.client.say_bytes(b"\r\n\n  \n\xef\xbb\xbf").unwrap();
    sidecar
        .client
        .say_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"u\",\"method\":\"tools/call\",\"params\":{\"name\":\"start\",\"arguments\":{\"command\":\"echo \xff\"}}}\r\n")
        .unwrap();
    let result = sidecar.client.hear(&json!("u"), SOON).unwrap();
    let started = Sidecar::answer_of(&result);
    sidecar.output_with(started["id"].as_str().unwrap(), "\u{fffd}\n");
}

#[test]
fn a_batch_is_answered_as_a_batch() {
    let mut sidecar = Sidecar::new();
    let batch = json!([
        { "jsonrpc": "2.0", "id": 801, "method": "ping" },
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        { "jsonrpc": "2.0", "id": 802, "method": "tools/call", "params": { "name": "list" } },
        { "jsonrpc": "2.0", "id": 803 },
    ]);
    sidecar.client.say(&batch.to_string()).unwrap();
    let answers = sidecar.client.hear_where(Value::is_array, SOON).unwrap();
    let mut ids: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["id"].as_i64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [801, 802, 803]);
}

#[test]
fn every_version_with_a_handshake_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut sidecar = Sidecar::silent(&[]);
        let info = json!({ "name": "t", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": info });
        let answer = sidecar.client.request("initialize", &params).unwrap();
        assert_eq!(answer["protocolVersion"], version);
        assert_eq!(answer["serverInfo"]["name"], "mcp-sidecar");
        assert_eq!(answer["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(sidecar.call("list", json!({})), json!([]));
    }
    let mut sidecar = Sidecar::silent(&[]);
    let params = json!({ "protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let answer = sidecar.client.request("initialize", &params).unwrap();
    assert_eq!(answer["protocolVersion"], "2025-11-25");
}

#[test]
fn both_eras_are_spoken_on_one_connection() {
    let mut sidecar = Sidecar::silent(&[]);
    let client = &mut sidecar.client;
    // Stray notifications before anything else must not end it.
    client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .unwrap();
    client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .unwrap();
    client
        .say(&modern(1, "server/discover", json!({})).to_string())
        .unwrap();
    let discovered = client.hear(&json!(1), SOON).unwrap();
    let versions = discovered["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2024-11-05")));
    client.initialize().unwrap();
    client
        .say(&modern(1000, "tools/list", json!({})).to_string())
        .unwrap();
    let listed = client.hear(&json!(1000), SOON).unwrap();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 6);
    assert_eq!(sidecar.call("list", json!({})), json!([]));
}

#[test]
fn a_modern_session_needs_no_handshake_and_ends_with_an_open_subscription() {
    let mut sidecar = Sidecar::silent(&[]);
    let client = &mut sidecar.client;
    client
        .say(&modern(1, "tools/call", json!({ "name": "list", "arguments": {} })).to_string())
        .unwrap();
    let result = client.hear(&json!(1), SOON).unwrap();
    assert_eq!(result["resultType"], "complete");
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    client
        .say(&modern(2, "subscriptions/listen", listen).to_string())
        .unwrap();
    client
        .hear_where(
            |m| m["method"] == "notifications/subscriptions/acknowledged",
            SOON,
        )
        .unwrap();
    client.close();
    client.hear(&json!(2), SOON).unwrap();
    assert!(client.exit(Duration::from_millis(1400)).unwrap().success());
}

#[test]
fn ids_come_back_as_they_were() {
    let mut sidecar = Sidecar::new();
    for id in [
        json!(1e300),
        json!(1.5),
        json!(u64::MAX),
        json!(0),
        json!("0"),
        json!(-5),
        json!(9_007_199_254_740_993_i64),
        json!("☃ \" id"),
    ] {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        sidecar.client.say(&request.to_string()).unwrap();
        sidecar.client.hear(&id, SOON).unwrap();
    }
}

#[test]
fn cancelling_answers_nothing_and_breaks_nothing() {
    let (mut sidecar, id) = Sidecar::stubborn("300");
    let asked = sidecar.ask("stop", &json!({ "id": id }));
    for request in [&asked, &json!(99_999)] {
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": request } });
        sidecar.client.say(&cancel.to_string()).unwrap();
    }
    // The stop goes on all the same.
    sidecar.state(&id, "killed");
    sidecar.nothing_left();
    assert!(
        sidecar
            .client
            .hear(&asked, Duration::from_millis(100))
            .is_err()
    );
}

#[test]
fn what_a_child_prints_stays_out_of_the_protocol() {
    let mut sidecar = Sidecar::new();
    let line = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let id = sidecar.start(&format!("echo '{line}'; echo '{line}' >&2"));
    sidecar.state(&id, "exited");
    let output = sidecar.call("output", json!({ "id": id }));
    assert_eq!(output["stdout"], format!("{line}\n"));
    assert_eq!(output["stderr"], format!("{line}\n"));
}

#[test]
fn an_id_may_be_used_twice() {
    let (mut sidecar, id) = Sidecar::stubborn("300");
    let stop = json!({ "jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": { "name": "stop", "arguments": { "id": id } } });
    let ping = json!({ "jsonrpc": "2.0", "id": 77, "method": "ping" });
    sidecar.client.say(&stop.to_string()).unwrap();
    sidecar.client.say(&ping.to_string()).unwrap();
    let mut heard = || sidecar.client.hear(&json!(77), SOON).unwrap();
    assert_eq!(heard(), json!({}));
    assert_eq!(Sidecar::answer_of(&heard())["exitCode"], -1);
    let batch = json!([ping, ping, { "jsonrpc": "2.0", "id": 78, "method": "ping" }]);
    sidecar.client.say(&batch.to_string()).unwrap();
    let answers = sidecar.client.hear_where(Value::is_array, SOON).unwrap();
    assert_eq!(answers.as_array().unwrap().len(), 3);
}

#[test]
fn a_session_may_be_opened_after_modern_calls_and_opened_again() {
    let mut sidecar = Sidecar::silent(&[]);
    let client = &mut sidecar.client;
    // Without a session a request must stand for itself.
    let bare = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    client.say(&bare).unwrap();
    assert!(client.hear(&json!(1), SOON).unwrap_err().contains("-32602"));
    client
        .say(&modern(2, "ping", json!({})).to_string())
        .unwrap();
    assert!(client.hear(&json!(2), SOON).unwrap_err().contains("-32601"));
    client
        .say(&modern(3, "tools/list", json!({})).to_string())
        .unwrap();
    client.hear(&json!(3), SOON).unwrap();
    client.initialize().unwrap();
    client.say(&bare).unwrap();
    client.hear(&json!(1), SOON).unwrap();
    // A version that has no handshake is answered with one that has, and that one counts.
    let info = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2026-07-28", "capabilities": {}, "clientInfo": info });
    let answer = client.request("initialize", &params).unwrap();
    assert_eq!(answer["protocolVersion"], "2025-11-25");
    assert_eq!(client.request("ping", &json!({})).unwrap(), json!({}));
}

#[test]
fn a_client_that_asks_for_much_and_reads_slowly_gets_all_of_it() {
    let mut sidecar = Sidecar::new();
    let id = sidecar.start("yes | head -c 3000000");
    sidecar.state(&id, "exited");
    // Nothing is read here before all is asked; that is a hundred megabytes of answers.
    let asked: Vec<_> = (0..40)
        .map(|_| sidecar.ask("output", &json!({ "id": id })))
        .collect();
    for asked in &asked {
        assert!(
            sidecar.answer(asked).unwrap()["stdout"]
                .as_str()
                .unwrap()
                .len()
                > 1_000_000
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_batch_of_millions_fills_no_memory() {
    let mut sidecar = Sidecar::new();
    let mut batch = vec![b'['];
    batch.extend(b"1,".repeat(400_000));
    batch.extend(b"{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"ping\"}]\n");
    sidecar.client.say_bytes(&batch).unwrap();
    let has_last = |message: &Value| {
        message
            .as_array()
            .is_some_and(|answers| answers.iter().any(|answer| answer["id"] == "last"))
    };
    // Each of the millions is answered, in arrays that are not too long, and then the last.
    let mut answers = 0;
    loop {
        let array = sidecar
            .client
            .hear_where(Value::is_array, Duration::from_mins(1))
            .unwrap();
        answers += array.as_array().unwrap().len();
        if has_last(&array) {
            break;
        }
    }
    assert_eq!(answers, 400_001);
    let kib = sidecar.peak_memory();
    assert!(kib < 150 << 10, "the server's peak was {kib} KiB");
}

#[test]
fn a_subscription_is_named_by_the_clients_own_id() {
    let mut sidecar = Sidecar::silent(&[]);
    let client = &mut sidecar.client;
    let mut listen = modern(
        1,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    for id in ["\"a ☃\"", "12345678901234567890123", "7"] {
        listen["id"] = json!("PLACE");
        client
            .say(&listen.to_string().replace("\"PLACE\"", id))
            .unwrap();
        let acknowledged = client
            .hear_where(
                |m| m["method"] == "notifications/subscriptions/acknowledged",
                SOON,
            )
            .unwrap();
        let id: Value = serde_json::from_str(id).unwrap();
        let key = "io.modelcontextprotocol/subscriptionId";
        assert_eq!(acknowledged["params"]["_meta"][key], id, "{acknowledged}");
    }
}

#[test]
fn thousands_of_waiting_calls_keep_nobody_out() {
    let (mut sidecar, id) = Sidecar::stubborn("60000");
    for _ in 0..1500 {
        sidecar.ask("stop", &json!({ "id": id }));
    }
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    for number in 0..1500 {
        let listen = modern(100_000 + number, "subscriptions/listen", listen.clone());
        sidecar.client.say(&listen.to_string()).unwrap();
    }
    assert_eq!(sidecar.call("list", json!({})).as_array().unwrap().len(), 1);
    sidecar.client.close();
    assert!(
        sidecar
            .client
            .exit(Duration::from_secs(5))
            .unwrap()
            .success()
    );
    // Its tree has a minute of grace, for which nobody waits here.
    #[cfg(target_os = "linux")]
    for pid in sidecar.marked() {
        let _ = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
    }
}
