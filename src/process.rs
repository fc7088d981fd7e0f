//! One process: a task that owns everything about it, and a cheap handle to that task.
//!
//! # Theory of operation
//!
//! The task holds the socket to the guard and the three streams. It waits for whichever is ready:
//! output goes into the buffer, raw; input goes out as the process reads it; what the guard tells
//! changes the [`Life`], which everybody may read at any time and await a change of.
//!
//! Two events, two words: the leader has *exited*; the tree is *gone*. Before either is published
//! everything that was written up to it has been read, so whoever sees the end sees the output.
//! After both the task goes on for as long as somebody outside the tree holds a stream.

pub mod command;
mod frames;
pub mod http;
pub mod input;
pub mod load;
pub mod state;
mod task;
pub mod wait;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot, watch};

use crate::audit::Audit;
use crate::output::{Output, Request, Screen, View};
use crate::platform::{self, Containment, WindowSize};
use crate::policy::Permit;
use command::Command;
use frames::Frames;
use input::{Input, InputError};
use load::{Load, Meter};
use state::{Life, Stuck};
use task::Message;

/// A handle to one process.
#[derive(Debug)]
pub struct Process {
    /// Given by the supervisor, never twice.
    pub id: String,
    /// The id, where nobody gave another.
    pub name: String,
    /// What was started.
    pub command: Command,
    /// When it was started, for people.
    pub started_at: SystemTime,
    /// What the end of its tree is sure to reach.
    pub containment: Containment,
    guard: u32,
    /// Written by the task alone.
    life: watch::Receiver<Life>,
    /// Shared with the task, which holds the lock for one copy at a time.
    output: Arc<Mutex<Output>>,
    /// Where it has a terminal. Shared in the same way.
    screen: Option<Arc<Mutex<Screen>>>,
    mailbox: mpsc::UnboundedSender<Message>,
    /// When something was written last.
    written: watch::Receiver<Instant>,
    meter: Mutex<Meter>,
}

/// Why nothing runs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no guard, so nothing was attempted.
    #[error("no guard process could be started to run it: {0}{advice}", advice = advice(.0))]
    Guard(io::Error),
    /// There was a guard.
    #[error(
        "the guard process that was to run it has ended; if mcp-sidecar was upgraded since this server was started, \
         restart the server, else try again"
    )]
    GuardLost,
    /// The guard could not run the command.
    #[error("it could not be run: {0}{advice}", advice = advice(.0))]
    Spawn(io::Error),
    /// What was allowed is not there any more.
    #[error("{0:?} was replaced after it was checked; start it again if that was meant")]
    Changed(OsString),
    /// The system takes only so much with a command.
    #[error(
        "argument list too long: command and env are larger than the system takes; pass large data through a file"
    )]
    TooLarge,
    /// The audit log does not take it, so it must not run.
    #[error(
        "the audit log {log:?} cannot be written ({error}), and nothing runs without its line there: put the log right first"
    )]
    Unaudited {
        /// The log.
        log: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl Process {
    /// Starts a guard that runs the command as it is permitted, and a task that listens to both.
    pub async fn start(
        id: String,
        name: String,
        command: Command,
        permit: &Permit,
        buffer_size: usize,
        kill_timeout: Duration,
        audit: Option<&Audit>,
    ) -> Result<Self, StartError> {
        let record = audit.map(|audit| audit.record(&id));
        let mut ends = platform::start_guard(&id, &command.label(), command.terminal)
            .map_err(StartError::Guard)?;
        let spec = command.spec(permit, kill_timeout, record.as_ref()).encode();
        // A guard that is gone already is missed right below.
        let _ = ends.control.write_all(&spec).await;
        let mut frames = Frames::default();
        let (pid, containment) = match frames
            .birth(&ends.control, record.as_ref(), permit.pins())
            .await
        {
            Ok(born) => born,
            Err(error) => {
                if matches!(error, StartError::GuardLost) {
                    platform::end_strays(ends.guard, |_| ()).await;
                }
                return Err(error);
            }
        };
        let now = Instant::now();
        let (life, observed) = watch::channel(Life::new(pid, now));
        let output = Arc::new(Mutex::new(Output::new(buffer_size)));
        let screen = command
            .terminal
            .map(|size| Arc::new(Mutex::new(Screen::new(size))));
        let guard = ends.guard;
        let (mailbox, written) =
            task::listen(ends, frames, life, output.clone(), screen.clone(), record);
        Ok(Self {
            id,
            name,
            command,
            started_at: SystemTime::now(),
            containment,
            guard,
            life: observed,
            output,
            screen,
            mailbox,
            written,
            meter: Mutex::new(Meter::new(now)),
        })
    }

    /// What is known of it now.
    pub fn life(&self) -> Life {
        *self.life.borrow()
    }

    /// What it has written.
    pub fn output(&self, request: &Request) -> View {
        lock(&self.output).view(request)
    }

    /// What stands on its terminal, where it has one.
    pub fn screen(&self) -> Option<MutexGuard<'_, Screen>> {
        self.screen.as_deref().map(lock)
    }

    /// How many processes of its tree are alive, where that can be told.
    pub fn tree_size(&self) -> Option<usize> {
        if self.life().gone {
            Some(0)
        } else {
            platform::tree_size(self.guard)
        }
    }

    /// Where its tree listens, as far as that can be told.
    pub fn ports(&self) -> BTreeSet<u16> {
        if self.life().gone {
            return BTreeSet::new();
        }
        platform::ports(self.guard).unwrap_or_default()
    }

    /// What its tree takes of the machine; nothing where it is gone or that cannot be told.
    pub fn load(&self, now: Instant) -> Option<Load> {
        if self.life().gone {
            return None;
        }
        let usage = platform::usage(self.guard)?;
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Load {
            percent: meter.read(usage.processor, now),
            memory: usage.memory,
        })
    }

    /// What stands for its tree where all trees are looked at together.
    pub fn guard(&self) -> u32 {
        self.guard
    }

    /// The cursor of what it writes next.
    pub fn cursor(&self) -> u64 {
        lock(&self.output).cursor()
    }

    /// Bytes of output held.
    pub fn output_size(&self) -> usize {
        lock(&self.output).size()
    }

    /// Asks the tree to end, without waiting for it.
    pub fn ask_to_stop(&self, grace: Duration) {
        // A task that has ended has seen its tree go.
        let _ = self.mailbox.send(Message::Stop { grace });
    }

    /// Ends the tree. Answers when it is gone.
    pub async fn stop(&self, grace: Duration) -> Result<Life, Stuck> {
        let mut life = self.life.clone();
        // What was stuck before may end this time.
        let before = life.borrow().stuck;
        if !life.borrow().gone {
            self.ask_to_stop(grace);
        }
        // The task ends only after its tree.
        let _ = life
            .wait_for(|life| life.gone || life.stuck != before)
            .await;
        let life = self.life();
        match life.stuck {
            Some(stuck) if !life.gone => Err(stuck),
            _ => Ok(life),
        }
    }

    /// Completes when nothing of the tree is left.
    pub async fn gone(&self) {
        let _ = self.life.clone().wait_for(|life| life.gone).await;
    }

    /// Reads what it has written up to now, on both streams.
    pub async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.mailbox.send(Message::Settle(done)).is_ok() {
            // A task that has ended has read everything.
            let _ = settled.await;
        }
    }

    /// Gives it input, whole or not at all. Answers how many bytes it has not read yet.
    pub async fn send(&self, input: Input) -> Result<usize, InputError> {
        let (reply, answer) = oneshot::channel();
        self.mailbox
            .send(Message::Input { input, reply })
            .map_err(|_| InputError::Closed)?;
        answer.await.unwrap_or(Err(InputError::Closed))
    }

    /// Gives its terminal's window another size, before what is sent after that. It must have one.
    pub fn resize(&self, size: WindowSize) {
        // A task that has ended has seen its tree go.
        let _ = self.mailbox.send(Message::Resize(size));
    }
}

/// What to do about it, where that is known.
fn advice(error: &io::Error) -> String {
    match platform::shortage(error) {
        Some(advice) => format!("; {advice}"),
        // Not the command's: that one is told by its shell.
        None if error.kind() == io::ErrorKind::NotFound => {
            "; mcp-sidecar's own file or the shell was removed: put it back, and restart the server"
                .into()
        }
        None => String::new(),
    }
}

/// A panic elsewhere leaves what it guards usable.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
