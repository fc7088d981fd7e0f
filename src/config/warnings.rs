//! Variables that do less than whoever set them may believe. None of this ends the server: it is
//! told when it starts, and by `doctor`.

use std::ffi::OsString;

use super::protection::{COMMANDS, DIRS, ENV, EXECUTABLES, PATTERNS};
use super::{AUDIT_LOG, VARIABLES};
use crate::policy::Flavour;

const PREFIX: &str = "SIDECAR_";

/// Those whose absence is a protection less.
const PROTECTIVE: [&str; 6] = [EXECUTABLES, COMMANDS, DIRS, ENV, PATTERNS, AUDIT_LOG];

/// What names a directory here, and a state elsewhere.
const SWITCHES: [&str; 10] = [
    "true", "false", "1", "0", "yes", "no", "on", "off", "none", "temp",
];

/// A line for each of these variables, with its value, that is worth one.
pub fn warnings(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<String> {
    let mut variables: Vec<(String, OsString)> = variables
        .into_iter()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
        .collect();
    variables.sort();
    let is = |name: &str, known: &str| Flavour::HERE.same(name, known);
    let has_value = |wanted: &[&str]| {
        let mut set = variables.iter().filter(|(_, value)| !value.is_empty());
        set.any(|(name, _)| wanted.iter().any(|wanted| is(name, wanted)))
    };
    let secure = has_value(&[EXECUTABLES, COMMANDS]);
    let warning = |(name, value): &(String, OsString)| {
        let shown = name.escape_debug();
        if is(name, "PATH") {
            let gap = |directory: std::path::PathBuf| !directory.is_absolute();
            let gaps = secure && std::env::split_paths(value).any(gap);
            return gaps.then(|| {
                format!(
                    "{shown} holds an empty or relative directory: allowed programs look for others in the directory \
                     that a caller chooses"
                )
            });
        }
        if !name.to_uppercase().starts_with(PREFIX) {
            return None;
        }
        if !VARIABLES.iter().any(|known| is(name, known.name)) {
            let nearest = nearest(&name.to_uppercase());
            return Some(format!(
                "{shown} is not known and does nothing; the nearest that is known is {nearest}"
            ));
        }
        if value.is_empty() {
            let protective = PROTECTIVE.iter().any(|known| is(name, known));
            return protective.then(|| {
                format!("{shown} is set but empty, which counts as not set: it protects nothing")
            });
        }
        if is(name, ENV) && !secure {
            return Some(format!(
                "{shown} holds only in secure mode, which {EXECUTABLES} or {COMMANDS} turns on"
            ));
        }
        let value = value.to_string_lossy();
        let value = value.trim();
        let switch = SWITCHES.contains(&&*value.to_lowercase());
        (is(name, AUDIT_LOG) && switch && !["true", "temp"].contains(&value)).then(|| {
            format!(
                "{shown}={value:?} names a directory of that name; true is ./, temp is the system's temporary \
                 directory, and to have no log leave the variable out"
            )
        })
    };
    variables.iter().filter_map(warning).collect()
}

fn nearest(name: &str) -> &'static str {
    let distance = |known: &&'static str| distance(name.as_bytes(), known.as_bytes());
    let known = VARIABLES.iter().map(|known| known.name);
    known.min_by_key(distance).unwrap_or_default()
}

/// How many characters must be put in, taken out or exchanged to make one name of another.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, byte) in one.iter().enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for column in 0..other.len() {
            let exchanged = diagonal + usize::from(*byte != other[column]);
            diagonal = row[column + 1];
            row[column + 1] = exchanged.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Vec<String> {
        let variables = variables.iter();
        warnings(variables.map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn what_is_as_it_should_be_is_not_mentioned() {
        let variables = [
            (EXECUTABLES, "echo"),
            (ENV, "PORT"),
            (AUDIT_LOG, "true"),
            ("SIDECAR_MAX_PROCESSES", ""),
            ("SIDECARS", "x"),
            ("MCP_SIDECAR_X", ""),
        ];
        assert_eq!(of(&variables), Vec::<String>::new());
        for value in ["temp", " true ", "logs", "./false", "/var/log"] {
            assert_eq!(of(&[(AUDIT_LOG, value)]), Vec::<String>::new(), "{value}");
        }
    }

    #[test]
    fn a_protection_that_is_empty_protects_nothing_and_that_is_told() {
        for name in PROTECTIVE {
            let told = of(&[(name, "")]);
            assert!(
                told.len() == 1 && told[0].starts_with(name) && told[0].contains("empty"),
                "{told:?}"
            );
        }
    }

    #[test]
    fn a_misspelt_name_is_told_with_the_right_one() {
        for (name, right) in [
            ("SIDECAR_ALLOWED_EXECUTABLE", EXECUTABLES),
            ("SIDECAR_ALLOWED_DIR", DIRS),
            ("SIDECAR_ALLOWED_COMMAND", COMMANDS),
            ("SIDECAR_AUDITLOG", AUDIT_LOG),
            ("SIDECAR_BLOCKED_PATERNS", PATTERNS),
            ("SIDECAR_ENV_ALLOWED", ENV),
            ("SIDECAR_\nX", "SIDECAR_"),
        ] {
            let told = of(&[(name, "x")]);
            assert!(
                told.len() == 1 && told[0].contains(&format!("known is {right}")),
                "{told:?}"
            );
            assert_eq!(told[0].lines().count(), 1, "{told:?}");
        }
        let folded = of(&[("sidecar_allowed_dirs", "/srv")]);
        assert_eq!(folded.len(), usize::from(cfg!(unix)), "{folded:?}");
    }

    #[test]
    fn a_switch_where_a_directory_is_meant_is_told() {
        for value in ["false", "0", "TRUE", "1", "no", "off", "yes", "On", "Temp"] {
            let told = of(&[(AUDIT_LOG, value)]);
            assert!(
                told.len() == 1 && told[0].contains("directory of that name"),
                "{told:?}"
            );
        }
    }

    #[test]
    fn what_needs_secure_mode_or_undoes_it_is_told() {
        assert!(of(&[(ENV, "PORT")])[0].contains("only in secure mode"));
        assert!(of(&[("PATH", "")]).is_empty());
        let path = std::env::join_paths(["/bin", "", "/usr/bin"]).unwrap();
        let path = path.to_str().unwrap();
        assert!(of(&[("PATH", path)]).is_empty());
        assert!(of(&[("PATH", path), (COMMANDS, "echo")])[0].contains("relative directory"));
    }

    #[test]
    fn a_distance_counts_characters() {
        for (one, other, expected) in [
            ("", "", 0),
            ("A", "", 1),
            ("KITTEN", "SITTING", 3),
            ("AB", "B", 1),
        ] {
            assert_eq!(distance(one.as_bytes(), other.as_bytes()), expected);
        }
    }
}
