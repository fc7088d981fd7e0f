//! macOS: a guard follows forks, because nothing hands it the orphans of its tree.
//!
//! There is no subreaper here, no job and no death signal. What there is: each process has an id
//! that is never used again and keeps the one of the process that forked it, so a daemon stays
//! known by its origin (`lineage`); the kernel tells of each fork of a process that is followed
//! (`watch`), and then the process table is searched for what is new (`tree`); and a process that
//! was too quick for this is known by its session or by a descriptor that it has inherited
//! (`sentinel`).
//!
//! To end a tree, everything in it is stopped first: what is stopped does not fork, so at some
//! point a search finds nothing new, and then all of it is killed. No signal is sent to a process
//! whose unique id was not looked at right before; between the two is a gap of a microsecond that
//! this system offers no way to close. The leader's group needs no such care for as long as the
//! leader was not waited for.

mod lineage;
mod sentinel;
mod table;
mod tree;
mod watch;

use std::collections::{HashSet, VecDeque};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::process::{Pid, Signal, WaitOptions};

use super::unix::{self, Channel};
use super::{Containment, Event};
use crate::guard::protocol::{Exit, FRAME, Spec};
use sentinel::Sentinel;
use tree::Tree;
use watch::{Note, Watch};

pub use super::untold::{Listeners, listens, port_owner, ports, tree_size, usage};

/// What this system can promise.
pub const CONTAINMENT: Containment = Containment::Group;

/// Why a tree is not contained exactly.
pub const INEXACT: &str = "macOS tells nobody of a process that leaves its parent quickly and closes all it has inherited";

/// A leader whose end was announced can be waited for after a moment that no event marks.
const MOMENT: Duration = Duration::from_millis(2);

/// How often a tree without a leader is looked at when nothing is heard of it.
const ROUND: Duration = Duration::from_secs(1);

/// How often a search is repeated that goes on finding something new.
const SEARCHES: usize = 20;

/// The tree of one process, as its guard sees it.
#[derive(Debug)]
pub struct Host {
    server: Option<Channel>,
    server_pid: Option<Pid>,
    watch: Watch,
    /// Until the spawn.
    stdio: Option<[OwnedFd; 3]>,
    descriptors: Option<u64>,
    /// Until the server is gone.
    readers: Option<[OwnedFd; 2]>,
    leader: Leader,
    tree: Tree,
    events: VecDeque<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leader {
    Unborn,
    /// Not waited for yet: its process group and its session are certainly still its own.
    Alive(Pid),
    /// The same, and its end was announced.
    Ending(Pid),
    Reaped,
    /// And the rest of the tree is gone, and that was told.
    Gone,
}

impl Leader {
    fn unreaped(self) -> Option<Pid> {
        match self {
            Self::Alive(pid) | Self::Ending(pid) => Some(pid),
            Self::Unborn | Self::Reaped | Self::Gone => None,
        }
    }
}

impl Host {
    /// Turns this process into a guard.
    pub fn enter() -> io::Result<Self> {
        unix::close_inherited();
        // First of all, while nothing else can have that descriptor's number.
        let tree = Tree::new(Sentinel::new().ok());
        // Out of reach of the terminal's and the client's process group signals.
        let _ = rustix::process::setsid();
        unix::reset_signals();
        let watch = Watch::new()?;
        watch.catch_signals()?;
        let server = Channel::from_stdin()?;
        watch.listen(&server)?;
        // A copy of the server's end may be open elsewhere, and then no end of file comes.
        let server_pid = rustix::process::getppid();
        let mut events = VecDeque::new();
        let lives = |pid: Pid| !pid.is_init() && watch.await_end(pid.as_raw_pid());
        if !server_pid.is_some_and(lives) {
            events.push_back(Event::ServerGone);
        }
        Ok(Self {
            server: Some(server),
            server_pid,
            watch,
            stdio: None,
            descriptors: None,
            readers: None,
            leader: Leader::Unborn,
            tree,
            events,
        })
    }

    /// Waits for the server's spec, as bytes.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let server = self.server.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let (streams, body) = server.receive_spec()?;
        self.stdio = Some(streams.leader);
        self.readers = Some(streams.readers);
        self.descriptors = streams.descriptors;
        Ok(body)
    }

    /// Starts the leader, and lets go of its streams.
    pub fn spawn(&mut self, spec: &Spec) -> io::Result<u32> {
        let stdio = self.stdio.take().ok_or(io::ErrorKind::NotConnected)?;
        let mut command = unix::command(spec, stdio);
        let descriptors = self.descriptors;
        let terminal = spec.terminal;
        // SAFETY: the closure only makes system calls that are safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                if terminal {
                    unix::take_terminal()?;
                }
                unix::limit_descriptors(descriptors);
                // What the guard ignores would stay ignored in the leader.
                unix::reset_signals();
                unix::unblock_signals();
                sentinel::pass_on();
                Ok(())
            });
        }
        unix::pin::hold(&mut command, spec)?;
        let child = command.spawn()?;
        let pid = child.id();
        if let Some(leader) = Pid::from_raw(pid.cast_signed()) {
            let lives = self.watch.follow(leader.as_raw_pid());
            let state = if lives { Leader::Alive } else { Leader::Ending };
            self.leader = state(leader);
            self.tree.begin(leader.as_raw_pid());
            self.rescan();
        }
        Ok(pid)
    }

    /// What the end of this tree is sure to reach.
    pub fn containment(&self) -> Containment {
        CONTAINMENT
    }

    /// Tells the server something; a server that is gone hears nothing.
    pub fn tell(&mut self, frame: [u8; FRAME]) {
        if let Some(server) = &self.server {
            server.tell(frame);
        }
    }

    /// Waits for the next event, or for `timeout` to pass, which is a tick.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Event> {
        if let Some(event) = self.events.pop_front() {
            return Ok(event);
        }
        let (mut forked, mut child, mut spoken, mut server_ended) = (false, false, false, false);
        for note in self.watch.wait(self.patience(timeout))? {
            match note {
                Note::Spoken => spoken = true,
                Note::AskedToEnd => self.events.push_back(Event::AskedToEnd),
                Note::Child => child = true,
                Note::Forked => forked = true,
                Note::Ended(pid) => {
                    let pid_is = |other: Option<Pid>| other.map(Pid::as_raw_pid) == Some(pid);
                    server_ended |= pid_is(self.server_pid);
                    if let Leader::Alive(leader) = self.leader
                        && pid_is(Some(leader))
                    {
                        self.leader = Leader::Ending(leader);
                        child = true;
                    }
                    self.tree.ended(pid);
                }
            }
        }
        // Also before a wish is heard: what had ended by then had ended by itself.
        if forked || child || spoken {
            // In time: once the leader was waited for, its session speaks for nobody any more.
            self.rescan();
        }
        if child || spoken || matches!(self.leader, Leader::Ending(_)) {
            self.reap();
        }
        if spoken {
            self.listen();
        }
        if server_ended && self.server.is_some() {
            self.lose_server();
        }
        self.look_whether_empty();
        Ok(self.events.pop_front().unwrap_or(Event::Tick))
    }

    /// Interrupts the leader's process group, as a terminal would.
    pub fn interrupt(&mut self) {
        self.signal_group(&[Signal::INT]);
    }

    /// Asks everything in the tree to end, and wakes what is stopped so that it can.
    pub fn ask(&mut self) {
        let group = self.leader.unreaped();
        self.signal_group(&[Signal::TERM, Signal::CONT]);
        self.for_each_found(|pid, id| {
            let own = Pid::from_raw(pid).and_then(|pid| rustix::process::getpgid(Some(pid)).ok());
            if group.is_none() || own != group {
                tree::send(pid, id, &[Signal::TERM, Signal::CONT]);
            }
        });
    }

    /// One round of the forced end. Call it again after each event until the tree is empty.
    pub fn kill(&mut self) {
        self.signal_group(&[Signal::STOP]);
        self.for_each_found(|pid, id| tree::send(pid, id, &[Signal::STOP]));
        self.signal_group(&[Signal::KILL]);
        for (pid, id) in self.tree.living() {
            tree::send(pid, id, &[Signal::KILL]);
        }
    }

    /// A process of the tree that is still there.
    pub fn survivor(&mut self) -> Option<u32> {
        if self.tree.is_empty() {
            return None;
        }
        self.tree
            .living()
            .first()
            .map(|(pid, _)| pid.cast_unsigned())
    }

    /// How long to wait at most.
    fn patience(&self, timeout: Option<Duration>) -> Option<Duration> {
        let own = match self.leader {
            Leader::Ending(_) => Some(MOMENT),
            Leader::Reaped => Some(ROUND),
            _ => None,
        };
        [timeout, own].into_iter().flatten().min()
    }

    fn listen(&mut self) {
        let Some(server) = &mut self.server else {
            return;
        };
        match server.read_event() {
            Event::ServerGone => self.lose_server(),
            event => self.events.push_back(event),
        }
    }

    fn lose_server(&mut self) {
        self.server = None;
        if let Some(readers) = self.readers.take() {
            unix::drain(readers);
        }
        self.events.push_back(Event::ServerGone);
    }

    fn rescan(&mut self) {
        self.tree.rescan(&self.watch, self.leader.unreaped());
    }

    fn reap(&mut self) {
        let Some(leader) = self.leader.unreaped() else {
            return;
        };
        let Ok(Some((_, status))) = rustix::process::waitpid(Some(leader), WaitOptions::NOHANG)
        else {
            return;
        };
        self.leader = Leader::Reaped;
        self.tree.ended(leader.as_raw_pid());
        let exit = match status.terminating_signal() {
            Some(signal) => Exit::Signal(signal),
            None => Exit::Code(status.exit_status().unwrap_or(-1)),
        };
        self.events.push_back(Event::Exited(exit));
    }

    fn look_whether_empty(&mut self) {
        if self.leader != Leader::Reaped || !self.tree.is_empty() {
            return;
        }
        self.rescan();
        if self.tree.is_empty() {
            self.leader = Leader::Gone;
            self.events.push_back(Event::Empty);
        }
    }

    fn signal_group(&self, signals: &[Signal]) {
        if let Some(leader) = self.leader.unreaped() {
            for signal in signals {
                let _ = rustix::process::kill_process_group(leader, *signal);
            }
        }
    }

    /// Does something once for each process of the tree, those included that are born meanwhile.
    fn for_each_found(&mut self, act: impl Fn(i32, u64)) {
        let mut met = HashSet::new();
        for _ in 0..SEARCHES {
            self.rescan();
            let mut new = false;
            for (pid, id) in self.tree.living() {
                if met.insert(id) {
                    new = true;
                    act(pid, id);
                }
            }
            if !new {
                break;
            }
        }
    }
}

/// Nothing tells what an earlier server has left behind.
pub(super) fn sweep() -> bool {
    true
}

/// Orphans go to launchd here.
pub(super) fn adopt_orphans() {}

/// Ends nothing: what a guard leaves behind when it is killed goes to launchd, out of reach.
pub async fn end_strays(_: u32, _: impl FnMut(u32)) -> usize {
    0
}

/// What holds a guard is not seen here.
pub fn end_held_guard(_: u32) -> bool {
    false
}

/// A host that dies closes its end, and nothing else is known of it here.
pub async fn host_gone(_: impl Future<Output = ()>) {
    std::future::pending::<()>().await;
}

/// Nothing is sure to be found here.
pub(super) fn descendants() -> Vec<u32> {
    Vec::new()
}

/// The parent of a process is for its guard to know.
pub(super) fn parent(_: u32) -> Option<u32> {
    None
}

/// This system cannot flag a range of descriptors at once.
pub(super) fn close_on_exec_from(_: u32) -> bool {
    false
}

/// Opens a terminal once more, non-blocking, so that the flag is ours alone. Pipes have no name
/// here by which they could be opened again.
pub(super) fn reopen(fd: &impl AsRawFd, flags: OFlags) -> Option<OwnedFd> {
    let mut name = [0_u8; 128];
    // SAFETY: the buffer is as large as said and outlives the call.
    let error = unsafe { libc::ttyname_r(fd.as_raw_fd(), name.as_mut_ptr().cast(), name.len()) };
    let name = CStr::from_bytes_until_nul(&name)
        .ok()
        .filter(|_| error == 0)?;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(name, flags, Mode::empty()).ok()
}

/// Opens a directory, to enter it and to look at it alone: also one that may not be read.
pub(super) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let looking = OFlags::from_bits_retain(libc::O_EVTONLY.cast_unsigned());
    let flags = looking | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Where an open directory is now.
pub(super) fn place(directory: &OwnedFd) -> Option<PathBuf> {
    let path = rustix::fs::getpath(directory).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}

/// The file system that something is in.
pub(super) fn device(stat: &Stat) -> u64 {
    i64::from(stat.st_dev).cast_unsigned()
}

/// Gives a signal its default disposition.
pub(super) fn reset_signal(number: i32) {
    // SAFETY: sets a disposition and touches no memory; for numbers that cannot be set the call
    // fails and changes nothing.
    unsafe { libc::signal(number, libc::SIG_DFL) };
}

/// The system tells by itself.
pub(super) fn started_as() -> Option<PathBuf> {
    None
}

/// No name stands for a program whose file was replaced.
pub(super) fn own_program() -> Option<&'static str> {
    None
}
