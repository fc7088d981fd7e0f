//! What a program's name may not be on Windows, where one file has many names and some names are
//! no files.
//!
//! Architecture invariant: pure, so that its tests run everywhere.

use super::paths::Flavour;

/// What `PATHEXT` is where nobody has set it.
pub(super) const USUAL_EXTENSIONS: &str = ".COM;.EXE;.BAT;.CMD";

/// Names of devices, in every directory and with every extension.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

/// Why a name is not taken, if it is not.
pub(super) fn wrong_name(word: &str) -> Option<&'static str> {
    let base = Flavour::Windows.base(word);
    let after_drive = match word.as_bytes() {
        [drive, b':', ..] if drive.is_ascii_alphabetic() => &word[2..],
        _ => word,
    };
    if word.starts_with(['\\', '/']) {
        Some("it names a network share, a device or the root of a drive that it does not name")
    } else if after_drive.len() < word.len() && !Flavour::Windows.is_absolute(word) {
        Some("what it means depends on a drive's current directory")
    } else if after_drive.contains(':') {
        Some("it names an alternate data stream")
    } else if word.contains(['*', '?', '"', '<', '>', '|']) || word.chars().any(char::is_control) {
        Some("it holds a character that no file name has")
    } else if word
        .split(['\\', '/'])
        .any(|part| part.ends_with([' ', '.']) && part != "." && part != "..")
    {
        Some("a part of it ends with a dot or a blank, which Windows leaves out")
    } else if is_device(base) {
        Some("it is the name of a device")
    } else if is_batch(base) {
        Some("it is a batch file, which cmd would read and not only run")
    } else {
        None
    }
}

/// Whether only `cmd` can run a file of this name.
pub(super) fn is_batch(base: &str) -> bool {
    [".bat", ".cmd"]
        .iter()
        .any(|extension| has_extension(base, extension))
}

/// Whether the system itself runs a file of this name.
pub(super) fn is_program(base: &str) -> bool {
    [".exe", ".com"]
        .iter()
        .any(|extension| has_extension(base, extension))
}

/// The names under which a word is looked for, in order, as `cmd` would.
pub(super) fn candidates(word: &str, extensions: &str) -> Vec<String> {
    let known = |extension: &&str| extension.len() > 1 && extension.starts_with('.');
    let mut extensions = extensions.split(';').map(str::trim).filter(known);
    if extensions
        .clone()
        .any(|extension| has_extension(word, extension))
        || is_program(word)
    {
        return vec![word.to_owned()];
    }
    let mut names: Vec<_> = extensions
        .by_ref()
        .map(|extension| format!("{word}{}", extension.to_ascii_lowercase()))
        .collect();
    names.dedup();
    names
}

/// Whether an entry of the allowlist means the program of this file name: an entry without the
/// extension means it too.
pub(super) fn is_named(entry: &str, file: &str) -> bool {
    let stem = file
        .len()
        .checked_sub(4)
        .and_then(|end| file.get(..end))
        .filter(|_| is_program(file));
    entry.eq_ignore_ascii_case(file) || stem.is_some_and(|stem| entry.eq_ignore_ascii_case(stem))
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.len()
        .checked_sub(extension.len())
        .and_then(|start| name.get(start..))
        .is_some_and(|end| end.eq_ignore_ascii_case(extension))
}

fn is_device(base: &str) -> bool {
    let stem = base.split('.').next().unwrap_or(base).trim_end();
    if DEVICES
        .iter()
        .any(|device| stem.eq_ignore_ascii_case(device))
    {
        return true;
    }
    let mut chars = stem.chars().skip(3);
    let port = stem
        .get(..3)
        .is_some_and(|port| port.eq_ignore_ascii_case("COM") || port.eq_ignore_ascii_case("LPT"));
    port && matches!(
        chars.next(),
        Some('0'..='9' | '\u{b9}' | '\u{b2}' | '\u{b3}')
    ) && chars.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_plain_files_are_told() {
        for (word, reason) in [
            ("node.exe.", "dot or a blank"),
            ("node.exe ", "dot or a blank"),
            (r"C:\dir.\node.exe", "dot or a blank"),
            ("node.exe::$DATA", "data stream"),
            (r"C:\x\readme.txt:evil.exe", "data stream"),
            ("C:node.exe", "current directory"),
            (r"\node.exe", "share"),
            (r"\\server\share\node.exe", "share"),
            (r"\\?\C:\node.exe", "share"),
            ("//./C:/node.exe", "share"),
            ("NUL", "device"),
            ("con.exe", "device"),
            (r"C:\x\COM1.exe", "device"),
            ("lpt\u{b9}", "device"),
            ("CONIN$", "device"),
            ("npm.cmd", "batch"),
            (r"C:\x\RUN.BaT", "batch"),
            ("no?e", "character"),
            ("no\u{7}de", "character"),
        ] {
            let wrong = wrong_name(word).unwrap_or_default();
            assert!(wrong.contains(reason), "{word}: {wrong}");
        }
        for word in [
            "node",
            "node.exe",
            r"C:\x\node.exe",
            r".\build.exe",
            r"..\x",
            "COM",
            "COM10",
            "é",
        ] {
            assert_eq!(wrong_name(word), None, "{word}");
        }
    }

    #[test]
    fn a_word_is_looked_for_as_cmd_does() {
        assert_eq!(
            candidates("node", ".COM;.EXE;.CMD"),
            ["node.com", "node.exe", "node.cmd"]
        );
        assert_eq!(candidates("node.EXE", ".COM;.EXE"), ["node.EXE"]);
        assert_eq!(candidates("v1.2", ".EXE; ;exe"), ["v1.2.exe"]);
        assert_eq!(candidates("a.exe", ".CMD"), ["a.exe"]);
        assert!(candidates("a", "").is_empty());
    }

    #[test]
    fn an_entry_means_a_program_with_and_without_its_extension() {
        assert!(is_named("node", "NODE.EXE") && is_named("Node.exe", "node.exe"));
        assert!(!is_named("node", "node.cmd") && !is_named("node.com", "node.exe"));
        assert!(!is_named("\u{212a}ubectl", "kubectl.exe") && !is_named("", "é"));
    }
}
