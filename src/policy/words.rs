//! A command line as words, without a shell.
//!
//! Blanks separate; single and double quotes group, and may begin in the middle of a word; a
//! backslash is an ordinary character. What a shell would act on is refused, so that nobody
//! believes a shell is there.
//!
//! Architecture invariant: pure, one pass, memory in proportion to the line.

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// What the program sees.
    pub text: String,
    /// Whether any of it was in quotes.
    pub quoted: bool,
}

/// Why a line has no words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// A shell would act on it.
    #[error("character {0:?} is not allowed outside quotes")]
    Metacharacter(char),
    /// A shell would see two commands.
    #[error("line break {0:?} is not allowed outside quotes")]
    LineBreak(char),
    /// The end of the line is inside quotes.
    #[error("quote {0} is not closed")]
    OpenQuote(char),
    /// The system would see a shorter word.
    #[error("a NUL character is not allowed")]
    Nul,
}

/// The words of a line.
pub fn split(line: &str) -> Result<Vec<Word>, WordError> {
    let mut words = Words::default();
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (_, '\0') => return Err(WordError::Nul),
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                words.open_quote();
            }
            (None, ' ' | '\t') => words.end(),
            (None, '|' | '&' | ';' | '>' | '<' | '$' | '`' | '(' | ')') => {
                return Err(WordError::Metacharacter(c));
            }
            (None, _) if is_line_break(c) => return Err(WordError::LineBreak(c)),
            _ => words.push(c),
        }
    }
    match quote {
        Some(open) => Err(WordError::OpenQuote(open)),
        None => Ok(words.finish()),
    }
}

/// The words of a line that a shell will read, as far as they can be known without being that
/// shell: quotes are taken off, line breaks separate, and `escape` vanishes from before the
/// character that it protects.
pub fn guess(line: &str, escape: Option<char>) -> Vec<Word> {
    let mut words = Words::default();
    let mut quote = None;
    let mut escaped = false;
    for c in line.chars() {
        match (quote, c) {
            _ if escaped => {
                escaped = false;
                // A line break after an escape joins two lines.
                if !is_line_break(c) {
                    words.push(c);
                }
            }
            (Some(open), _) if c == open => quote = None,
            (None | Some('"'), _) if Some(c) == escape => escaped = true,
            (None, '"' | '\'') => {
                quote = Some(c);
                words.open_quote();
            }
            (None, _) if matches!(c, ' ' | '\t') || is_line_break(c) => words.end(),
            _ => words.push(c),
        }
    }
    words.finish()
}

/// Every character at which Unicode breaks a line, so that a log viewer sees one line too.
fn is_line_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

#[derive(Debug, Default)]
struct Words {
    done: Vec<Word>,
    current: Option<Word>,
}

impl Words {
    fn current(&mut self) -> &mut Word {
        self.current.get_or_insert_with(|| Word {
            text: String::new(),
            quoted: false,
        })
    }

    fn push(&mut self, c: char) {
        self.current().text.push(c);
    }

    fn open_quote(&mut self) {
        self.current().quoted = true;
    }

    fn end(&mut self) {
        self.done.extend(self.current.take());
    }

    fn finish(mut self) -> Vec<Word> {
        self.end();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(words: Vec<Word>) -> Vec<String> {
        words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn blanks_separate_and_quotes_group() {
        for (line, words) in [
            ("", &[][..]),
            (" \t ", &[]),
            ("npm  run\tdev ", &["npm", "run", "dev"]),
            ("a \"\" ''", &["a", "", ""]),
            (r#"'a "b" c' "d 'e' f""#, &[r#"a "b" c"#, "d 'e' f"]),
            (r#"g"h i"j"#, &["gh ij"]),
            (
                r#"C:\dir\new "C:\Program Files\""#,
                &[r"C:\dir\new", r"C:\Program Files\"],
            ),
            ("echo '|&;><$`()\n'", &["echo", "|&;><$`()\n"]),
            ("a\u{a0}b c", &["a\u{a0}b", "c"]),
        ] {
            assert_eq!(texts(split(line).unwrap()), words, "{line:?}");
        }
    }

    #[test]
    fn what_a_shell_would_act_on_is_named() {
        for c in "|&;><$`()".chars() {
            assert_eq!(split(&format!("a{c}b")), Err(WordError::Metacharacter(c)));
            assert!(WordError::Metacharacter(c).to_string().contains(c));
        }
        for c in "\n\r\u{b}\u{c}\u{85}\u{2028}\u{2029}".chars() {
            assert_eq!(split(&format!("a {c}b")), Err(WordError::LineBreak(c)));
        }
        assert_eq!(split("a \"b"), Err(WordError::OpenQuote('"')));
        assert_eq!(split("a 'b\"\" c"), Err(WordError::OpenQuote('\'')));
        assert_eq!(split("a '\0'"), Err(WordError::Nul));
    }

    #[test]
    fn a_guess_sees_through_quotes_and_escapes() {
        for (line, escape, words) in [
            ("r\\m  '-r'f", Some('\\'), &["rm", "-rf"][..]),
            (
                "git pu\\\nsh\n--force",
                Some('\\'),
                &["git", "push", "--force"],
            ),
            ("d^el \"x y\"", Some('^'), &["del", "x y"]),
            (r"'a\b' \'", Some('\\'), &[r"a\b", "'"]),
            (r"C:\dir", None, &[r"C:\dir"]),
            ("a | 'open", None, &["a", "|", "open"]),
        ] {
            assert_eq!(texts(guess(line, escape)), words, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn words_in_quotes_come_back(words in prop::collection::vec("[^'\0]{0,12}", 0..6)) {
            let line: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(texts(split(&line.join("  ")).unwrap()), words);
        }

        #[test]
        fn no_line_has_words_that_a_shell_would_act_on(line in "[a-c |&;\n\"'$]{0,24}") {
            if split(&line).is_ok() {
                let mut quote = None;
                for c in line.chars() {
                    match quote {
                        Some(open) if open == c => quote = None,
                        None if matches!(c, '"' | '\'') => quote = Some(c),
                        None => prop_assert!(!"|&;\n$".contains(c)),
                        Some(_) => {}
                    }
                }
                prop_assert_eq!(quote, None);
            }
        }
    }
}
