//! Keys by their names, and what a program reads when one is pressed.
//!
//! Architecture invariant: pure.

use crate::process::input::Input;

/// For errors: what may be pressed.
pub(super) const KEYS: &str = "enter, tab, esc, up, down, left, right, home, end, pageup, pagedown, backspace, delete, \
    ctrl-a to ctrl-z";

/// Presses a key after what `input` has already. Whether there is such a key.
pub(super) fn press(input: &mut Input, key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let sequence = match &*key {
        "enter" => "\n",
        "tab" => "\t",
        "esc" => "\x1b",
        "up" => "\x1b[A",
        "down" => "\x1b[B",
        "right" => "\x1b[C",
        "left" => "\x1b[D",
        "home" => "\x1b[H",
        "end" => "\x1b[F",
        "pageup" => "\x1b[5~",
        "pagedown" => "\x1b[6~",
        "backspace" => "\x7f",
        "delete" => "\x1b[3~",
        // What a terminal makes of these two reaches a program that has none in another way.
        "ctrl-c" => {
            input.interrupt = true;
            return true;
        }
        "ctrl-d" => {
            input.eof = true;
            return true;
        }
        _ => return control(input, &key),
    };
    input.bytes.extend_from_slice(sequence.as_bytes());
    true
}

fn control(input: &mut Input, key: &str) -> bool {
    match key.strip_prefix("ctrl-").map(str::as_bytes) {
        Some([letter @ b'a'..=b'z']) => {
            input.bytes.push(letter - b'a' + 1);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(key: &str) -> Option<Input> {
        let mut input = Input::default();
        press(&mut input, key).then_some(input)
    }

    #[test]
    fn keys_are_what_a_terminal_sends() {
        for (key, bytes) in [
            ("enter", "\n"),
            ("UP", "\x1b[A"),
            ("ctrl-a", "\x01"),
            ("ctrl-z", "\x1a"),
        ] {
            assert_eq!(pressed(key).unwrap().bytes, bytes.as_bytes(), "{key}");
        }
        for key in ["", "ctrl-", "ctrl-1", "ctrl-ab", "return", "ctrl-é"] {
            assert_eq!(pressed(key), None, "{key}");
        }
    }

    #[test]
    fn two_keys_are_more_than_bytes() {
        assert_eq!(
            pressed("ctrl-c"),
            Some(Input {
                interrupt: true,
                ..Input::default()
            })
        );
        assert_eq!(
            pressed("ctrl-d"),
            Some(Input {
                eof: true,
                ..Input::default()
            })
        );
    }

    #[test]
    fn every_key_that_is_named_can_be_pressed() {
        for key in KEYS.split(", ").flat_map(|key| key.split(" to ")) {
            assert!(pressed(key).is_some(), "{key}");
        }
    }
}
