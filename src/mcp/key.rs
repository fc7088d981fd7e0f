//! Keys by their names, and what a program reads when one is pressed.
//!
//! Architecture invariant: pure.

use crate::process::input::Input;

/// For errors: what may be pressed.
pub(super) const KEYS: &str = "enter, tab, esc, up, down, left, right, home, end, pageup, pagedown, backspace, delete, \
    ctrl-a to ctrl-z";

/// What is between a key and a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyboard {
    /// Nothing: the program reads a pipe.
    Pipe,
    /// A terminal.
    Terminal {
        /// Whether its arrow keys are an application's now (DECCKM).
        application: bool,
    },
}

/// What ends the input of a program that reads lines from a terminal.
const END: u8 = 4;

/// Types a text, and presses enter after it unless that is so already.
pub(super) fn type_in(input: &mut Input, text: String, enter: bool, keyboard: Keyboard) {
    let (text, end) = match keyboard {
        Keyboard::Pipe => (text, '\n'),
        // Whoever types presses enter, and the terminal makes a newline of it.
        Keyboard::Terminal { .. } => (text.replace("\r\n", "\r").replace('\n', "\r"), '\r'),
    };
    let is_entered = text.ends_with(end);
    input.bytes.extend_from_slice(text.as_bytes());
    if enter && !is_entered {
        input.bytes.push(end as u8);
    }
}

/// Ends the input after what it has already.
pub(super) fn end(input: &mut Input, keyboard: Keyboard) {
    match keyboard {
        Keyboard::Pipe => input.eof = true,
        Keyboard::Terminal { .. } => {
            // In a line that has begun the first only sends what there is of it.
            if input.bytes.last().is_some_and(|last| *last != b'\r') {
                input.bytes.push(END);
            }
            input.bytes.push(END);
        }
    }
}

/// Presses a key after what `input` has already. Whether there is such a key.
pub(super) fn press(input: &mut Input, key: &str, keyboard: Keyboard) -> bool {
    let key = key.to_ascii_lowercase();
    if let Keyboard::Terminal { application } = keyboard {
        let sequence = match (&*key, application) {
            ("enter", _) => "\r",
            ("ctrl-c" | "ctrl-d", _) => return control(input, &key),
            ("up", true) => "\x1bOA",
            ("down", true) => "\x1bOB",
            ("right", true) => "\x1bOC",
            ("left", true) => "\x1bOD",
            ("home", true) => "\x1bOH",
            ("end", true) => "\x1bOF",
            _ => return press(input, &key, Keyboard::Pipe),
        };
        input.bytes.extend_from_slice(sequence.as_bytes());
        return true;
    }
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
        press(&mut input, key, Keyboard::Pipe).then_some(input)
    }

    const PLAIN: Keyboard = Keyboard::Terminal { application: false };
    const APPLICATION: Keyboard = Keyboard::Terminal { application: true };

    #[test]
    fn a_terminal_sends_what_its_line_discipline_or_its_application_reads() {
        for (key, keyboard, bytes) in [
            ("enter", PLAIN, "\r"),
            ("ctrl-c", PLAIN, "\x03"),
            ("Ctrl-D", APPLICATION, "\x04"),
            ("ctrl-z", PLAIN, "\x1a"),
            ("up", PLAIN, "\x1b[A"),
            ("up", APPLICATION, "\x1bOA"),
            ("end", APPLICATION, "\x1bOF"),
            ("delete", APPLICATION, "\x1b[3~"),
        ] {
            let mut input = Input::default();
            assert!(press(&mut input, key, keyboard));
            let wanted = Input {
                bytes: bytes.into(),
                ..Input::default()
            };
            assert_eq!(input, wanted, "{key}");
        }
    }

    #[test]
    fn a_text_is_typed_with_enter_and_may_be_the_last() {
        for (text, enter, keyboard, bytes) in [
            ("a\nb", true, Keyboard::Pipe, "a\nb\n"),
            ("a\n", true, Keyboard::Pipe, "a\n"),
            ("a\r", true, Keyboard::Pipe, "a\r\n"),
            ("a\nb\r\n", true, PLAIN, "a\rb\r"),
            ("a", true, PLAIN, "a\r"),
            ("a", false, PLAIN, "a"),
        ] {
            let mut input = Input::default();
            type_in(&mut input, text.into(), enter, keyboard);
            assert_eq!(input.bytes, bytes.as_bytes(), "{text:?}");
        }
        for (typed, wanted) in [("", "\x04"), ("a\r", "a\r\x04"), ("a", "a\x04\x04")] {
            let mut input = Input {
                bytes: typed.into(),
                ..Input::default()
            };
            end(&mut input, PLAIN);
            assert_eq!(input.bytes, wanted.as_bytes());
            assert!(!input.eof);
        }
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
