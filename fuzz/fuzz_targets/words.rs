//! Whatever the line, its words hold what it says, in order, and nothing that a shell would act on
//! was outside quotes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_sidecar::policy::words::{WordError, guess, split};

const REFUSED: &str = "|&;><$`()\n\r\u{b}\u{c}\u{85}\u{2028}\u{2029}";

fuzz_target!(|line: &str| {
    guess(line, Some('\\'));
    let outside = outside_quotes(line);
    match split(line) {
        Ok(words) => {
            let outside = outside.expect("every quote is closed");
            assert!(!outside.contains(|c| REFUSED.contains(c)) && !line.contains('\0'));
            // The same words, each in quotes, are the same words.
            let quotable =
                |word: &str| ['\'', '"'].into_iter().find(|quote| !word.contains(*quote));
            let quoted: Option<Vec<_>> = words
                .iter()
                .map(|word| {
                    quotable(&word.text).map(|quote| format!("{quote}{}{quote}", word.text))
                })
                .collect();
            if let Some(quoted) = quoted {
                let again = split(&quoted.join("\t ")).expect("everything is in quotes");
                assert!(
                    again
                        .iter()
                        .map(|word| &word.text)
                        .eq(words.iter().map(|word| &word.text))
                );
            }
            // Nothing that is read as words with a shell's eyes in mind differs from them.
            let texts = |words: Vec<_>| {
                words
                    .into_iter()
                    .map(|word: mcp_sidecar::policy::words::Word| word.text)
            };
            assert!(texts(guess(line, None)).eq(texts(words)));
        }
        Err(WordError::Nul) => assert!(line.contains('\0')),
        Err(WordError::OpenQuote(_)) => assert!(outside.is_none()),
        Err(WordError::Metacharacter(c) | WordError::LineBreak(c)) => {
            assert!(REFUSED.contains(c) && line.contains(c));
        }
    }
});

/// What is not in quotes, or nothing where a quote is open at the end.
fn outside_quotes(line: &str) -> Option<String> {
    let mut outside = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['"', '\'']) {
        outside.push_str(&rest[..at]);
        let quote = rest[at..].chars().next()?;
        let inside = &rest[at + 1..];
        rest = &inside[inside.find(quote)? + 1..];
    }
    outside.push_str(rest);
    Some(outside)
}
