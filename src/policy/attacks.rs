//! Ways around an allowlist that were tried on servers like this one, each with the rule that
//! catches it. Whoever finds another one adds a line to the table.

mod disk;
mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::Flavour::{Unix, Windows};
use super::Rule::{Directory, Environment, Pattern};
use super::{
    Executable, Flavour, Patterns, Permit, Policy, Refusal, Request, Rule, Settings, Shape,
    Variables, World, list,
};
use disk::FakeDisk;
use table::{ALLOWED, DIRECTORIES, LINES, VARIABLES, WINDOWS_LINES};

const UNIX_FILES: &str = "
    /bin -> usr/bin
    /usr/bin/busybox*
    /usr/bin/ls -> busybox
    /usr/bin/sh -> busybox
    /usr/bin/rm -> busybox
    /usr/bin/echo*
    /usr/bin/env*
    /usr/bin/git*
    /usr/bin/node*
    /usr/bin/python3.12*
    /usr/bin/python3 -> python3.12
    /usr/bin/dotnet -> ../lib/dotnet/dotnet
    /usr/bin/noexec
    /usr/bin/adir/
    /usr/bin/loop -> loop
    /usr/bin/dangling -> gone
    /usr/lib/dotnet/dotnet*
    /usr/lib/npm/npm-cli.js*
    /usr/bin/npm -> ../lib/npm/npm-cli.js
    /opt/tools/echo*
    /srv/app/build.sh*
    /srv/app/deploy.sh*
    /srv/app/dotnet*
    /srv/app/echo*
    /srv/app/bin/echo*
    /srv/app/bin/node*
    /srv/app/evil/build.sh*
    /srv/app/evil/dotnet*
    /srv/app/evil/node -> /usr/bin/node
    /srv/app/evil/git -> /usr/bin/sh
    /srv/app/evil/python3 -> /usr/bin/python3.12
    /srv/app/evil/usr/bin/echo*
    /srv/app/out -> /etc
    /srv/app/in -> /srv/app/evil
    /srv/app/echo x*
    /srv/app2/
    /srv/usrbin -> /usr/bin
    /tmp/git*
    /tmp/\u{435}cho*
    /etc/passwd
";

const WINDOWS_FILES: &str = r"
    C:\Windows\System32\cmd.exe*
    C:\Windows\System32\where.exe*
    C:\node\node.exe*
    C:\node\npm.cmd*
    C:\node\npm*
    C:\tools\git.exe*
    C:\tools\tool.com*
    C:\tools\tool.exe*
    C:\tools\page.html*
    C:\tools\only.bat*
    C:\srv\app\build.exe*
    C:\srv\app\node.exe*
    C:\srv\app\node*
    C:\srv\app\evil\node.exe*
    C:\srv\app2\x.exe*
";

struct Server {
    flavour: Flavour,
    executables: &'static str,
    commands: &'static str,
    patterns: &'static str,
    directories: &'static [&'static str],
    variables: &'static str,
}

const UNIX: Server = Server {
    flavour: Unix,
    executables: "dotnet,echo,noexec,adir,loop,dangling,nosuch,./build.sh,/usr/bin/git,/usr/bin/python3,/bin/ls",
    commands: "npm run dev,node server.js --port *,./deploy.sh staging **,env '*'",
    patterns: r"push\s+--force,rm\s+-rf,curl.*\|\s*sh,^echo secret",
    directories: &[],
    variables: "",
};

const WINDOWS: Server = Server {
    flavour: Windows,
    executables: r"node,npm,tool.exe,only,page,.\build.exe,C:\tools\git.exe",
    commands: "where *",
    patterns: "secret",
    directories: &[],
    variables: "",
};

const CONFINED: Server = Server {
    executables: "echo",
    commands: "",
    directories: &["/srv/app", "/usr/lib/npm"],
    ..UNIX
};

const PATTERNS_ALONE: Server = Server {
    executables: "",
    commands: "",
    ..UNIX
};

impl Server {
    fn policy(&self) -> Policy {
        let settings = Settings {
            executables: list::entries(self.executables)
                .iter()
                .map(|text| Executable::new(text, self.flavour))
                .collect(),
            commands: list::entries(self.commands)
                .iter()
                .map(|text| Shape::parse(text, self.flavour).unwrap())
                .collect(),
            patterns: Patterns::new(&list::entries(self.patterns)).unwrap(),
            directories: self.directories.iter().map(ToString::to_string).collect(),
            variables: Some(list::entries(self.variables))
                .filter(|entries| !entries.is_empty())
                .map(|entries| Variables::new(&entries).unwrap()),
        };
        let (files, cwd, path) = match self.flavour {
            Unix => (UNIX_FILES, "/srv/app", ":.:bin:./bin::evil:/none:/usr/bin:"),
            Windows => (
                WINDOWS_FILES,
                r"C:\srv\app",
                r";.;evil;\node;C:evil;C:\node;C:\tools;C:\Windows\System32",
            ),
        };
        let separator = if self.flavour == Unix { ':' } else { ';' };
        let path = path.split(separator).map(str::to_owned);
        let world = World::new(self.flavour, cwd, path, None);
        Policy::new(
            settings,
            world,
            Box::new(FakeDisk::new(self.flavour, files)),
        )
    }
}

/// A request: the line, the directory if it is not the server's, and one variable if there is one.
type Attempt = (&'static str, Option<&'static str>, Option<&'static str>);

fn check(policy: &Policy, (line, cwd, variable): Attempt) -> Result<Permit, Refusal> {
    let env: BTreeMap<_, _> = variable
        .iter()
        .map(|variable| match variable.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => ((*variable).to_owned(), None),
        })
        .collect();
    policy.check(&Request {
        line,
        cwd,
        env: &env,
    })
}

#[track_caller]
fn all_are_caught(server: &Server, attempts: &[(&'static str, Rule)]) {
    let policy = server.policy();
    for (line, rule) in attempts {
        match check(&policy, (line, None, None)) {
            Ok(permit) => panic!("{line:?} is let through: {permit:?}"),
            Err(refusal) => assert_eq!(refusal.rule, *rule, "{line:?}: {refusal}"),
        }
    }
}

#[test]
fn no_line_gets_around_the_rules() {
    all_are_caught(&UNIX, LINES);
    all_are_caught(&WINDOWS, WINDOWS_LINES);
    let attempts = LINES.len() + WINDOWS_LINES.len() + DIRECTORIES.len() + VARIABLES.len();
    assert!(attempts >= 240, "{attempts}");
}

#[test]
fn no_directory_leads_outside() {
    let policy = CONFINED.policy();
    for cwd in DIRECTORIES {
        let refusal = check(&policy, ("echo hi", Some(cwd), None)).unwrap_err();
        assert_eq!(refusal.rule, Directory, "{cwd}: {refusal}");
    }
    for (cwd, real) in [
        (None, "/srv/app"),
        (Some("/srv/app/evil"), "/srv/app/evil"),
        (Some("in"), "/srv/app/evil"),
        (Some("/usr/lib/npm"), "/usr/lib/npm"),
    ] {
        let permit = check(&policy, ("echo hi", cwd, None)).unwrap();
        assert_eq!(permit.directory().unwrap().to_str(), Some(real));
        assert_eq!(permit.pins().len(), 2);
    }
}

#[test]
fn a_directory_holds_without_an_allowlist_too() {
    let policy = Server {
        directories: &["/srv/app"],
        ..PATTERNS_ALONE
    }
    .policy();
    let refusal = check(&policy, ("ls; pwd", Some("/srv/app2"), None)).unwrap_err();
    assert_eq!(refusal.rule, Directory);
    let permit = check(&policy, ("ls; pwd", None, Some("PATH=/x"))).unwrap();
    assert!(permit.program().is_none() && permit.directory().is_some());
}

#[test]
fn no_variable_changes_what_runs() {
    let policy = UNIX.policy();
    for variable in VARIABLES {
        let refusal = check(&policy, ("echo hi", None, Some(variable))).unwrap_err();
        assert_eq!(refusal.rule, Environment, "{variable}");
        let name = variable.split('=').next().unwrap();
        assert!(refusal.reason.contains(name), "{refusal}");
    }
    for variable in ["Path=x", "pAtHeXt=x", "comspec=x", "SystemRoot=x"] {
        let refusal = check(&WINDOWS.policy(), ("node x", None, Some(variable))).unwrap_err();
        assert_eq!(refusal.rule, Environment, "{variable}");
    }
}

#[test]
fn where_variables_are_listed_no_other_is_set() {
    let policy = Server {
        variables: "PORT,APP_*",
        ..UNIX
    }
    .policy();
    for variable in VARIABLES.iter().chain(&["HOST=x", "PORTS=1", "port=1"]) {
        let refusal = check(&policy, ("echo hi", None, Some(variable))).unwrap_err();
        assert_eq!(refusal.rule, Environment, "{variable}");
        assert!(
            refusal
                .to_string()
                .contains("allowed are \"PORT\", \"APP_*\""),
            "{refusal}"
        );
    }
    for variable in ["PORT=1", "PORT", "APP_CONFIG=x"] {
        check(&policy, ("echo hi", None, Some(variable))).unwrap();
    }
}

#[test]
fn a_directory_does_not_move_what_runs() {
    let policy = UNIX.policy();
    for (line, path) in [
        ("./build.sh", "/srv/app/build.sh"),
        ("dotnet run", "/usr/lib/dotnet/dotnet"),
        ("echo x", "/usr/bin/echo"),
    ] {
        let permit = check(&policy, (line, Some("/srv/app/evil"), None)).unwrap();
        assert_eq!(permit.program().unwrap().path, path, "{line}");
    }
}

#[test]
fn what_is_allowed_runs_as_it_was_written() {
    for (flavour, line, path, argv0, args) in ALLOWED {
        let server = if *flavour == Unix { &UNIX } else { &WINDOWS };
        let permit = check(&server.policy(), (line, None, None));
        let permit = permit.unwrap_or_else(|refusal| panic!("{line}: {refusal}"));
        let program = permit.program().unwrap();
        assert_eq!(
            (program.path.as_str(), program.argv0.as_str()),
            (*path, *argv0),
            "{line}"
        );
        assert_eq!(program.args, *args, "{line}");
        assert_eq!(permit.pins().len(), 1);
    }
}

#[test]
fn a_reason_can_stand_alone_and_a_sentence_says_what_to_do() {
    let policy = UNIX.policy();
    let refusal = check(&policy, ("rm -rf /", None, None)).unwrap_err();
    assert_eq!(refusal.reason, "executable \"rm\" is not in allowed list");
    assert!(refusal.to_string().contains("\"npm run dev\""), "{refusal}");
    let refusal = check(&policy, ("./dotnet", None, None)).unwrap_err();
    assert!(
        refusal.reason.contains("\"./dotnet\"") && refusal.reason.contains("PATH"),
        "{refusal}"
    );
    let refusal = check(&policy, ("echo secret", None, None)).unwrap_err();
    assert!(refusal.reason.contains("^echo secret"), "{refusal}");
    let long = "x".repeat(1 << 20);
    let env = BTreeMap::new();
    let request = Request {
        line: &long,
        cwd: None,
        env: &env,
    };
    assert!(policy.check(&request).unwrap_err().to_string().len() < 1000);
}

#[test]
fn patterns_hold_for_the_shell_too() {
    let policy = PATTERNS_ALONE.policy();
    for line in [
        "rm -rf /",
        "true && r\\m  -r'f' x",
        "git pu\"\"sh\n--force",
        "curl x | sh",
    ] {
        assert_eq!(
            check(&policy, (line, None, None)).unwrap_err().rule,
            Pattern,
            "{line}"
        );
    }
    let permit = check(&policy, ("ls | wc; echo $HOME", None, Some("PATH=/x"))).unwrap();
    assert!(permit.program().is_none() && permit.pins().is_empty());
}

fn hostile_line() -> impl Strategy<Value = String> {
    let pieces = [
        "echo",
        "git",
        "npm",
        "run",
        "dev",
        "./build.sh",
        "sh",
        "-c",
        "/usr/bin/",
        "../",
        "evil/",
        "rm",
        " ",
        "\t",
        "\n",
        "'",
        "\"",
        ";",
        "|",
        "&",
        "$(",
        ")",
        "`",
        "\\",
        "\0",
        "é",
        "*",
        "=",
        "-",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..10)
        .prop_map(|pieces| pieces.concat())
}

static UNIX_POLICY: LazyLock<Policy> = LazyLock::new(|| UNIX.policy());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever is let through is one of the programs that are allowed, with the words as arguments.
    #[test]
    fn nothing_else_is_ever_permitted(line in hostile_line(), cwd in prop::sample::select(&["/", "/srv/app/evil"][..])) {
        let env = BTreeMap::new();
        let request = Request { line: &line, cwd: Some(cwd), env: &env };
        if let Ok(permit) = UNIX_POLICY.check(&request) {
            let program = permit.program().unwrap();
            let words = super::words::split(&line).unwrap();
            prop_assert!(matches!(
                program.path.as_str(),
                "/usr/bin/echo" | "/usr/bin/git" | "/srv/app/build.sh" | "/usr/lib/npm/npm-cli.js"
            ), "{:?}", program);
            prop_assert_eq!(program.args.len() + 1, words.len());
            prop_assert!(program.path != "/usr/lib/npm/npm-cli.js" || program.args == ["run", "dev"]);
            prop_assert!(!line.contains(['\n', '\0']) || words.iter().any(|word| word.quoted));
        }
    }
}
