//! All that a guard waits for, in one kernel queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::kqueue::{Event, EventFilter, EventFlags, ProcessEvents, kevent, kqueue};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

/// What ends a guard when it is sent to it.
const ENDING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// What would end or stop a guard without its having a say, and must not.
const IGNORED: [Signal; 8] = [
    Signal::QUIT,
    Signal::PIPE,
    Signal::ALARM,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::USR1,
    Signal::USR2,
];

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// The socket can be read.
    Spoken,
    /// A signal that asks the guard to end.
    AskedToEnd,
    /// Something happened to a child: it has ended, perhaps.
    Child,
    /// A process that is followed has forked.
    Forked,
    /// A process has ended. It may take a moment until it can be waited for.
    Ended(i32),
}

/// The queue.
#[derive(Debug)]
pub(super) struct Watch {
    queue: OwnedFd,
}

impl Watch {
    /// A queue that hears of nothing yet.
    pub(super) fn new() -> io::Result<Self> {
        let queue = kqueue()?;
        rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self { queue })
    }

    /// Hears of signals. Changes what they do in this process: a leader must have that reset.
    pub(super) fn catch_signals(&self) -> io::Result<()> {
        for signal in ENDING.into_iter().chain(IGNORED) {
            // SAFETY: sets a disposition and touches no memory.
            unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
        }
        // The queue hears of an ignored signal too. SIGCHLD alone stays as it is: if it were
        // ignored, the system would not keep the leader's exit status.
        for signal in ENDING.into_iter().chain([Signal::CHILD]) {
            self.add(EventFilter::Signal { signal, times: 0 })?;
        }
        Ok(())
    }

    /// Hears when a socket can be read, until it is closed.
    pub(super) fn listen(&self, socket: &impl AsFd) -> io::Result<()> {
        Ok(self.add(EventFilter::Read(socket.as_fd().as_raw_fd()))?)
    }

    /// Hears of the forks and of the end of a process. Tells whether it has not ended before.
    ///
    /// Nothing is asked about exec: it changes neither the process id nor the unique one.
    pub(super) fn follow(&self, pid: i32) -> bool {
        self.add_process(pid, ProcessEvents::FORK | ProcessEvents::EXIT)
    }

    /// Hears of the end of a process. Tells whether it has not ended before.
    pub(super) fn await_end(&self, pid: i32) -> bool {
        self.add_process(pid, ProcessEvents::EXIT)
    }

    /// Waits until something happens or `timeout` has passed.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<Note>> {
        let mut happened: Vec<Event> = Vec::with_capacity(32);
        // SAFETY: no descriptors are added here, and those added before leave the queue when they
        // are closed.
        match unsafe { kevent(&self.queue, &[], spare_capacity(&mut happened), timeout) } {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let mut notes = Vec::new();
        for event in &happened {
            match event.filter() {
                EventFilter::Read(_) => notes.push(Note::Spoken),
                EventFilter::Signal {
                    signal: Signal::CHILD,
                    ..
                } => notes.push(Note::Child),
                EventFilter::Signal { .. } => notes.push(Note::AskedToEnd),
                EventFilter::Proc { pid, flags } => {
                    if flags.contains(ProcessEvents::FORK) {
                        notes.push(Note::Forked);
                    }
                    if flags.contains(ProcessEvents::EXIT) {
                        notes.push(Note::Ended(pid.as_raw_pid()));
                    }
                }
                _ => {}
            }
        }
        Ok(notes)
    }

    fn add_process(&self, pid: i32, flags: ProcessEvents) -> bool {
        let Some(pid) = Pid::from_raw(pid) else {
            return false;
        };
        self.add(EventFilter::Proc { pid, flags }) != Err(Errno::SRCH)
    }

    fn add(&self, what: EventFilter) -> Result<(), Errno> {
        let change = Event::new(what, EventFlags::ADD, std::ptr::null_mut());
        // Where there is no room for an event, an error comes as the result of the call.
        let mut no_room: [Event; 0] = [];
        // SAFETY: the system itself takes a descriptor out of the queue when it is closed, so a
        // number that is used again later is never mistaken for it.
        unsafe { kevent(&self.queue, &[change], &mut no_room, Some(Duration::ZERO)) }?;
        Ok(())
    }
}
