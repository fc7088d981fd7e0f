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
pub mod state;
pub mod wait;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::audit::{Audit, Record};
use crate::guard::protocol::{Exit, FromGuard, ToGuard};
use crate::output::{Output, Request, Stream, View};
use crate::platform::{self, Containment};
use crate::policy::Permit;
use command::Command;
use frames::{Frames, end_record, unrecorded};
use input::{Input, InputError, Queue, Reply};
use state::{Life, Stuck};

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
    mailbox: mpsc::UnboundedSender<Message>,
    /// When something was written last.
    written: watch::Receiver<Instant>,
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
    #[error(
        "{0:?} was replaced by another file after it was checked; start it again if that was meant"
    )]
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

#[derive(Debug)]
enum Message {
    Stop { grace: Duration },
    Input { input: Input, reply: Reply },
    Settle(oneshot::Sender<()>),
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
        let mut ends = platform::start_guard(&id, &command.label()).map_err(StartError::Guard)?;
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
        let (mailbox, messages) = mpsc::unbounded_channel();
        let (wrote, written) = watch::channel(now);
        let task = Task {
            life,
            output: output.clone(),
            wrote,
            messages,
            frames,
            queue: Queue::new(now),
            stdin: Some(ends.stdin),
            stdout: Some(ends.stdout),
            stderr: Some(ends.stderr),
            control: Some(ends.control),
            guard: ends.guard,
            strays: None,
            record,
        };
        tokio::spawn(task.run());
        Ok(Self {
            id,
            name,
            command,
            started_at: SystemTime::now(),
            containment,
            guard: ends.guard,
            life: observed,
            output,
            mailbox,
            written,
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

    /// How many processes of its tree are alive, where that can be told.
    pub fn tree_size(&self) -> Option<usize> {
        if self.life().gone {
            Some(0)
        } else {
            platform::tree_size(self.guard)
        }
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
    async fn settle(&self) {
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
}

struct Task {
    life: watch::Sender<Life>,
    output: Arc<Mutex<Output>>,
    wrote: watch::Sender<Instant>,
    messages: mpsc::UnboundedReceiver<Message>,
    frames: Frames,
    queue: Queue,
    /// None once the process has closed it.
    stdin: Option<platform::Input>,
    /// None at its end of file.
    stdout: Option<platform::Output>,
    stderr: Option<platform::Output>,
    /// None once the guard is done.
    control: Option<platform::Control>,
    guard: u32,
    /// Ends what a guard that was killed has left behind.
    strays: Option<JoinHandle<usize>>,
    record: Option<Record>,
}

impl Task {
    async fn run(mut self) {
        // The handle may be dropped early (the process was forgotten): the tree is kept all the same.
        let mut handled = true;
        while self.control.is_some()
            || self.strays.is_some()
            || (handled && (self.stdout.is_some() || self.stderr.is_some()))
        {
            tokio::select! {
                frame = self.frames.next_of(self.control.as_ref()) => self.hear(frame).await,
                strays = joined(self.strays.as_mut()) => self.without_guard(strays).await,
                () = readable(self.stdout.as_ref()) => self.take_turn(Stream::Out).await,
                () = readable(self.stderr.as_ref()) => self.take_turn(Stream::Err).await,
                () = writable(self.stdin.as_ref()), if !self.queue.is_empty() => self.feed(),
                () = until(self.queue.deadline()) => self.queue.expire(Instant::now()),
                message = self.messages.recv(), if handled => match message {
                    Some(Message::Settle(done)) => {
                        self.drain().await;
                        let _ = done.send(());
                    }
                    Some(message) => self.obey(message),
                    None => handled = false,
                },
            }
        }
    }

    fn obey(&mut self, message: Message) {
        match message {
            Message::Settle(_) => {}
            Message::Stop { grace } => {
                self.life.send_modify(Life::ask_to_stop);
                self.tell(ToGuard::Stop { grace });
            }
            Message::Input { input, reply } => {
                // An interrupt by itself needs no input that is open.
                let interrupt_alone = input.interrupt && input.bytes.is_empty() && !input.eof;
                let taken = if interrupt_alone {
                    reply.send(Ok(0)).is_ok()
                } else {
                    self.queue.offer(&input.bytes, reply, Instant::now())
                };
                if taken && input.eof {
                    self.queue.end();
                }
                self.feed();
                if taken && input.interrupt {
                    self.tell(ToGuard::Interrupt);
                }
            }
        }
    }

    fn tell(&self, message: ToGuard) {
        if let Some(control) = &self.control {
            // Eight bytes into a socket that carries nothing else: there is always room.
            // A guard that is gone is seen by the end of file.
            let _ = control.try_write(&message.encode());
        }
    }

    async fn hear(&mut self, frame: Option<FromGuard>) {
        match frame {
            Some(FromGuard::Exited(exit)) => {
                self.drain().await;
                self.exited(exit);
            }
            Some(FromGuard::Gone { forced }) => {
                self.life.send_modify(|life| life.forced = forced);
                self.gone().await;
            }
            Some(FromGuard::Stuck(pid)) => {
                let stuck = Some(Stuck {
                    pid,
                    since: Instant::now(),
                });
                self.life.send_modify(|life| life.stuck = stuck);
            }
            Some(FromGuard::Unrecorded(number)) => unrecorded(self.record.as_ref(), number),
            Some(
                FromGuard::Spawned { .. }
                | FromGuard::Failed(_)
                | FromGuard::Changed(_)
                | FromGuard::Recorded,
            ) => {}
            None => {
                // The guard was killed, and its leader with it. What it kept is ours to end, and
                // what it did not write is ours to write.
                self.control = None;
                let life = *self.life.borrow();
                if life.exited.is_none() {
                    end_record(self.record.as_ref(), life.uptime(Instant::now()).0);
                }
                let life = self.life.clone();
                life.send_modify(|life| life.guard_killed = true);
                self.strays = Some(tokio::spawn(platform::end_strays(self.guard, move |pid| {
                    let now = Instant::now();
                    life.send_modify(|life| {
                        life.exited.get_or_insert((Exit::Signal(9), now));
                        life.stuck = Some(Stuck { pid, since: now });
                    });
                })));
            }
        }
    }

    async fn without_guard(&mut self, strays: usize) {
        tracing::warn!(strays, "a guard was killed; its process was ended with it");
        self.strays = None;
        self.drain().await;
        self.exited(Exit::Signal(9));
        self.gone().await;
    }

    fn exited(&self, exit: Exit) {
        self.life.send_modify(|life| {
            life.exited.get_or_insert((exit, Instant::now()));
        });
    }

    async fn gone(&mut self) {
        self.control = None;
        self.stdin = None;
        self.queue.close();
        self.drain().await;
        self.life.send_modify(|life| life.gone = true);
    }

    /// Reads what was written up to now.
    async fn drain(&mut self) {
        // Whether a pipe can be read is known only of the last time that the runtime looked. A
        // task that yields goes on after the runtime has looked again.
        tokio::task::yield_now().await;
        self.pump(Stream::Out, DRAIN_READS);
        self.pump(Stream::Err, DRAIN_READS);
    }

    /// Reads once, when it is this process's turn.
    async fn take_turn(&mut self, stream: Stream) {
        let turn = TURNS.acquire().await;
        self.pump(stream, 1);
        drop(turn);
    }

    fn pump(&mut self, stream: Stream, reads: usize) {
        let end = match stream {
            Stream::Out => &mut self.stdout,
            Stream::Err => &mut self.stderr,
        };
        let Some(pipe) = end else { return };
        for _ in 0..reads {
            let read = with_scratch(|scratch| {
                pipe.try_read(scratch)
                    .inspect(|read| lock(&self.output).push(stream, &scratch[..*read]))
            });
            match read {
                Ok(1..) => drop(self.wrote.send_replace(Instant::now())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => {
                    *end = None;
                    lock(&self.output).end(stream);
                    return;
                }
            }
        }
    }

    fn feed(&mut self) {
        let Some(stdin) = &self.stdin else {
            return self.queue.close();
        };
        while !self.queue.is_empty() {
            match stdin.try_write(self.queue.front()) {
                Ok(written) => self.queue.advance(written, Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.stdin = None;
                    return self.queue.close();
                }
            }
        }
        if self.queue.is_done() {
            self.stdin = None;
            self.queue.close();
        }
    }
}

/// Whose turn it is to read. Of many processes that flood, one at a time waits for the thread:
/// what answers a call waits behind one read each time that it has to wait, not behind all of them.
static TURNS: Semaphore = Semaphore::const_new(1);

/// How much is read at once: what a pipe holds by default.
const CHUNK: usize = 64 << 10;

/// More than the largest pipe holds: enough for all that is there, and an end to a flood.
const DRAIN_READS: usize = (1 << 20) / CHUNK + 1;

/// Lends the one read buffer of this thread.
fn with_scratch<T>(use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static SCRATCH: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; CHUNK]);
    }
    SCRATCH.with_borrow_mut(|scratch| use_it(scratch))
}

async fn readable(pipe: Option<&platform::Output>) {
    match pipe {
        // An error shows at the read.
        Some(pipe) => {
            let _ = pipe.readable().await;
        }
        None => std::future::pending().await,
    }
}

async fn joined(task: Option<&mut JoinHandle<usize>>) -> usize {
    match task {
        Some(task) => task.await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

async fn writable(pipe: Option<&platform::Input>) {
    // Where there is none, feeding closes the queue at once.
    if let Some(pipe) = pipe {
        let _ = pipe.writable().await;
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
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

/// A panic elsewhere leaves the buffer usable: it is changed in one step.
fn lock(output: &Mutex<Output>) -> MutexGuard<'_, Output> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}
