//! A database server: many processes, each with a session of its own, that must end in order.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use mcp_sidecar::doctor::client::{PATIENCE, wait_until};
use rustix::process::geteuid;
use serde_json::json;

use super::{assert_free, free_port, need, stderr_with};
use crate::harness::Sidecar;

/// Its own shutdown takes as long as the disk does.
const VARIABLES: &[(&str, &str)] = &[("SIDECAR_KILL_TIMEOUT", "15000")];

const READY: &str = "database system is ready to accept connections";
const CLEAN_END: &str = "database system is shut down";

/// The user nobody. `PostgreSQL` refuses to run as root, and containers often have no other user.
const NOBODY: u32 = 65534;

/// A database of its own for one test.
struct Postgres {
    /// Where the programs are.
    programs: PathBuf,
    /// Holds the socket and the data, and belongs to the user it runs as.
    home: PathBuf,
    port: u16,
}

impl Postgres {
    #[track_caller]
    fn new(sidecar: &Sidecar) -> Self {
        let home = sidecar.dir.path().join("postgres");
        fs::create_dir(&home).unwrap();
        if geteuid().is_root() {
            need("setpriv");
            fs::set_permissions(sidecar.dir.path(), Permissions::from_mode(0o755)).unwrap();
            chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let postgres = Self {
            programs: programs(),
            home,
            port: free_port(),
        };
        let arguments = "-D data -U postgres -A trust -E UTF8 --no-locale --no-sync";
        let line = postgres.line("initdb", arguments);
        let mut initdb = Command::new("sh");
        initdb.args(["-c", &line]).current_dir(&postgres.home);
        succeeds(&mut initdb);
        postgres
    }

    /// A shell command that runs one of the programs as a user that it accepts.
    fn line(&self, program: &str, arguments: &str) -> String {
        let program = self.programs.join(program);
        let user = if geteuid().is_root() {
            format!("setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups ")
        } else {
            String::new()
        };
        format!("{user}'{}' {arguments}", program.display())
    }

    /// The command of the server in the foreground, to be run in its home.
    fn server(&self) -> String {
        let arguments = format!(
            "-D data -k '{}' -p {} -c listen_addresses=127.0.0.1",
            self.home.display(),
            self.port
        );
        self.line("postgres", &arguments)
    }

    /// Starts it through the sidecar and waits until it is ready.
    #[track_caller]
    fn start(&self, sidecar: &mut Sidecar) -> (String, String) {
        // Without a shell in between, its exit code is seen.
        let command = format!("exec {}", self.server());
        let wait = json!({ "port": self.port });
        let arguments = json!({ "command": command, "cwd": self.home, "wait": wait });
        let started = sidecar.call("start", arguments);
        assert_eq!(started["wait"], "port", "{started}");
        let id = started["id"].as_str().unwrap().to_owned();
        // It listens while it still recovers.
        let ready = sidecar.call("output", json!({ "id": id, "wait": READY }));
        assert_eq!(ready["wait"], "pattern", "{ready}");
        (id, ready["stderr"].as_str().unwrap().to_owned())
    }

    fn psql(&self, host: &Path) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"])
            .args(["-U", "postgres", "-d", "postgres", "-h"])
            .arg(host)
            .args(["-p", &self.port.to_string()]);
        command
    }

    /// What a statement answers, over the socket.
    #[track_caller]
    fn query(&self, statement: &str) -> String {
        succeeds(self.psql(&self.home).args(["-c", statement]))
    }

    /// A client, over TCP, in the middle of a transaction. It stays until it is dropped.
    #[track_caller]
    fn session(&self, sidecar: &Sidecar) -> Session {
        let said = sidecar.dir.path().join("session");
        let mut psql = self
            .psql(Path::new("127.0.0.1"))
            .stdin(Stdio::piped())
            .stdout(File::create(&said).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = psql.stdin.as_mut().unwrap();
        writeln!(stdin, "begin; insert into kept values ('unfinished');").unwrap();
        writeln!(stdin, "select 'in the transaction';").unwrap();
        wait_for_text(&said, "in the transaction\n");
        Session(psql)
    }
}

struct Session(Child);

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the programs of the newest version are. Debian keeps them away from the search path.
#[track_caller]
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = versions
        .flatten()
        .filter(|version| version.path().join("bin/postgres").is_file())
        .max_by_key(|version| version.file_name().to_str()?.parse::<u32>().ok());
    match newest {
        Some(version) => version.path().join("bin"),
        None => need("postgres").parent().unwrap().to_owned(),
    }
}

/// What a command writes; it must succeed.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{complained}");
    said
}

#[track_caller]
fn wait_for_text(file: &Path, wanted: &str) -> String {
    let mut last = String::new();
    wait_until(PATIENCE, || {
        last = fs::read_to_string(file).unwrap_or_default();
        last.contains(wanted).then(|| last.clone())
    })
    .unwrap_or_else(|| panic!("{wanted:?} has not come: {last}"))
}

#[test]
fn postgresql_ends_cleanly_while_a_client_is_connected() {
    let mut sidecar = Sidecar::with(VARIABLES);
    let postgres = Postgres::new(&sidecar);
    let (id, _) = postgres.start(&mut sidecar);
    postgres.query("create table kept (word text)");
    postgres.query("insert into kept values ('first')");
    // Asked alone, its first process would wait for this client without end.
    let session = postgres.session(&sidecar);
    let stopped = sidecar.call("stop", json!({ "id": id }));
    assert_eq!(stopped["exitCode"], 0);
    stderr_with(&mut sidecar, &id, CLEAN_END);
    sidecar.state(&id, "killed");
    assert_free(postgres.port);
    drop(session);

    let (id, log) = postgres.start(&mut sidecar);
    assert!(log.contains("database system was shut down at"), "{log}");
    assert!(!log.contains("was not properly shut down"), "{log}");
    assert_eq!(postgres.query("select word from kept"), "first\n");
    assert_eq!(sidecar.call("stop", json!({ "id": id }))["exitCode"], 0);
    sidecar.nothing_left();
}

#[test]
fn postgresql_ends_cleanly_when_the_sidecar_is_killed() {
    let mut sidecar = Sidecar::with(VARIABLES);
    let postgres = Postgres::new(&sidecar);
    let log = sidecar.dir.path().join("log");
    // As agents would start it: behind a shell, which waits for it.
    let command = format!("{} 2>>'{}'", postgres.server(), log.display());
    sidecar.call("start", json!({ "command": command, "cwd": postgres.home }));
    wait_for_text(&log, READY);
    postgres.query("create table kept (word text)");
    postgres.query("insert into kept values ('first')");
    let session = postgres.session(&sidecar);
    sidecar.client.kill();
    sidecar.nothing_left();
    wait_for_text(&log, CLEAN_END);
    assert_free(postgres.port);
    drop(session);

    let mut sidecar = Sidecar::with(VARIABLES);
    let (id, log) = postgres.start(&mut sidecar);
    assert!(!log.contains("was not properly shut down"), "{log}");
    assert_eq!(postgres.query("select word from kept"), "first\n");
    assert_eq!(sidecar.call("stop", json!({ "id": id }))["exitCode"], 0);
    sidecar.nothing_left();
}
