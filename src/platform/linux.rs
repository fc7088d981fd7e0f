//! Linux: a guard is a child subreaper, so its descendants are the tree, exactly.
//!
//! Every orphan of the tree (a daemon that called `setsid`, forked twice, closed everything) is
//! re-parented to the guard and to nobody else. So the tree is empty exactly when the guard has
//! no child left to wait for, and it can be ended from the top: the guard kills its direct
//! children, their children become its own, and so on until none is left.
//!
//! Only direct children are killed by process id. A child that has not been waited for keeps its
//! id, so no stranger can be hit.

mod cgroup;
mod host;
mod ports;
mod table;

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, Stat};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::unix::{self, Channel};
use super::{Containment, Event, Usage};
use crate::guard::protocol::{Exit, FRAME, Spec};
use cgroup::Group;

/// What this system can promise.
pub const CONTAINMENT: Containment = Containment::Exact;

/// Why a tree is not contained exactly; here it always is.
pub const INEXACT: &str = "";

pub use host::host_gone;
pub use ports::{Listeners, listens, port_owner, ports};

/// What was killed and lives for so long belongs to another user or waits for a device.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The tree of one process, as its guard sees it.
#[derive(Debug)]
pub struct Host {
    server: Option<Channel>,
    signals: OwnedFd,
    /// Until the spawn.
    stdio: Option<[OwnedFd; 3]>,
    descriptors: Option<u64>,
    /// Until the server is gone.
    readers: Option<[OwnedFd; 2]>,
    leader: Leader,
    /// Where this user may have one.
    group: Option<Group>,
    events: VecDeque<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leader {
    Unborn,
    /// Not waited for yet: its process group is certainly still its own.
    Alive(Pid),
    Reaped,
}

impl Host {
    /// Turns this process into a guard.
    pub fn enter() -> io::Result<Self> {
        unix::close_inherited();
        rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
        // Out of reach of the terminal's and the client's process group signals.
        let _ = rustix::process::setsid();
        let _ = rustix::thread::set_name(c"sc-guard");
        unix::reset_signals();
        let signals = block_signals()?;
        let server = Channel::from_stdin()?;
        Ok(Self {
            server: Some(server),
            signals,
            stdio: None,
            descriptors: None,
            readers: None,
            leader: Leader::Unborn,
            group: None,
            events: VecDeque::new(),
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
        let guard = rustix::process::getpid();
        let id = std::env::args().nth(1).unwrap_or_default();
        self.group = Group::make(&id);
        let entrance = self.group.as_ref().and_then(Group::entrance);
        // SAFETY: the closure only makes system calls that are safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                unix::unblock_signals();
                unix::limit_descriptors(descriptors);
                if let Some(entrance) = &entrance {
                    // Where that fails, the tree is kept as it is without a group.
                    let _ = rustix::io::write(entrance, b"0");
                }
                rustix::process::setsid()?;
                if terminal {
                    unix::take_terminal()?;
                }
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // The guard may have died before that took effect.
                if rustix::process::getppid() == Some(guard) {
                    Ok(())
                } else {
                    Err(io::ErrorKind::BrokenPipe.into())
                }
            });
        }
        unix::pin::hold(&mut command, spec)?;
        let child = command.spawn()?;
        let pid = child.id();
        self.leader = Pid::from_raw(pid.cast_signed()).map_or(Leader::Unborn, Leader::Alive);
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
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if let Some(server) = &self.server {
            fds.push(PollFd::new(server, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Event::Tick),
            Err(error) => return Err(error.into()),
        }
        let signalled = !fds[0].revents().is_empty();
        let spoken = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if signalled {
            self.read_signals();
        }
        // Also before a wish is heard: what had ended by then had ended by itself.
        self.reap();
        if spoken {
            let event = self
                .server
                .as_mut()
                .map_or(Event::ServerGone, Channel::read_event);
            if event == Event::ServerGone {
                self.server = None;
                if let Some(readers) = self.readers.take() {
                    unix::drain(readers);
                }
            }
            self.events.push_back(event);
        }
        Ok(self.events.pop_front().unwrap_or(Event::Tick))
    }

    /// Interrupts the leader's process group, as a terminal would.
    pub fn interrupt(&mut self) {
        if let Leader::Alive(leader) = self.leader {
            let _ = rustix::process::kill_process_group(leader, Signal::INT);
        }
    }

    /// Asks everything in the tree to end, and wakes what is stopped so that it can.
    pub fn ask(&mut self) {
        if let Some(group) = &self.group {
            group.thaw();
        }
        let mut asked = HashSet::new();
        let group = match self.leader {
            Leader::Alive(leader) => {
                let _ = rustix::process::kill_process_group(leader, Signal::TERM);
                let _ = rustix::process::kill_process_group(leader, Signal::CONT);
                Some(leader)
            }
            _ => None,
        };
        // What is born or handed over while we look is met in the next pass.
        for _ in 0..10 {
            let met = asked.len();
            for (parent, pid) in table::descendants(table::own_pid()) {
                let Some(pid) = Pid::from_raw(pid) else {
                    continue;
                };
                let own_group = rustix::process::getpgid(Some(pid)).ok();
                if asked.insert(pid) && (group.is_none() || own_group != group) {
                    ask_descendant(parent, pid);
                }
            }
            // Without the process table a look takes as long as a tree may need to end.
            if asked.len() == met || !table::is_ours() {
                break;
            }
        }
    }

    /// One round of the forced end. Call it again after each event until the tree is empty.
    pub fn kill(&mut self) {
        if let Some(group) = &self.group {
            group.kill();
        }
        if let Leader::Alive(leader) = self.leader {
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
        for pid in table::own_children() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }

    /// A process of the tree that is still there.
    pub fn survivor(&mut self) -> Option<u32> {
        table::own_children().first().map(|pid| pid.cast_unsigned())
    }

    fn read_signals(&mut self) {
        while let Some(signal) = next_signal(&self.signals) {
            if matches!(signal, libc::SIGTERM | libc::SIGINT | libc::SIGHUP) {
                self.events.push_back(Event::AskedToEnd);
            }
        }
    }

    fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if self.leader == Leader::Alive(pid) => {
                    self.leader = Leader::Reaped;
                    let exit = match status.terminating_signal() {
                        Some(signal) => Exit::Signal(signal),
                        None => Exit::Code(status.exit_status().unwrap_or(-1)),
                    };
                    self.events.push_back(Event::Exited(exit));
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return,
                Err(_) => {
                    if self.leader == Leader::Reaped {
                        self.events.push_back(Event::Empty);
                    }
                    return;
                }
            }
        }
    }
}

/// Ends what an earlier server and its guards have left behind that were all killed at once. Whether nothing is left of it.
pub(super) fn sweep() -> bool {
    cgroup::sweep()
}

/// Lets orphans of guards that were killed come to the server.
pub(super) fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Pid::from_raw(1));
}

/// Ends, by force, what was re-parented to the server because its guard was killed. At once and
/// without asking: while that lasts nobody would end it if the server were killed too. Tells how
/// many processes that were, and on the way, again and again, which one does not end.
pub async fn end_strays(guard: u32, mut stuck: impl FnMut(u32)) -> usize {
    let begun = Instant::now();
    let mut ended = HashSet::new();
    loop {
        // A process closes its socket first and hands over its children after that. What a debugger
        // holds can be waited for only when the debugger has done so.
        let handed_over = !unix::guards().contains(&guard)
            || table::stat(guard.cast_signed()).is_some_and(table::Stat::has_ended);
        let clean = !handed_over || cgroup::end(guard);
        let strays = strays();
        if handed_over && clean && strays.is_empty() {
            return ended.len();
        }
        let mut patience = Duration::from_millis(1);
        if begun.elapsed() >= STUCK_AFTER {
            patience = Duration::from_secs(1);
            if let Some(pid) = strays.first() {
                stuck(pid.cast_unsigned());
            }
        }
        for pid in strays {
            ended.insert(pid);
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        // Each death hands its children to the server: look again.
        tokio::time::sleep(patience).await;
    }
}

/// Kills a guard that a debugger holds: it hears nothing, for as long as somebody likes. Whether
/// it was one.
pub fn end_held_guard(guard: u32) -> bool {
    let held = unix::guards().contains(&guard)
        && table::stat(guard.cast_signed()).is_some_and(table::Stat::is_held);
    if held && let Some(guard) = Pid::from_raw(guard.cast_signed()) {
        let _ = rustix::process::kill_process(guard, Signal::KILL);
    }
    held
}

/// How many processes of the tree of a guard are alive.
pub fn tree_size(guard: u32) -> Option<usize> {
    table::is_ours().then(|| living_descendants(guard.cast_signed()).count())
}

/// What the tree of a guard takes; nothing where that cannot be seen.
pub fn usage(guard: u32) -> Option<Usage> {
    // Those that have ended and were waited for count for whoever waited.
    let mut ticks = table::stat(guard.cast_signed())?.waited_ticks;
    let mut pages = 0;
    for pid in living_descendants(guard.cast_signed()) {
        if let Some(stat) = table::stat(pid) {
            ticks += stat.ticks + stat.waited_ticks;
            pages += stat.resident;
        }
    }
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Some(Usage {
        processor: Duration::from_nanos(ticks * (1_000_000_000 / ticks_per_second)),
        memory: pages * rustix::param::page_size() as u64,
    })
}

/// Everything alive that comes from this process, parents first.
pub(super) fn descendants() -> Vec<u32> {
    living_descendants(table::own_pid())
        .map(i32::cast_unsigned)
        .collect()
}

/// The parent of a process.
pub(super) fn parent(pid: u32) -> Option<u32> {
    table::stat(pid.cast_signed()).map(|stat| stat.parent.cast_unsigned())
}

fn living_descendants(ancestor: i32) -> impl Iterator<Item = i32> {
    table::descendants(ancestor)
        .into_iter()
        .map(|(_, pid)| pid)
        .filter(|pid| !table::stat(*pid).is_none_or(table::Stat::has_ended))
}

/// Those included that have ended: until one was waited for, its own children may be on their way.
fn strays() -> Vec<i32> {
    let guards = unix::guards();
    let mut children = table::own_children();
    children.retain(|pid| !guards.contains(&pid.cast_unsigned()));
    children
}

/// Asks a descendant: one that is not a child of ours only when it certainly is still the one
/// that was found.
fn ask_descendant(parent: i32, pid: Pid) {
    let signal = |send: &dyn Fn(Signal) -> rustix::io::Result<()>| {
        let _ = send(Signal::TERM);
        let _ = send(Signal::CONT);
    };
    let guard = table::own_pid();
    if parent == guard {
        return signal(&|signal| rustix::process::kill_process(pid, signal));
    }
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty());
    let Some(stat) = table::stat(pid.as_raw_pid()) else {
        return;
    };
    if stat.parent != parent && stat.parent != guard {
        return;
    }
    match &handle {
        Ok(handle) => signal(&|signal| rustix::process::pidfd_send_signal(handle, signal)),
        Err(_) => signal(&|signal| rustix::process::kill_process(pid, signal)),
    }
}

/// Blocks every signal and gives a descriptor from which they are read instead.
fn block_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigfillset` before it is read, and all pointers are to
    // locals that outlive the calls.
    let fd = unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `signalfd` has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn next_signal(signals: &OwnedFd) -> Option<i32> {
    let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(signals.as_fd(), &mut info).ok()?;
    // The signal's number is the first field.
    (read == info.len()).then(|| i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
}

/// Gives a signal its default disposition. Past the C library, which keeps two numbers for itself
/// and would leave them ignored where a host ignores them.
pub(super) fn reset_signal(number: i32) {
    // The kernel's own form of `struct sigaction`, of which zeros are the default everywhere.
    let default = [0_u64; 4];
    // SAFETY: the kernel reads 32 bytes at most of `default`, and writes nothing for a null.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            number,
            default.as_ptr(),
            std::ptr::null_mut::<u64>(),
            size_of::<u64>(),
        );
    }
}

/// Lets everything from `first` on be closed by exec.
pub(super) fn close_on_exec_from(first: u32) -> bool {
    // SAFETY: changes a flag of descriptors, no memory.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        ) == 0
    }
}

/// Opens what a descriptor stands for once more, non-blocking, so that the flag is ours alone.
pub(super) fn reopen(fd: &impl AsRawFd, flags: OFlags) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// Opens a directory, to enter it and to look at it alone.
pub(super) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Where an open directory is now.
pub(super) fn place(directory: &OwnedFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).ok()
}

/// The file system that something is in.
pub(super) fn device(stat: &Stat) -> u64 {
    stat.st_dev
}

/// The file that was executed, where `/proc` does not tell.
pub(super) fn started_as() -> Option<PathBuf> {
    let name = rustix::param::linux_execfn().to_bytes();
    std::path::absolute(Path::new(OsStr::from_bytes(name))).ok()
}

/// This very program, also after its file was replaced or removed.
pub(super) fn own_program() -> Option<&'static str> {
    std::fs::exists("/proc/self/exe")
        .unwrap_or(false)
        .then_some("/proc/self/exe")
}
