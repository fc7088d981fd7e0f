//! The parameters of a call. Nothing is guessed: what a tool does not have, or what has another
//! type, is an error that says so.

use std::fmt::Display;

use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

/// Parameters that were checked against the tool's schema by name.
#[derive(Debug)]
pub(super) struct Args {
    tool: String,
    values: JsonObject,
}

/// What is wrong with a parameter.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Wrong {
    #[error("{tool} has no parameter {name:?}; {known}")]
    Unknown {
        tool: String,
        name: String,
        known: String,
    },
    #[error("{tool} needs {name:?}, which is missing")]
    Missing { tool: String, name: &'static str },
    #[error("{name} must be {wanted}, not {found}")]
    Type {
        name: String,
        wanted: &'static str,
        found: String,
    },
    #[error("{name} must not contain a NUL character")]
    Nul { name: String },
    #[error(
        "env has the key {key:?}, which cannot name a variable: a key must not be empty or contain \"=\""
    )]
    Key { key: String },
}

impl Args {
    /// `null` counts as absent.
    pub(super) fn new(tool: &Tool, arguments: Option<JsonObject>) -> Result<Self, Wrong> {
        let mut values = arguments.unwrap_or_default();
        let known = tool
            .input_schema
            .get("properties")
            .and_then(Value::as_object);
        let has = |name: &str| known.is_some_and(|known| known.contains_key(name));
        if let Some(name) = values.keys().find(|name| !has(name)) {
            let known = match known.filter(|known| !known.is_empty()) {
                Some(known) => {
                    format!(
                        "it has {}",
                        known.keys().cloned().collect::<Vec<_>>().join(", ")
                    )
                }
                None => "it has none".into(),
            };
            return Err(Wrong::Unknown {
                tool: tool.name.to_string(),
                name: name.clone(),
                known,
            });
        }
        values.retain(|_, value| !value.is_null());
        Ok(Self {
            tool: tool.name.to_string(),
            values,
        })
    }

    /// What is in an object that is a parameter, and may have these keys.
    pub(super) fn nested(
        name: &str,
        values: impl IntoIterator<Item = (String, Value)>,
        keys: &[&str],
    ) -> Result<Self, Wrong> {
        let mut values: JsonObject = values.into_iter().collect();
        if let Some(unknown) = values.keys().find(|key| !keys.contains(&&***key)) {
            return Err(Wrong::Unknown {
                tool: name.into(),
                name: unknown.clone(),
                known: format!("it has {}", keys.join(", ")),
            });
        }
        values.retain(|_, value| !value.is_null());
        Ok(Self {
            tool: name.into(),
            values,
        })
    }

    /// Whatever is given.
    pub(super) fn value(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// A text that must be given.
    pub(super) fn needed_text(&mut self, name: &'static str) -> Result<String, Wrong> {
        self.text(name)?.ok_or_else(|| Wrong::Missing {
            tool: self.tool.clone(),
            name,
        })
    }

    /// A text that may be given.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, Wrong> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong_type(name, "a string", &other)),
        }
    }

    /// Yes or no.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Wrong> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong_type(name, "true or false", &other)),
        }
    }

    /// A number of something; also as `5.0` or `"5"`.
    pub(super) fn count(&mut self, name: &'static str) -> Result<Option<u64>, Wrong> {
        let Some(value) = self.values.remove(name) else {
            return Ok(None);
        };
        let count = match &value {
            Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => text
                .trim()
                .parse()
                .ok()
                .or_else(|| text.trim().parse().ok().and_then(whole)),
            _ => None,
        };
        count
            .map(Some)
            .ok_or_else(|| wrong_type(name, "a whole number, at least 0", &value))
    }

    /// An object of variables: strings, or numbers and booleans as their JSON text; `null` unsets.
    pub(super) fn variables(
        &mut self,
        name: &'static str,
    ) -> Result<Vec<(String, Option<String>)>, Wrong> {
        let variables = match self.values.remove(name) {
            None => return Ok(Vec::new()),
            Some(Value::Object(variables)) => variables,
            Some(other) => {
                return Err(wrong_type(name, "an object of names and values", &other));
            }
        };
        variables
            .into_iter()
            .map(|(key, value)| variable(name, key, &value))
            .collect()
    }
}

/// A text that goes to the system, where a NUL would end it.
pub(super) fn without_nul(name: impl Display, text: String) -> Result<String, Wrong> {
    if text.contains('\0') {
        Err(Wrong::Nul {
            name: name.to_string(),
        })
    } else {
        Ok(text)
    }
}

fn variable(name: &str, key: String, value: &Value) -> Result<(String, Option<String>), Wrong> {
    if key.is_empty() || key.contains('=') {
        return Err(Wrong::Key { key });
    }
    let shown = format!("{name}.{}", key.escape_debug());
    let key = without_nul(&shown, key)?;
    let value = match value {
        Value::Null => None,
        Value::String(text) => Some(without_nul(&shown, text.clone())?),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => {
            return Err(wrong_type(
                &shown,
                "a string, a number, a boolean or null",
                value,
            ));
        }
    };
    Ok((key, value))
}

fn wrong_type(name: &str, wanted: &'static str, found: &Value) -> Wrong {
    const LONGEST: usize = 60;
    let mut found = found.to_string();
    if found.len() > LONGEST {
        found.truncate(found.floor_char_boundary(LONGEST));
        found.push_str("...");
    }
    Wrong::Type {
        name: name.into(),
        wanted,
        found,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
fn whole(number: f64) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn args(values: Value) -> Result<Args, Wrong> {
        let tool = super::super::tool(
            "demo",
            "",
            super::super::looks(),
            json!({ "id": {}, "tail": {}, "env": {} }),
            &["id"],
        );
        let Value::Object(values) = values else {
            panic!()
        };
        Args::new(&tool, Some(values))
    }

    #[test]
    fn an_unknown_parameter_is_named_with_those_there_are() {
        let error = args(json!({ "tial": 3 })).unwrap_err().to_string();
        assert_eq!(
            error,
            "demo has no parameter \"tial\"; it has env, id, tail"
        );
    }

    #[test]
    fn null_counts_as_absent_and_absence_is_named() {
        let error = args(json!({ "id": null }))
            .unwrap()
            .needed_text("id")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "demo needs \"id\", which is missing");
    }

    #[test]
    fn a_wrong_type_is_told_with_the_value() {
        let error = args(json!({ "id": 5 }))
            .unwrap()
            .needed_text("id")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "id must be a string, not 5");
    }

    #[test]
    fn numbers_come_in_several_forms() {
        for (value, count) in [
            (json!(5), 5),
            (json!(5.0), 5),
            (json!("5"), 5),
            (json!(" 5.0 "), 5),
            (json!(0), 0),
        ] {
            assert_eq!(
                args(json!({ "tail": value })).unwrap().count("tail"),
                Ok(Some(count))
            );
        }
        for value in [
            json!(-1),
            json!(1.5),
            json!("five"),
            json!("-1"),
            json!(true),
            json!([1]),
            json!(""),
        ] {
            assert!(
                args(json!({ "tail": value }))
                    .unwrap()
                    .count("tail")
                    .is_err(),
                "{value}"
            );
        }
    }

    #[test]
    fn variables_are_texts_or_their_json_text() {
        let mut args =
            args(json!({ "env": { "A": "x", "B": 1_700_000_000, "C": true, "D": null, "E": "" } }))
                .unwrap();
        let text = |text: &str| Some(text.to_string());
        assert_eq!(
            args.variables("env").unwrap(),
            [
                ("A".into(), text("x")),
                ("B".into(), text("1700000000")),
                ("C".into(), text("true")),
                ("D".into(), None),
                ("E".into(), text(""))
            ]
        );
    }

    #[test]
    fn a_bad_variable_is_named() {
        for (env, word) in [
            (json!({ "A": {} }), "env.A"),
            (json!({ "A": [1] }), "env.A"),
            (json!({ "": "x" }), "\"\""),
            (json!({ "A=B": "x" }), "A=B"),
            (json!({ "A": "x\0y" }), "env.A"),
            (json!({ "A\0B": "x" }), "env.A"),
            (json!("A=B"), "env"),
        ] {
            let error = args(json!({ "env": env }))
                .unwrap()
                .variables("env")
                .unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
