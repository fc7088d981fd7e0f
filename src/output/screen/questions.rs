//! What a program asks its terminal, and what this one answers.
//!
//! A program that gets no answer waits: some for a moment, some for ever. So every common question
//! has an answer, and what this terminal does not have it says it does not know.

use super::Facts;

/// The answer to a control sequence, where it is a question.
pub(super) fn answer(sequence: &str, facts: &Facts) -> Option<String> {
    let Facts {
        cols,
        rows,
        column,
        row,
        ..
    } = facts;
    Some(match sequence.strip_prefix("\x1b[")? {
        // How are you? Well.
        "5n" => "\x1b[0n".into(),
        "6n" => format!("\x1b[{row};{column}R"),
        "?6n" => format!("\x1b[?{row};{column}R"),
        // What are you? A VT220 with colours.
        "c" | "0c" => "\x1b[?62;22c".into(),
        ">c" | ">0c" => "\x1b[>0;10;0c".into(),
        "=c" | "=0c" => "\x1bP!|00000000\x1b\\".into(),
        ">q" | ">0q" => format!("\x1bP>|mcp-sidecar({})\x1b\\", env!("CARGO_PKG_VERSION")),
        "18t" => format!("\x1b[8;{rows};{cols}t"),
        other => mode(other.strip_suffix("$p")?, facts)?,
    })
}

/// The answer to a string, where it is a question.
pub(super) fn answer_string(string: &str) -> Option<String> {
    let colours = [
        ("\x1b]10;?", "10;rgb:ffff/ffff/ffff"),
        ("\x1b]11;?", "11;rgb:0000/0000/0000"),
    ];
    for (question, colour) in colours {
        if let Some(end) = string.strip_prefix(question) {
            return Some(format!("\x1b]{colour}{end}"));
        }
    }
    if string.starts_with("\x1bP+q") {
        return Some("\x1bP0+r\x1b\\".into());
    }
    string
        .starts_with("\x1bP$q")
        .then(|| "\x1bP0$r\x1b\\".into())
}

/// Whether a mode is set (1), reset (2) or unknown (0).
fn mode(asked: &str, facts: &Facts) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let set = |set: bool| if set { 1 } else { 2 };
    let (number, state) = match asked {
        "?1" => (asked, set(facts.application_cursor)),
        "?25" => (asked, set(facts.cursor_visible)),
        _ => (asked, 0),
    };
    is_number(number.trim_start_matches('?')).then(|| format!("\x1b[{number};{state}$y"))
}
