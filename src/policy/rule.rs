//! What a configuration allows: executables, and whole commands by their shape.

use super::paths::Flavour;
use super::windows;
use super::words::{self, Word};

/// An executable that may be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    pub(super) text: String,
    pub(super) kind: Kind,
}

/// How an executable was named, which says what else means it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A base name: any file of that name in a directory of the server's `PATH`.
    Name,
    /// A path below the server's own directory, in exactly this spelling.
    Relative,
    /// One file.
    Absolute,
}

impl Executable {
    /// An entry of the list as it was written.
    pub fn new(text: &str, flavour: Flavour) -> Self {
        let kind = if flavour.is_absolute(text) {
            Kind::Absolute
        } else if flavour.has_separator(text) {
            Kind::Relative
        } else {
            Kind::Name
        };
        Self {
            text: text.to_owned(),
            kind,
        }
    }

    /// Whether this entry speaks of a program of that name at all, wherever it lies.
    pub(super) fn has_base(&self, word: &str, flavour: Flavour) -> bool {
        let (own, base) = (flavour.base(&self.text), flavour.base(word));
        match flavour {
            Flavour::Unix => own == base,
            Flavour::Windows => windows::is_named(own, base) || windows::is_named(base, own),
        }
    }
}

/// A whole command that may be run: a program, and a place for each of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    pub(super) text: String,
    pub(super) program: Executable,
    arguments: Vec<Argument>,
    /// Whether anything may follow.
    open: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Argument {
    Exactly(String),
    Any,
}

impl Shape {
    /// Reads a shape, or tells what is wrong with it.
    pub fn parse(text: &str, flavour: Flavour) -> Result<Self, String> {
        let wrong = |reason: &str| format!("{text:?}: {reason}");
        let words = words::split(text).map_err(|error| wrong(&error.to_string()))?;
        let Some((program, mut rest)) = words.split_first() else {
            return Err(wrong("it has no word"));
        };
        if program.text.is_empty() || (program.text.contains('*') && !program.quoted) {
            return Err(wrong("its first word must name one program"));
        }
        let open = rest.split_last().filter(|(last, _)| last.is("**"));
        if let Some((_, before)) = open {
            rest = before;
        }
        let argument = |word: &Word| {
            if word.is("*") {
                Ok(Argument::Any)
            } else if word.text.contains('*') && !word.quoted {
                Err(wrong(
                    "* stands for one whole word and ** for the rest at the end; a star that is meant as it is needs \
                     quotes",
                ))
            } else {
                Ok(Argument::Exactly(word.text.clone()))
            }
        };
        Ok(Self {
            text: text.to_owned(),
            program: Executable::new(&program.text, flavour),
            arguments: rest.iter().map(argument).collect::<Result<_, _>>()?,
            open: open.is_some(),
        })
    }

    /// Whether these arguments fit.
    pub(super) fn fits(&self, arguments: &[Word]) -> bool {
        let fits = |(own, word): (&Argument, &Word)| match own {
            Argument::Any => true,
            Argument::Exactly(text) => *text == word.text,
        };
        (arguments.len() == self.arguments.len()
            || (self.open && arguments.len() > self.arguments.len()))
            && self.arguments.iter().zip(arguments).all(fits)
    }

    /// Whether the caller chooses any of its arguments.
    pub(super) fn has_stars(&self) -> bool {
        self.open || self.arguments.contains(&Argument::Any)
    }
}

impl Word {
    fn is(&self, star: &str) -> bool {
        self.text == star && !self.quoted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(shape: &str, arguments: &str) -> bool {
        let shape = Shape::parse(shape, Flavour::Unix).unwrap();
        shape.fits(&words::split(arguments).unwrap())
    }

    #[test]
    fn each_word_has_its_place() {
        for (shape, yes, no) in [
            (
                "git status",
                &["status", "'status'"][..],
                &["", "status -s", "stat", "STATUS"][..],
            ),
            (
                "node server.js --port *",
                &["server.js --port 80", "server.js --port ''"],
                &[
                    "server.js --port",
                    "server.js --port 80 x",
                    "evil.js --port 80",
                    "--port 80 server.js",
                ],
            ),
            (
                "npm run **",
                &["run", "run dev", "run dev --x"],
                &["", "install", "--x run"],
            ),
            ("ls", &[""], &["-l"]),
            ("a * **", &["x", "x y z"], &[""]),
            ("a '*' \"b c\"", &["'*' 'b c'"], &["x 'b c'", "* b c"]),
            ("a ''", &["''"], &[""]),
        ] {
            for arguments in yes {
                assert!(fits(shape, arguments), "{shape}: {arguments}");
            }
            for arguments in no {
                assert!(!fits(shape, arguments), "{shape}: {arguments}");
            }
        }
    }

    #[test]
    fn a_shape_that_would_surprise_is_none() {
        for shape in [
            "", "* x", "** x", "n*de x", "'' x", "a ** b", "a --x=*", "a | b", "a 'b", "a ***",
        ] {
            let error = Shape::parse(shape, Flavour::Unix).unwrap_err();
            assert!(error.contains(&format!("{shape:?}")), "{error}");
        }
    }

    #[test]
    fn an_entry_is_what_its_spelling_says() {
        for (text, flavour, kind) in [
            ("node", Flavour::Unix, Kind::Name),
            ("./build.sh", Flavour::Unix, Kind::Relative),
            ("bin/x", Flavour::Unix, Kind::Relative),
            ("/usr/bin/node", Flavour::Unix, Kind::Absolute),
            (r"a\b", Flavour::Unix, Kind::Name),
            (r"a\b", Flavour::Windows, Kind::Relative),
            (r"C:\node.exe", Flavour::Windows, Kind::Absolute),
        ] {
            assert_eq!(Executable::new(text, flavour).kind, kind, "{text}");
        }
    }
}
