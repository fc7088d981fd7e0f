//! Lists in settings: commas separate, `\,` is a comma that does not.

/// The entries of a list, without blanks around them; what is blank is no entry.
pub fn entries(value: &str) -> Vec<String> {
    let mut entries = vec![String::new()];
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        let comma = c == '\\' && chars.next_if_eq(&',').is_some();
        match entries.last_mut() {
            Some(entry) if comma => entry.push(','),
            Some(entry) if c != ',' => entry.push(c),
            _ => entries.push(String::new()),
        }
    }
    entries
        .iter()
        .map(|entry| entry.trim().to_owned())
        .filter(|entry| !entry.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::entries;

    #[test]
    fn commas_separate_unless_they_are_escaped() {
        for (value, expected) in [
            ("", &[][..]),
            (" , ,", &[]),
            (" echo , printf,, ", &["echo", "printf"]),
            (r"a{1\,3},\d+", &["a{1,3}", r"\d+"]),
            (r"a\\,b", &[r"a\,b"]),
            (r"C:\x,\", &[r"C:\x", r"\"]),
            ("git status, npm run dev", &["git status", "npm run dev"]),
        ] {
            assert_eq!(entries(value), expected, "{value}");
        }
    }
}
