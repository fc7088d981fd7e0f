//! Who exists: ids, names, limits, forgetting.
//!
//! The registry is changed in one step under a lock that is never held while anything is awaited,
//! so no call waits for another. A start first takes its place (id, name, slot), then starts, then
//! puts the process in that place or gives it back.

mod error;
mod registry;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::audit::Audit;
use crate::output::Screen;
use crate::platform::{self, Listeners, PortOwner, WindowSize};
use crate::policy::{Permit, Policy, Request};
use crate::process::command::Command;
use crate::process::input::{Input, InputError};
use crate::process::state::{Life, State};
use crate::process::wait::accepts;
use crate::process::{Process, StartError};
use error::{LONGEST_NAME, MOST_NAMED, called, short};
use registry::{Entry, Found, Place, Registry, is_id};

pub use error::Error;

/// What the supervisor needs to know of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Trees alive at once.
    pub max_processes: usize,
    /// Bytes of output kept per process.
    pub buffer_size: usize,
    /// Between the graceful and the forced end.
    pub kill_timeout: Duration,
    /// Until a finished process is forgotten; none is never.
    pub cleanup_after: Option<Duration>,
}

/// What `start` has found or made.
#[derive(Debug)]
pub struct Started {
    /// The process.
    pub process: Arc<Process>,
    /// Whether it ran already.
    pub existing: bool,
}

/// All processes of this server.
#[derive(Debug)]
pub struct Supervisor {
    limits: Limits,
    policy: Policy,
    audit: Option<Audit>,
    registry: Mutex<Registry>,
    listeners: Mutex<Listeners>,
}

impl Supervisor {
    /// Of a server with these limits, which starts only what this policy permits and writes it
    /// down in this log, if any.
    pub fn new(limits: Limits, policy: Policy, audit: Option<Audit>) -> Self {
        Self {
            limits,
            policy,
            audit,
            registry: Mutex::default(),
            listeners: Mutex::default(),
        }
    }

    /// Whether only allowed commands are started.
    pub fn is_secure(&self) -> bool {
        self.policy.is_secure()
    }

    /// Starts a command, or finds the living process that is the same. To `replace` is to end
    /// first what of this name lives. A `port` that it is waited for on must be free.
    pub async fn start(
        &self,
        name: Option<String>,
        command: Command,
        replace: bool,
        port: Option<u16>,
    ) -> Result<Started, Error> {
        check(name.as_deref(), &command)?;
        if replace && name.is_none() {
            return Err(Error::ReplaceWhom);
        }
        // Before the directory is looked at: what is refused tells nothing of it.
        let permit = self.permit(&command)?;
        check_directory(&command)?;
        let (id, name, _place) = loop {
            if replace {
                self.end_named(name.as_deref()).await?;
            }
            match self.take_place(name.as_deref(), &command)? {
                Taken::Place(id, name, place) => break (id, name, place),
                // Somebody was quicker.
                Taken::Existing(_) if replace => {}
                Taken::Existing(process) => {
                    return Ok(Started {
                        process,
                        existing: true,
                    });
                }
                // The same name is being started: see what becomes of it.
                Taken::Busy(mut other) => drop(other.changed().await),
            }
        };
        if let Some(port) = port
            && let Some(owner) = self.listener(port).await
        {
            self.registry().entries.retain(|entry| entry.id != id);
            return Err(Error::PortTaken { port, owner });
        }
        let line = command.line.clone();
        let Limits {
            buffer_size,
            kill_timeout,
            ..
        } = self.limits;
        let audit = self.audit.as_ref();
        let started = Process::start(
            id.clone(),
            name,
            command,
            &permit,
            buffer_size,
            kill_timeout,
            audit,
        )
        .await;
        let mut registry = self.registry();
        let Some(at) = registry.entries.iter().position(|entry| entry.id == id) else {
            unreachable!("a place is given back only here");
        };
        match started {
            Ok(process) => {
                let process = Arc::new(process);
                registry.remember(&process);
                if let Some(root) = root_directory(&process.command) {
                    registry.tell(format!(
                        "{} runs in {}, where this server was started; give cwd to start it in a project",
                        called(&process),
                        root.display()
                    ));
                }
                registry.entries[at].place = Place::Filled(process.clone());
                if registry.closing {
                    process.ask_to_stop(kill_timeout);
                }
                Ok(Started {
                    process,
                    existing: false,
                })
            }
            Err(error) => {
                registry.entries.remove(at);
                drop(registry);
                if let StartError::Changed(_) = error {
                    self.blocked(&line, &error.to_string());
                }
                let line = short(&line);
                Err(Error::Start { line, error })
            }
        }
    }

    /// Ends a process with its tree; of a finished one, what is left of its tree. By force after
    /// `grace`, where that is given.
    pub async fn stop(
        &self,
        wanted: &str,
        grace: Option<Duration>,
    ) -> Result<(Arc<Process>, Life), Error> {
        let process = self.find(wanted).await?;
        let life = self.end(&process, grace).await?;
        Ok((process, life))
    }

    /// The command that was last started under this name.
    pub fn last_command(&self, name: &str) -> Option<Command> {
        self.registry().last_command(name).cloned()
    }

    /// What has ended by itself since this was asked last, each in a sentence.
    pub fn notices(&self) -> Vec<String> {
        self.registry().notices()
    }

    /// Gives a process input; answers how much of it has not been read yet.
    pub async fn send(&self, process: &Process, input: Input) -> Result<usize, Error> {
        let sent = match process.life() {
            life if life.gone => Err(InputError::Closed),
            // Where the leader has ended, one of its children may still read.
            _ => process.send(input).await,
        };
        sent.map_err(|error| match (not_running(process), error) {
            (Some(ended), InputError::Closed) => ended,
            (_, error) => Error::Input {
                process: called(process),
                error,
            },
        })
    }

    /// Gives a process's terminal another size, before what is sent after that.
    pub fn resize(&self, process: &Process, size: WindowSize) -> Result<(), Error> {
        if let Some(ended) = not_running(process) {
            return Err(ended);
        }
        drop(screen(process)?);
        process.resize(size);
        Ok(())
    }

    /// The process with this id, or the living one of this name, or the newest finished one. One of
    /// this name that is just being started is waited for.
    pub async fn find(&self, wanted: &str) -> Result<Arc<Process>, Error> {
        loop {
            let mut start = match self.registry().find(wanted) {
                Found::Process(process) => return Ok(process),
                Found::Starting(start) => start,
                Found::Nothing { known } => {
                    return Err(Error::NotFound {
                        wanted: short(wanted),
                        known,
                    });
                }
            };
            let _ = start.changed().await;
        }
    }

    /// Every process that is not forgotten, oldest first.
    pub fn list(&self) -> Vec<Arc<Process>> {
        self.registry().processes().cloned().collect()
    }

    /// Where these processes listen, by their ids; those that do not are left out.
    pub fn ports(&self, processes: &[Arc<Process>]) -> HashMap<String, BTreeSet<u16>> {
        let living = processes.iter().filter(|process| !process.life().gone);
        let ids: HashMap<_, _> = living
            .map(|process| (process.guard(), &process.id))
            .collect();
        let guards: Vec<_> = ids.keys().copied().collect();
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ports = listeners.of(&guards).into_iter();
        ports
            .filter_map(|(guard, ports)| Some(((*ids.get(&guard)?).clone(), ports)))
            .collect()
    }

    /// Asks every tree to end, also those that are still being started.
    pub fn close(&self) {
        let mut registry = self.registry();
        registry.closing = true;
        for process in registry.living() {
            process.ask_to_stop(self.limits.kill_timeout);
        }
    }

    /// Completes when nothing is left of those trees whose guards are no more.
    pub async fn strays_gone(&self) {
        let unguarded: Vec<_> = {
            let registry = self.registry();
            let living = registry.living();
            living
                .filter(|process| process.life().is_astray())
                .cloned()
                .collect()
        };
        for process in unguarded {
            process.gone().await;
        }
    }

    /// Completes when nothing of any tree is left and nothing is being started.
    pub async fn all_gone(&self) {
        loop {
            let (living, starting) = {
                let registry = self.registry();
                let living: Vec<_> = registry.living().cloned().collect();
                (living, registry.starting().cloned().collect::<Vec<_>>())
            };
            if living.is_empty() && starting.is_empty() {
                return;
            }
            for process in living {
                process.gone().await;
            }
            for mut start in starting {
                let _ = start.changed().await;
            }
        }
    }

    async fn end(&self, process: &Process, grace: Option<Duration>) -> Result<Life, Error> {
        let grace = grace.unwrap_or(self.limits.kill_timeout);
        process.stop(grace).await.map_err(|stuck| Error::Stuck {
            process: called(process),
            pid: stuck.pid,
        })
    }

    async fn end_named(&self, name: Option<&str>) -> Result<(), Error> {
        let named: Vec<_> = {
            let registry = self.registry();
            let named = registry
                .living()
                .filter(|process| Some(&*process.name) == name);
            named.cloned().collect()
        };
        for process in named {
            self.end(&process, None).await?;
        }
        Ok(())
    }

    /// Who listens on a port.
    async fn listener(&self, port: u16) -> Option<String> {
        let living: Vec<_> = self.registry().living().cloned().collect();
        if let Some(process) = living.iter().find(|process| process.listens(port)) {
            return Some(called(process));
        }
        match platform::port_owner(port, !self.is_secure()) {
            PortOwner::Nobody => None,
            PortOwner::Somebody(owner) => Some(owner),
            PortOwner::Unknown => accepts(port).await.then(|| "another process".into()),
        }
    }

    /// The one gate: without what it gives, no process can be made.
    fn permit(&self, command: &Command) -> Result<Permit, Error> {
        let cwd = command.cwd.as_deref().map(Path::to_string_lossy);
        let request = Request {
            line: &command.line,
            cwd: cwd.as_deref(),
            env: &command.env,
        };
        self.policy.check(&request).map_err(|refusal| {
            self.blocked(&command.line, &refusal.reason);
            Error::Refused {
                line: short(&command.line),
                refusal,
            }
        })
    }

    /// Writes down that a command was refused. It stays refused where that fails.
    fn blocked(&self, command: &str, reason: &str) {
        if let Some(audit) = &self.audit
            && let Err(error) = audit.blocked(command, reason)
        {
            tracing::warn!(%error, "the audit log cannot be written: it lacks a refusal");
        }
    }

    fn take_place(&self, name: Option<&str>, command: &Command) -> Result<Taken, Error> {
        let mut registry = self.registry();
        if let Some(name) = name {
            for entry in registry.entries.iter().filter(|entry| entry.name == name) {
                match &entry.place {
                    Place::Taken(start) => return Ok(Taken::Busy(start.clone())),
                    Place::Filled(process) if process.life().exited.is_some() => {}
                    Place::Filled(process) if process.command == *command => {
                        return Ok(Taken::Existing(process.clone()));
                    }
                    Place::Filled(process) => {
                        return Err(Error::NameTaken {
                            name: name.into(),
                            id: process.id.clone(),
                            line: short(&process.command.line),
                            uptime: process.life().uptime(Instant::now()),
                        });
                    }
                }
            }
        }
        let limit = self.limits.max_processes;
        if registry.living().count() + registry.starting().count() >= limit {
            let starting = registry
                .entries
                .iter()
                .filter(|entry| entry.process().is_none());
            let starting = starting.map(|entry| format!("{}, which is starting", entry.id));
            let alive = registry.living().map(|process| called(process));
            let alive: Vec<_> = alive.chain(starting).take(MOST_NAMED).collect();
            return Err(Error::Limit {
                limit,
                alive: alive.join(", "),
            });
        }
        let id = registry.new_id();
        let name = name.map_or_else(|| id.clone(), Into::into);
        let (place, start) = watch::channel(());
        registry.entries.push(Entry {
            id: id.clone(),
            name: name.clone(),
            place: Place::Taken(start),
            mentioned: false,
        });
        Ok(Taken::Place(id, name, place))
    }

    /// The registry as it is now: what is due to be forgotten is.
    fn registry(&self) -> MutexGuard<'_, Registry> {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.forget(self.limits.cleanup_after, Instant::now());
        registry
    }
}

enum Taken {
    Place(String, String, watch::Sender<()>),
    Existing(Arc<Process>),
    Busy(watch::Receiver<()>),
}

/// Where a command runs that names no directory, if that is no place for a project: hosts that were
/// started from a desktop are there.
fn root_directory(command: &Command) -> Option<PathBuf> {
    let own = std::env::current_dir().ok()?;
    let is_root = match own.file_name() {
        None => true,
        Some(name) => name.eq_ignore_ascii_case("system32"),
    };
    (command.cwd.is_none() && is_root).then_some(own)
}

/// What stands on a process's terminal.
pub fn screen(process: &Process) -> Result<MutexGuard<'_, Screen>, Error> {
    process
        .screen()
        .ok_or_else(|| Error::NoTerminal(called(process)))
}

/// What is to say of a process whose leader has ended.
fn not_running(process: &Process) -> Option<Error> {
    let life = process.life();
    Some(Error::NotRunning {
        process: called(process),
        state: match life.state() {
            State::Killed => "was killed",
            state => state.as_str(),
        },
        code: life.exit_code()?,
        left: if life.gone {
            ""
        } else {
            ", and what it has left behind reads no input"
        },
    })
}

fn check(name: Option<&str>, command: &Command) -> Result<(), Error> {
    if command.line.trim().is_empty() {
        return Err(Error::EmptyCommand);
    }
    match name {
        Some(name) if name.trim().is_empty() => return Err(Error::EmptyName),
        Some(name) if name.chars().count() > LONGEST_NAME => return Err(Error::LongName),
        Some(name) if is_id(name) => return Err(Error::NameIsId(name.into())),
        _ => {}
    }
    if let (Some(_), Some(reason)) = (command.terminal, platform::NO_TERMINALS) {
        return Err(Error::NoTerminals(reason));
    }
    Ok(())
}

fn check_directory(command: &Command) -> Result<(), Error> {
    let Some(cwd) = &command.cwd else {
        return Ok(());
    };
    let reason = match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => match platform::can_enter(cwd) {
            Ok(()) => return Ok(()),
            Err(error) => error.to_string(),
        },
        Ok(_) => "it is a file".into(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "it does not exist".into(),
        Err(error) => error.to_string(),
    };
    Err(Error::Cwd(short(&Path::display(cwd).to_string()), reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Settings;

    #[test]
    fn a_terminal_is_to_be_had_where_the_system_has_any() {
        let mut command = Command {
            line: "cat".into(),
            ..Command::default()
        };
        assert!(check(None, &command).is_ok());
        command.terminal = Some(WindowSize { cols: 80, rows: 24 });
        let refused = check(None, &command).map_err(|error| error.to_string());
        assert_eq!(refused.err().as_deref(), platform::NO_TERMINALS);
    }

    #[test]
    fn a_refusal_is_written_down_and_a_log_in_the_way_of_it_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits {
            max_processes: 1,
            buffer_size: 1,
            kill_timeout: Duration::ZERO,
            cleanup_after: None,
        };
        let supervisor = |audit| Supervisor::new(limits, Policy::here(Settings::default()), audit);
        supervisor(None).blocked("rm", "not allowed");
        let audit = Audit::open(dir.path()).unwrap();
        let supervisor = supervisor(Some(audit.clone()));
        supervisor.blocked("rm -rf /", "not allowed");
        let text = std::fs::read_to_string(audit.path()).unwrap();
        let event = r#""event":"blocked","command":"rm -rf /","reason":"not allowed"}"#;
        assert!(text.ends_with(&format!(",{event}\n")), "{text}");
        std::fs::remove_file(audit.path()).unwrap();
        std::fs::create_dir(audit.path()).unwrap();
        supervisor.blocked("rm", "not allowed");
    }
}
