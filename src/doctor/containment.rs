//! The kill matrix: trees of every kind, ended in every way, and what is left of them.
//!
//! # Theory of operation
//!
//! Each cell is a process of its own, the *observer*, which is the parent of every orphan that
//! comes from it. It starts a *host*, that starts a server, that starts the tree. When the tree
//! stands, the event happens; the observer then waits until nothing is left but those that the
//! event leaves alive, and at the end until it has no child at all. So nothing can hide: not
//! behind a session, not behind a closed descriptor, not behind an empty environment.
//!
//! Where a system cannot re-parent orphans (macOS), the members of a tree are known by the process
//! ids that they have written down.

mod cell;
mod event;
mod host;
mod tree;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::platform::lab::{self, Exit};
use event::EVENTS;
use tree::{TREES, Tree};

/// Runs all cells, or those of the trees that are named, and writes a table. Whether all is as it
/// must be.
pub fn run(out: &mut impl Write, program: &Path, wanted: &[String]) -> std::io::Result<bool> {
    for name in wanted {
        if !TREES.iter().any(|tree| tree.name == name) {
            let known: Vec<_> = TREES.iter().map(|tree| tree.name).collect();
            writeln!(
                out,
                "there is no tree {name:?}; there are: {}",
                known.join(", ")
            )?;
            return Ok(false);
        }
    }
    let chosen = |tree: &&Tree| wanted.is_empty() || wanted.iter().any(|name| tree.name == name);
    let (trees, missing): (Vec<_>, Vec<_>) = TREES
        .iter()
        .filter(chosen)
        .partition(|tree| tree.can_stand());

    let titles: Vec<_> = EVENTS.iter().map(|event| event.title).collect();
    writeln!(out, "Milliseconds from the event to the last death:\n")?;
    writeln!(out, "| tree | {} |", titles.join(" | "))?;
    writeln!(out, "|---|{}", "---|".repeat(titles.len()))?;
    let results = all_cells(program, &trees);
    let mut failed = 0;
    let mut notes = Vec::new();
    for (tree, row) in trees.iter().zip(results.chunks(EVENTS.len())) {
        let mut cells = Vec::new();
        for (event, result) in EVENTS.iter().zip(row) {
            cells.push(match result {
                Ok(time) => time.as_millis().to_string(),
                Err(reason) if event.excused(tree) => {
                    notes.push(format!(
                        "{}, {}: cannot be held ({reason})",
                        tree.name, event.title
                    ));
                    "(*)".to_owned()
                }
                Err(reason) => {
                    failed += 1;
                    notes.push(format!("FAILED {}, {}: {reason}", tree.name, event.title));
                    "FAILED".to_owned()
                }
            });
        }
        writeln!(out, "| {} | {} |", tree.name, cells.join(" | "))?;
    }
    writeln!(out)?;
    for event in &EVENTS {
        writeln!(out, "- {}: {}", event.title, event.meaning)?;
    }
    for note in notes {
        writeln!(out, "{note}")?;
    }
    for tree in missing {
        let program = tree.needs.unwrap_or_default();
        writeln!(
            out,
            "not tried: {}, because {program} cannot be used here",
            tree.name
        )?;
    }
    let cells = results.len();
    writeln!(out, "\n{cells} cells, {failed} failed")?;
    Ok(failed == 0)
}

/// One of the processes that a matrix is made of; the words say which.
pub fn act(words: &[OsString]) -> Result<(), String> {
    let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let text: Vec<_> = text.iter().map(|word| &**word).collect();
    let left = match &text[..] {
        ["cell", tree, event] => return cell::main(tree, event),
        ["host", ..] => return host::main(words.get(1), words.get(2)),
        ["hop"] => {
            tree::register("hop")?;
            lab::hop(Instant::now() + HOPPING);
            return Ok(());
        }
        ["group", ..] => Exit::Group,
        ["session", ..] => Exit::Session,
        ["reaper", ..] => Exit::Reaper,
        _ => return Err("no such part".into()),
    };
    Err(lab::leave(left, &words[1..]).to_string())
}

/// Longer than any cell, and an end all the same.
const HOPPING: Duration = Duration::from_mins(1);

/// The results of every event for every tree, tree by tree; two at a time for each processor.
fn all_cells(program: &Path, trees: &[&Tree]) -> Vec<Result<Duration, String>> {
    let jobs: Vec<_> = trees
        .iter()
        .flat_map(|tree| EVENTS.iter().map(move |event| (tree.name, event.title)))
        .collect();
    let results: Vec<_> = jobs
        .iter()
        .map(|_| Mutex::new(Err(String::new())))
        .collect();
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed))
                    && let Some((tree, event)) = jobs.get(at)
                {
                    let result = one_cell(program, tree, event);
                    if let Ok(mut place) = results[at].lock() {
                        *place = result;
                    }
                }
            });
        }
    });
    results
        .into_iter()
        .map(|result| {
            result
                .into_inner()
                .unwrap_or_else(|_| Err("it could not be run".into()))
        })
        .collect()
}

fn one_cell(program: &Path, tree: &str, event: &str) -> Result<Duration, String> {
    let output = Command::new(program)
        .args(["doctor", "--act", "cell", tree, event])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.trim().strip_prefix("microseconds ") {
        Some(time) => time
            .parse()
            .map(Duration::from_micros)
            .map_err(|error| error.to_string()),
        None => Err(format!("{} {}", said.trim(), output.status)),
    }
}
