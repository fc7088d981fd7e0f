//! What may be started, decided before anything is.
//!
//! A [`Policy`] takes a request apart (command line, directory, variables) and answers with a
//! [`Permit`], without which nothing can be started, or with a [`Refusal`]. In secure mode (an
//! allowlist is set) the line is split into words, the program is resolved to one file, and the
//! permit says exactly what runs; without, the line goes to the shell, and patterns and
//! directories are all that is looked at.
//!
//! Architecture invariant: pure, but for `host`, which looks at files. The rules of both kinds of
//! systems are here on every system, as values.

#[cfg(test)]
mod attacks;
mod environment;
mod host;
pub mod list;
mod paths;
mod patterns;
mod refusal;
mod resolve;
mod rule;
mod warnings;
mod windows;
pub mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::guard::protocol::{Identity, Pin};
use resolve::{Miss, resolve};
use words::Word;

pub use environment::Variables;
pub use host::Disk;
pub use paths::Flavour;
pub use patterns::Patterns;
pub use refusal::{Refusal, Rule};
pub use resolve::FileSystem;
pub use rule::{Executable, Shape};

/// What a configuration allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Programs that may be run with any arguments.
    pub executables: Vec<Executable>,
    /// Whole commands that may be run.
    pub commands: Vec<Shape>,
    /// What no command may match.
    pub patterns: Patterns,
    /// Canonical directories in which everything runs; none is no restriction.
    pub directories: Vec<String>,
    /// The variables that a caller may set; none is all that nothing speaks against. In secure mode.
    pub variables: Option<Variables>,
}

impl Settings {
    /// Whether commands run without a shell, and only allowed ones.
    pub fn is_secure(&self) -> bool {
        !self.executables.is_empty() || !self.commands.is_empty()
    }

    /// What an operator should know of these settings, a line each.
    pub fn warnings(&self) -> Vec<String> {
        warnings::of(self)
    }
}

/// The server's surroundings, as they were at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    flavour: Flavour,
    /// The directories of its `PATH`.
    path: Vec<String>,
    /// Its `PATHEXT`, which only Windows has.
    extensions: String,
    cwd: String,
}

impl World {
    /// Of a server in this directory. What is empty or relative in `PATH` is left out: it would
    /// mean another file with every directory.
    pub fn new(
        flavour: Flavour,
        cwd: &str,
        path: impl IntoIterator<Item = String>,
        extensions: Option<&str>,
    ) -> Self {
        Self {
            flavour,
            path: path
                .into_iter()
                .filter(|directory| flavour.is_absolute(directory))
                .collect(),
            extensions: extensions.unwrap_or(windows::USUAL_EXTENSIONS).to_owned(),
            cwd: cwd.to_owned(),
        }
    }
}

/// What is to be started.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The command line.
    pub line: &'a str,
    /// Where; none is the server's own directory.
    pub cwd: Option<&'a str>,
    /// The variables that are set or unset.
    pub env: &'a BTreeMap<String, Option<String>>,
}

/// What may be started. Only a policy gives one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    program: Option<Program>,
    directory: Option<PathBuf>,
    pins: Vec<Pin>,
}

impl Permit {
    /// What runs in place of a shell; none is the shell.
    pub fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    /// Where it runs, if that was decided here.
    pub fn directory(&self) -> Option<&PathBuf> {
        self.directory.as_ref()
    }

    /// What must still be the same file when it is used.
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Canonical, so absolute.
    pub path: String,
    /// What it sees as its own name.
    pub argv0: String,
    /// The other words.
    pub args: Vec<String>,
}

/// The one that says what may be started.
#[derive(Debug)]
pub struct Policy {
    settings: Settings,
    world: World,
    files: Box<dyn FileSystem>,
}

impl Policy {
    /// Of a server in this world.
    pub fn new(settings: Settings, world: World, files: Box<dyn FileSystem>) -> Self {
        Self {
            settings,
            world,
            files,
        }
    }

    /// Whether only allowed commands may be.
    pub fn is_secure(&self) -> bool {
        self.settings.is_secure()
    }

    /// Whether this may be started, and as what.
    pub fn check(&self, request: &Request<'_>) -> Result<Permit, Refusal> {
        let mut permit = Permit {
            program: None,
            directory: None,
            pins: Vec::new(),
        };
        let settings = &self.settings;
        let blocked = if settings.is_secure() {
            let words = words::split(request.line)?;
            let program = self.program(&words)?;
            self.pin(&program.path, &mut permit)?;
            permit.program = Some(program);
            settings.patterns.match_words(request.line, &words)
        } else {
            settings
                .patterns
                .match_line(request.line, self.world.flavour)
        };
        if let Some(pattern) = blocked {
            return Err(Refusal::new(
                Rule::Pattern,
                format!("command matches blocked pattern {pattern:?}"),
                "use a command that does not",
            ));
        }
        if settings.is_secure() {
            self.check_environment(request)?;
        }
        if !settings.directories.is_empty() {
            let (directory, identity) = self.directory(request.cwd)?;
            let pin = identity.map(|identity| Pin {
                path: directory.clone().into(),
                identity,
            });
            permit.pins.extend(pin);
            permit.directory = Some(directory.into());
        }
        Ok(permit)
    }

    fn program(&self, words: &[Word]) -> Result<Program, Refusal> {
        let Some((first, rest)) = words.split_first() else {
            return Err(Refusal::new(
                Rule::Words,
                "command is empty".into(),
                "give a program and its arguments",
            ));
        };
        let word = first.text.as_str();
        if self.world.flavour == Flavour::Windows
            && let Some(reason) = windows::wrong_name(word)
        {
            return Err(Refusal::new(
                Rule::FileName,
                format!("executable {:?} cannot be allowed: {reason}", short(word)),
                "give the plain name of an allowed program",
            ));
        }
        let resolve = |entry| resolve(&self.world, &*self.files, word, entry);
        let mut closest = Miss::Other;
        let mut wrong_arguments = false;
        let executables = self.settings.executables.iter().map(|entry| (entry, true));
        let commands = self.settings.commands.iter();
        let commands = commands.map(|shape| (&shape.program, shape.fits(rest)));
        for (entry, fits) in executables.chain(commands) {
            match resolve(entry) {
                Ok(found) if fits => {
                    return Ok(Program {
                        path: found.path,
                        argv0: found.argv0,
                        args: rest.iter().map(|word| word.text.clone()).collect(),
                    });
                }
                Ok(_) => wrong_arguments = true,
                Err(miss) => closest = closest.max(miss),
            }
        }
        Err(if wrong_arguments {
            Refusal::new(
                Rule::Arguments,
                format!(
                    "arguments of executable {:?} match no allowed command",
                    short(word)
                ),
                &format!("allowed are {}", self.allowed()),
            )
        } else {
            self.missed(word, closest)
        })
    }

    fn missed(&self, word: &str, miss: Miss) -> Refusal {
        let name = self.world.flavour.base(word);
        let word = short(word);
        let (rule, reason) = match miss {
            Miss::Other => (
                Rule::Executable,
                format!("executable {word:?} is not in allowed list"),
            ),
            Miss::Planted => (
                Rule::Place,
                format!(
                    "executable {word:?} is not in allowed list: {name:?} is allowed only in a directory of the server's \
                     PATH, and this file is in none"
                ),
            ),
            Miss::Missing => (
                Rule::Program,
                format!("executable {word:?} is allowed, but there is no such file for the server"),
            ),
            Miss::NotExecutable => (
                Rule::Program,
                format!(
                    "executable {word:?} is allowed, but permission to execute the file is denied"
                ),
            ),
            Miss::NotAProgram => (
                Rule::Program,
                format!(
                    "executable {word:?} is a batch file or a document, which only cmd can run"
                ),
            ),
        };
        Refusal::new(rule, reason, &format!("allowed are {}", self.allowed()))
    }

    /// What a caller may use instead, as the rest of a sentence.
    fn allowed(&self) -> String {
        let executables = self.settings.executables.iter().map(|entry| &entry.text);
        let commands = self.settings.commands.iter().map(|shape| &shape.text);
        enumerate(executables.chain(commands))
    }

    fn check_environment(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let names = request.env.keys().map(String::as_str);
        let allowed = self.settings.variables.as_ref();
        let Some(name) = environment::first_refused(names, allowed, self.world.flavour) else {
            return Ok(());
        };
        let reason = format!(
            "environment variable {:?} is not allowed in secure mode",
            short(name)
        );
        let advice = match allowed {
            Some(allowed) => format!("allowed are {}", enumerate(allowed.texts())),
            None => "it could make an allowed program run something else, so leave it as the server has it; who runs \
                     the server can allow variables in SIDECAR_ALLOWED_ENV"
                .into(),
        };
        Err(Refusal::new(Rule::Environment, reason, &advice))
    }

    fn directory(&self, cwd: Option<&str>) -> Result<(String, Option<Identity>), Refusal> {
        let flavour = self.world.flavour;
        let shown = cwd.unwrap_or(&self.world.cwd);
        let path = match cwd {
            Some(cwd) if !flavour.is_absolute(cwd) => flavour.join(&self.world.cwd, cwd),
            _ => shown.to_owned(),
        };
        let allowed = &self.settings.directories;
        let within = |(directory, _): &(String, _)| {
            allowed
                .iter()
                .any(|root| flavour.is_within(directory, root))
        };
        // A system that takes a path up to its first NUL would look at another one.
        Some(path)
            .filter(|path| !path.contains('\0'))
            .and_then(|path| self.files.locate(&path).ok())
            .filter(within)
            .ok_or_else(|| {
                Refusal::new(
                    Rule::Directory,
                    // In the same words whether it exists: that is not for everybody to know.
                    format!(
                        "cwd {:?} is not in an allowed directory, or is no directory",
                        short(shown)
                    ),
                    &format!("give a cwd in one of {allowed:?}"),
                )
            })
    }

    fn pin(&self, path: &str, permit: &mut Permit) -> Result<(), Refusal> {
        match self.files.identity(path) {
            Ok(None) => Ok(()),
            Ok(Some(identity)) => {
                permit.pins.push(Pin {
                    path: path.into(),
                    identity,
                });
                Ok(())
            }
            Err(error) => Err(Refusal::new(
                Rule::Program,
                format!("{path:?} cannot be looked at: {error}"),
                "try again",
            )),
        }
    }
}

/// The first of some entries, for a sentence.
fn enumerate<'a>(texts: impl Iterator<Item = &'a String>) -> String {
    const MOST: usize = 20;
    let all: Vec<_> = texts.map(|text| format!("{text:?}")).collect();
    let more = if all.len() > MOST { ", ..." } else { "" };
    format!("{}{more}", all[..all.len().min(MOST)].join(", "))
}

/// The beginning of what a caller gave, for a sentence.
fn short(text: &str) -> String {
    const LONGEST: usize = 120;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}
