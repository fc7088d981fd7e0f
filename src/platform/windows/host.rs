//! A guard and its tree.
//!
//! One thread waits for three things at once: the server's pipe, the system's wish that the guard
//! ends, and the end of one process. That process is the leader; when it has exited, it is any
//! one that is left of the tree, since the tree is not empty before that one ends. So nothing is
//! asked in turns, and nothing depends on a job's messages, which may get lost.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, GenerateConsoleCtrlEvent, SetConsoleCtrlHandler,
};
use windows_sys::Win32::System::Threading::SetEvent;
use windows_sys::core::BOOL;

use super::channel::Channel;
use super::handle::{self, Reset};
use super::tree::Tree;
use crate::guard::protocol::{Exit, FRAME, Spec};
use crate::platform::{Containment, Event};

/// How long to wait for a tree of which no process can be opened, before looking again.
const BLIND: Duration = Duration::from_millis(10);

/// Set when the system wants the guard to end.
static ASKED_TO_END: OnceLock<OwnedHandle> = OnceLock::new();

/// The tree of one process, as its guard sees it.
#[derive(Debug)]
pub struct Host {
    server: Option<Channel>,
    stdio: Option<[OwnedHandle; 3]>,
    tree: Tree,
    leader: Leader,
}

#[derive(Debug)]
enum Leader {
    Unborn,
    Alive(Child),
    Exited,
    /// And nothing is left of its tree.
    Gone,
}

/// What a guard waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    AskedToEnd,
    Server,
    Process,
}

impl Host {
    /// Turns this process into a guard.
    pub fn enter() -> io::Result<Self> {
        let number = super::control_handle(std::env::args_os().skip(1));
        let server = Channel::inherited(number.ok_or(io::ErrorKind::InvalidInput)?)?;
        let [input, output, errors] = handle::STANDARD.map(handle::take_standard);
        let stdio = [input?, output?, errors?];
        for stream in &stdio {
            handle::set_inheritable(stream.as_handle(), false)?;
        }
        listen_to_the_system()?;
        Ok(Self {
            server: Some(server),
            stdio: Some(stdio),
            tree: Tree::enter(),
            leader: Leader::Unborn,
        })
    }

    /// Waits for the server's spec, as bytes.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        self.server
            .as_mut()
            .ok_or(io::ErrorKind::NotConnected)?
            .receive_spec()
    }

    /// Starts the leader, and lets go of its streams.
    pub fn spawn(&mut self, spec: &Spec) -> io::Result<u32> {
        let stdio = self.stdio.take().ok_or(io::ErrorKind::NotConnected)?;
        let child = command(spec, stdio).spawn()?;
        let pid = child.id();
        self.tree.begin(pid);
        self.leader = Leader::Alive(child);
        Ok(pid)
    }

    /// What the end of this tree is sure to reach.
    pub fn containment(&self) -> Containment {
        match self.tree {
            Tree::Job(_) => Containment::Exact,
            Tree::Walk(_) => Containment::Group,
        }
    }

    /// Tells the server something; a server that is gone hears nothing.
    pub fn tell(&mut self, frame: [u8; FRAME]) {
        if let Some(server) = &self.server {
            server.tell(frame);
        }
    }

    /// Waits for the next event, or for `timeout` to pass, which is a tick.
    pub fn wait(&mut self, mut timeout: Option<Duration>) -> io::Result<Event> {
        let mut survivor = None;
        if matches!(self.leader, Leader::Exited) {
            let pids = self.tree.pids()?;
            if pids.is_empty() {
                self.leader = Leader::Gone;
                return Ok(Event::Empty);
            }
            survivor = pids.into_iter().find_map(|pid| self.tree.open(pid));
            if survivor.is_none() {
                timeout = Some(timeout.map_or(BLIND, |timeout| timeout.min(BLIND)));
            }
        }
        if self
            .server
            .as_mut()
            .is_some_and(|server| server.listen().is_err())
        {
            self.server = None;
            return Ok(Event::ServerGone);
        }
        Ok(match self.wait_for(survivor.as_ref(), timeout)? {
            None => Event::Tick,
            Some(Source::AskedToEnd) => Event::AskedToEnd,
            Some(Source::Server) => {
                // What had ended before a wish is heard had ended by itself. What was said stays
                // where it is.
                if let exited @ Event::Exited(_) = self.reap()? {
                    return Ok(exited);
                }
                let event = self
                    .server
                    .as_mut()
                    .map_or(Event::ServerGone, Channel::read_event);
                if event == Event::ServerGone {
                    self.server = None;
                }
                event
            }
            Some(Source::Process) => self.reap()?,
        })
    }

    /// Interrupts what is on the console of the tree: the same event that asks it to end.
    pub fn interrupt(&mut self) {
        self.ask();
    }

    /// Asks everything in the tree to end: what Ctrl-C would do if it were typed in its console.
    /// The guard hears it too, and takes no notice.
    pub fn ask(&mut self) {
        // SAFETY: sends an event to the processes of this console.
        unsafe { GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0) };
    }

    /// One round of the forced end. Call it again after each event until the tree is empty.
    pub fn kill(&mut self) {
        self.tree.kill();
    }

    /// A process of the tree that is still there.
    pub fn survivor(&mut self) -> Option<u32> {
        self.tree.pids().ok()?.first().copied()
    }

    /// Waits until one of the sources has something to say.
    fn wait_for(
        &self,
        survivor: Option<&OwnedHandle>,
        timeout: Option<Duration>,
    ) -> io::Result<Option<Source>> {
        let leader = match &self.leader {
            Leader::Alive(leader) => Some(leader.as_handle()),
            _ => None,
        };
        let sources = [
            (
                Source::AskedToEnd,
                ASKED_TO_END.get().map(OwnedHandle::as_handle),
            ),
            (Source::Server, self.server.as_ref().map(Channel::arrived)),
            (
                Source::Process,
                leader.or(survivor.map(OwnedHandle::as_handle)),
            ),
        ];
        let (sources, handles): (Vec<_>, Vec<_>) = sources
            .into_iter()
            .filter_map(|(source, handle)| Some((source, handle?)))
            .unzip();
        let signalled = handle::wait_any(&handles, timeout)?;
        Ok(signalled.and_then(|index| sources.get(index).copied()))
    }

    /// What the end of the process means that was waited for.
    fn reap(&mut self) -> io::Result<Event> {
        let Leader::Alive(leader) = &mut self.leader else {
            return Ok(Event::Tick);
        };
        let Some(status) = leader.try_wait()? else {
            return Ok(Event::Tick);
        };
        self.leader = Leader::Exited;
        Ok(Event::Exited(Exit::Code(status.code().unwrap_or(-1))))
    }
}

/// The leader's command.
fn command(spec: &Spec, [stdin, stdout, stderr]: [OwnedHandle; 3]) -> Command {
    let mut command = Command::new(&spec.program);
    match spec.args.split_last() {
        Some((last, first)) if spec.verbatim => command.args(first).raw_arg(last),
        _ => command.args(&spec.args),
    };
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    for (key, value) in &spec.env {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

/// Hears what the system says, and hands on a Ctrl-C that works.
fn listen_to_the_system() -> io::Result<()> {
    let asked = handle::event(Reset::Auto)?;
    let _ = ASKED_TO_END.set(asked);
    // Whoever is started in a new process group is deaf to Ctrl-C, and so is all that it starts.
    // A host may have done that to the server.
    // SAFETY: changes a flag of this process.
    handle::check(unsafe { SetConsoleCtrlHandler(None, 0) })?;
    // SAFETY: the handler is a function, and stays.
    handle::check(unsafe { SetConsoleCtrlHandler(Some(on_console_event), 1) })
}

/// Runs on a thread that the system makes for it.
unsafe extern "system" fn on_console_event(event: u32) -> BOOL {
    // These are meant for the tree, which shares the guard's console.
    if matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT) {
        return 1;
    }
    if let Some(asked) = ASKED_TO_END.get() {
        // SAFETY: the event is open for as long as the process lives.
        unsafe { SetEvent(asked.as_raw_handle()) };
    }
    // To return is to end at once. The guard ends by itself, or the system's patience does.
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::System::Console::CTRL_CLOSE_EVENT;

    #[test]
    fn the_console_asks_a_guard_to_end_only_when_it_closes() {
        let asked = ASKED_TO_END
            .get_or_init(|| handle::event(Reset::Auto).unwrap())
            .as_handle();
        for meant_for_the_tree in [CTRL_C_EVENT, CTRL_BREAK_EVENT] {
            // SAFETY: as the system calls it.
            assert_eq!(unsafe { on_console_event(meant_for_the_tree) }, 1);
        }
        assert_eq!(
            handle::wait_any(&[asked], Some(Duration::ZERO)).unwrap(),
            None
        );
        // SAFETY: as the system calls it, on a thread of its own; it never returns.
        std::thread::spawn(|| unsafe { on_console_event(CTRL_CLOSE_EVENT) });
        let long = Some(Duration::from_secs(30));
        assert_eq!(handle::wait_any(&[asked], long).unwrap(), Some(0));
    }
}
