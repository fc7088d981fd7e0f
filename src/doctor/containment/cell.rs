//! The observer of a cell: lets a tree grow, lets the event happen, and waits until all is gone.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::event::{EVENTS, Event, Kind};
use super::tree::{self, TREES, Tree};
use crate::doctor::client::wait_until;
use crate::platform::{self, lab};

/// How long a tree may take to stand, and to be gone beyond its grace.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one cell and says `microseconds N` on standard output, or why it failed.
pub(super) fn main(tree: &str, event: &str) -> Result<(), String> {
    let tree = TREES
        .iter()
        .find(|known| known.name == tree)
        .ok_or("no such tree")?;
    let event = EVENTS
        .iter()
        .find(|known| known.title == event)
        .ok_or("no such event")?;
    lab::adopt_orphans();
    let directory = std::env::temp_dir().join(format!("sidecar-cell-{}", std::process::id()));
    std::fs::create_dir(&directory).map_err(text)?;
    let result = observe(tree, event, &directory);
    // Whatever happened, nothing of a cell outlives it. Some are hard to hit.
    wait_until(PATIENCE, || {
        let left = left(&directory, &[]);
        for pid in &left {
            lab::strike(*pid, lab::Blow::Kill);
        }
        (left.is_empty() && !(lab::can_count() && lab::reap())).then_some(())
    });
    let _ = std::fs::remove_dir_all(&directory);
    match result {
        Ok(time) => println_out(&format!("microseconds {}", time.as_micros())),
        Err(reason) => println_out(&reason),
    }
}

fn observe(tree: &Tree, event: &Event, directory: &Path) -> Result<Duration, String> {
    let mut cell = Cell::stand(tree, directory)?;
    let spared = if event.spares_server() {
        vec![cell.host.id(), cell.server]
    } else if event.kind == Kind::HostKilled {
        vec![]
    } else {
        vec![cell.host.id()]
    };
    let begun = Instant::now();
    cell.strike(event.kind)?;
    if event.kind == Kind::Host("stop") {
        // The guard itself may take a moment longer than its tree.
        let mut spared = spared.clone();
        spared.push(cell.guard);
        none_of(&left(directory, &spared), "when stop answered")?;
    }
    // A process that moves while we look may be missed once.
    let gone = || (0..2).all(|_| left(directory, &spared).is_empty());
    while !gone() {
        if begun.elapsed() > PATIENCE {
            none_of(&left(directory, &spared), "at last")?;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let time = begun.elapsed();
    if event.graceful
        && let Some(trace) = tree.trace
        && !directory.join(trace).exists()
    {
        return Err("it was not given its time".into());
    }
    // The exact account: no child at all.
    drop(cell.orders);
    if lab::can_count() && wait_until(PATIENCE, || (!lab::reap()).then_some(())).is_none() {
        none_of(&left(directory, &[]), "in the end")?;
    }
    Ok(time)
}

struct Cell {
    host: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    server: u32,
    guard: u32,
}

impl Cell {
    fn stand(tree: &Tree, directory: &Path) -> Result<Self, String> {
        let program = platform::program().map_err(text)?;
        let mut host = Command::new(&program)
            .args(["doctor", "--act", "host", tree.script, tree.grace])
            .env("SELF", &program)
            .env("M", tree::MEMBER)
            .env("LINK", tree::LINK)
            .env(tree::DIRECTORY, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;
        let orders = host.stdin.take().ok_or("no orders")?;
        let mut answers = BufReader::new(host.stdout.take().ok_or("no answers")?);
        let ready = line(&mut answers)?;
        let mut words = ready.split_whitespace().skip(1).map(str::parse);
        let (Some(Ok(server)), Some(Ok(leader))) = (words.next(), words.next()) else {
            return Err(format!("the host said {ready:?}"));
        };
        let standing = || (members(directory).len() >= tree.members).then_some(());
        wait_until(PATIENCE, standing).ok_or("the tree does not stand")?;
        Ok(Self {
            guard: guard_of(host.id(), server, leader),
            host,
            orders,
            answers,
            server,
        })
    }

    fn strike(&mut self, kind: Kind) -> Result<(), String> {
        match kind {
            Kind::Host(order) => self.order(order)?,
            Kind::HostThenKill(order, after) => {
                self.order(order)?;
                std::thread::sleep(Duration::from_millis(after));
                lab::strike(self.server, lab::Blow::Kill);
            }
            Kind::Server(blow) => lab::strike(self.server, blow),
            Kind::ServerGroup(blow) => lab::strike_group(self.server, blow),
            Kind::HostKilled => lab::strike(self.host.id(), lab::Blow::Kill),
            Kind::Guard => lab::strike(self.guard, lab::Blow::Kill),
            Kind::GuardThenServer(guard, server) => {
                lab::strike(self.guard, guard);
                lab::strike(self.server, server);
            }
            Kind::Visible { parents_first } => {
                let mut visible = lab::descendants();
                visible.retain(|pid| *pid != self.host.id());
                if !parents_first {
                    visible.reverse();
                }
                for pid in visible {
                    lab::strike(pid, lab::Blow::Kill);
                }
            }
        }
        Ok(())
    }

    fn order(&mut self, order: &str) -> Result<(), String> {
        writeln!(self.orders, "{order}").map_err(text)?;
        match &*line(&mut self.answers)? {
            "done" => Ok(()),
            other => Err(format!("the host said {other:?}")),
        }
    }
}

/// The process between the server and the tree: the leader's parent, or, when the leader is gone,
/// the only child of the server.
fn guard_of(host: u32, server: u32, leader: u32) -> u32 {
    let child_of_server = |pid: &u32| lab::parent(*pid) == Some(server);
    let descendants = lab::descendants();
    lab::parent(leader)
        .filter(child_of_server)
        .or_else(|| descendants.into_iter().find(child_of_server))
        .unwrap_or(host)
}

/// Everything alive that comes from this process, but for these.
fn left(directory: &Path, spared: &[u32]) -> BTreeSet<u32> {
    let mut left: BTreeSet<u32> = if lab::can_count() {
        // Those that came to us and have ended.
        lab::descendants().into_iter().collect()
    } else {
        let alive = |pid: &u32| platform::is_alive(*pid);
        members(directory).into_iter().filter(alive).collect()
    };
    left.retain(|pid| !spared.contains(pid));
    left
}

/// The process ids of those that have written themselves down.
fn members(directory: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.rsplit('-').next()?.parse().ok())
        .collect()
}

fn none_of(left: &BTreeSet<u32>, when: &str) -> Result<(), String> {
    if left.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = left.iter().map(|pid| name(*pid)).collect();
    Err(format!("{} left {when}: {}", left.len(), names.join(", ")))
}

fn name(pid: u32) -> String {
    let file = PathBuf::from(format!("/proc/{pid}/cmdline"));
    let words = std::fs::read(file).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    format!(
        "{pid} {}",
        words.chars().take(60).collect::<String>().trim()
    )
}

fn line(answers: &mut impl BufRead) -> Result<String, String> {
    let mut line = String::new();
    match answers.read_line(&mut line).map_err(text)? {
        0 => Err("the host is gone".into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn println_out(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{text}").map_err(self::text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
