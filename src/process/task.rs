//! The task that owns everything about one process: streams, socket to the guard, input, timers.
//!
//! It ends when nothing is left to listen to: the guard is done and both streams are at their end.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::frames::{Frames, end_record, unrecorded};
use super::input::{Input, Queue, Reply};
use super::lock;
use super::state::{Life, Lost, Stuck};
use crate::audit::Record;
use crate::guard::protocol::{Exit, FromGuard, ToGuard};
use crate::output::{Output, Screen, Stream};
use crate::platform::{self, GuardEnds, WindowSize};

/// What a handle asks of the task.
#[derive(Debug)]
pub(super) enum Message {
    /// End the tree.
    Stop { grace: Duration },
    /// Write this to its input.
    Input { input: Input, reply: Reply },
    /// Its terminal's window has another size.
    Resize(WindowSize),
    /// Read what was written up to now, and say when that is done.
    Settle(oneshot::Sender<()>),
}

/// Listens to a process that was born. Gives where to ask something of it, and when it has
/// written last.
pub(super) fn listen(
    ends: GuardEnds,
    frames: Frames,
    life: watch::Sender<Life>,
    output: Arc<Mutex<Output>>,
    screen: Option<Arc<Mutex<Screen>>>,
    record: Option<Record>,
) -> (mpsc::UnboundedSender<Message>, watch::Receiver<Instant>) {
    let now = Instant::now();
    let (mailbox, messages) = mpsc::unbounded_channel();
    let (wrote, written) = watch::channel(now);
    let task = Task {
        life,
        output,
        screen,
        wrote,
        messages,
        frames,
        queue: Queue::new(now),
        stdin: Some(ends.stdin),
        stdout: Some(ends.stdout),
        stderr: ends.stderr,
        control: Some(ends.control),
        guard: ends.guard,
        wishes: VecDeque::new(),
        strays: None,
        record,
    };
    tokio::spawn(task.run());
    (mailbox, written)
}

struct Task {
    life: watch::Sender<Life>,
    output: Arc<Mutex<Output>>,
    /// Where it has a terminal: standard output is what comes from that, and there is no other.
    screen: Option<Arc<Mutex<Screen>>>,
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
    /// Since when the guard is to hear that its tree is to end, for each time that it was told.
    wishes: VecDeque<Instant>,
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
            let overdue = self.overdue();
            tokio::select! {
                frame = self.frames.next_of(self.control.as_ref()) => self.hear(frame).await,
                strays = joined(self.strays.as_mut()) => self.without_guard(strays).await,
                () = readable(self.stdout.as_ref()) => self.take_turn(Stream::Out).await,
                () = readable(self.stderr.as_ref()) => self.take_turn(Stream::Err).await,
                () = writable(self.stdin.as_ref()), if !self.queue.is_empty() => self.feed(),
                () = until(self.queue.deadline()) => self.queue.expire(Instant::now()),
                () = until(overdue) => self.look_for_guard(),
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
            Message::Resize(size) => self.resize(size),
            Message::Stop { grace } => {
                self.wishes.push_back(Instant::now());
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
            Some(FromGuard::Heard) => {
                self.life.send_modify(Life::ask_to_stop);
                self.wishes.pop_front();
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
                life.send_modify(|life| {
                    life.guard_lost.get_or_insert(Lost::Killed);
                });
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

    /// When a guard that lives should have heard what it was told last.
    fn overdue(&self) -> Option<Instant> {
        let since = self.wishes.front()?;
        self.control.as_ref().map(|_| *since + ATTENTION)
    }

    /// A guard that a debugger holds would keep its tree from ending for as long as it is held.
    fn look_for_guard(&mut self) {
        if platform::end_held_guard(self.guard) {
            self.life.send_modify(|life| {
                life.ask_to_stop();
                life.guard_lost = Some(Lost::Held);
                life.forced = true;
            });
        }
        // Held or only slow: look again after as long.
        if let Some(since) = self.wishes.front_mut() {
            *since = Instant::now();
        }
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

    fn resize(&self, size: WindowSize) {
        if let (Some(screen), Some(stdin)) = (&self.screen, &self.stdin)
            && let Ok(()) = platform::resize(stdin, size)
        {
            lock(screen).resize(size);
        }
    }

    /// Reads once, when it is this process's turn.
    async fn take_turn(&mut self, stream: Stream) {
        let turn = TURNS.acquire().await;
        self.pump(stream, 1);
        if self.screen.is_some() {
            // A terminal gives little at once and it takes long to show: whoever has something to do
            // comes first, before the next little.
            tokio::task::yield_now().await;
        }
        drop(turn);
    }

    fn pump(&mut self, stream: Stream, reads: usize) {
        self.read(stream, reads);
        if self.screen.is_some() {
            // What the terminal was asked is answered at once.
            self.feed();
        }
    }

    fn read(&mut self, stream: Stream, reads: usize) {
        let end = match stream {
            Stream::Out => &mut self.stdout,
            Stream::Err => &mut self.stderr,
        };
        let Some(pipe) = end else { return };
        for _ in 0..reads {
            let read = with_scratch(|scratch| {
                pipe.try_read(scratch).inspect(|read| {
                    let bytes = &scratch[..*read];
                    lock(&self.output).push(stream, bytes);
                    if let Some(screen) = &self.screen {
                        self.queue.answer(&lock(screen).feed(bytes));
                    }
                })
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

/// A guard answers at once, if anything of it runs. Shorter than the time that a server has which
/// is to end.
const ATTENTION: Duration = Duration::from_millis(40);

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

pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
