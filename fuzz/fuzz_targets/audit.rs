//! Whatever the texts, an event is one line, one object, and holds them as they were.

#![no_main]

use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use mcp_sidecar::audit::{Event, line};
use serde_json::Value;

fuzz_target!(|input: (&str, &str, i32, u64)| {
    let (first, second, exit_code, number) = input;
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(number >> 30);
    let events = [
        (
            Event::Start {
                id: "sc-a1b2c3",
                command: first,
                cwd: second,
            },
            &["ts", "event", "id", "command", "cwd"][..],
            &[("command", first), ("cwd", second)][..],
        ),
        (
            Event::Stop {
                id: "sc-a1b2c3",
                exit_code,
                duration: Duration::from_millis(number),
            },
            &["ts", "event", "id", "exit_code", "duration"],
            &[],
        ),
        (
            Event::Blocked {
                command: first,
                reason: second,
            },
            &["ts", "event", "command", "reason"],
            &[("command", first), ("reason", second)],
        ),
    ];
    for (event, keys, texts) in events {
        let line = line(at, event);
        let object = line.strip_suffix('\n').expect("a line ends");
        // What any reader takes for the end of a line, and what a terminal obeys.
        let ends = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        assert!(!object.contains(ends), "{object:?}");
        let Ok(Value::Object(found)) = serde_json::from_str(object) else {
            panic!("no object: {object}");
        };
        assert_eq!(found.len(), keys.len());
        let places: Vec<_> = keys
            .iter()
            .map(|key| object.find(&format!("\"{key}\":")))
            .collect();
        assert!(places.iter().all(Option::is_some), "{object}");
        for (key, text) in texts {
            assert_eq!(found[*key], **text);
        }
    }
});
