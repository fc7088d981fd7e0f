//! `pty` in `start` and `resize` in `send`: a terminal and its size.

use serde_json::Value;

use super::Failure;
use super::args::Args;
use crate::platform::WindowSize;

/// What a terminal has always been.
const DEFAULT: WindowSize = WindowSize { cols: 80, rows: 24 };

/// A screen is kept in memory and drawn as a whole. One column has no room for a wide character.
const COLS: std::ops::RangeInclusive<u16> = 2..=500;
const ROWS: std::ops::RangeInclusive<u16> = 1..=200;

/// The terminal that a process is to have; where nothing is said of it, the one that it had before.
pub(super) fn pty(
    args: &mut Args,
    before: Option<WindowSize>,
) -> Result<Option<WindowSize>, Failure> {
    Ok(match args.value("pty") {
        None => before,
        Some(Value::Bool(wanted)) => wanted.then_some(DEFAULT),
        Some(value) => Some(window("pty", value)?),
    })
}

/// A size, where one is given.
pub(super) fn size(args: &mut Args, name: &'static str) -> Result<Option<WindowSize>, Failure> {
    args.value(name)
        .map(|value| window(name, value))
        .transpose()
}

fn window(name: &str, value: Value) -> Result<WindowSize, Failure> {
    let Value::Object(sides) = value else {
        let or = if name == "pty" { "true or " } else { "" };
        return Err(Failure(format!(
            "{name} must be {or}an object such as {{\"cols\": 80, \"rows\": 24}}, not {value}"
        )));
    };
    let mut sides = Args::nested(name, sides, &["cols", "rows"])?;
    let mut within = |side: &'static str, usual: u16, range: std::ops::RangeInclusive<u16>| {
        let Some(count) = sides.count(side)? else {
            return Ok(usual);
        };
        match u16::try_from(count) {
            Ok(count) if range.contains(&count) => Ok(count),
            _ => Err(Failure(format!(
                "{name}.{side} must be between {} and {}, not {count}",
                range.start(),
                range.end()
            ))),
        }
    };
    Ok(WindowSize {
        cols: within("cols", DEFAULT.cols, COLS)?,
        rows: within("rows", DEFAULT.rows, ROWS)?,
    })
}
