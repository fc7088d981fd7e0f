//! What happens to a tree, to its server and to its host.

use super::tree::Tree;
use crate::platform::lab::{self, Blow};

/// One column of the matrix.
#[derive(Debug)]
pub(super) struct Event {
    /// For the table and between the processes of a cell.
    pub(super) title: &'static str,
    /// What it is.
    pub(super) meaning: &'static str,
    pub(super) kind: Kind,
    /// Whether the tree must have been asked, and given its time, before it was ended by force.
    pub(super) graceful: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The host does something, and says so.
    Host(&'static str),
    /// The same, and after so many milliseconds the server is killed.
    HostThenKill(&'static str, u64),
    Server(Blow),
    ServerGroup(Blow),
    HostKilled,
    Visible {
        parents_first: bool,
    },
    Guard,
    /// The guard is struck, and its server at once after it.
    GuardThenServer(Blow, Blow),
}

/// Everything that has ended a server somewhere.
pub(super) const EVENTS: [Event; 15] = [
    Event {
        title: "stop",
        meaning: "the tool `stop` is called; nothing of the tree may be left when it answers",
        kind: Kind::Host("stop"),
        graceful: true,
    },
    Event {
        title: "stdin",
        meaning: "the server's input is closed",
        kind: Kind::Host("close"),
        graceful: true,
    },
    Event {
        title: "stdin, KILL",
        meaning: "its input is closed, and 20 ms later the server is killed with SIGKILL",
        kind: Kind::HostThenKill("close", 20),
        graceful: true,
    },
    Event {
        title: "TERM",
        meaning: "the server gets SIGTERM",
        kind: Kind::Server(Blow::Term),
        graceful: true,
    },
    Event {
        title: "INT",
        meaning: "the server gets SIGINT",
        kind: Kind::Server(Blow::Int),
        graceful: true,
    },
    Event {
        title: "HUP",
        meaning: "the server gets SIGHUP",
        kind: Kind::Server(Blow::Hup),
        graceful: true,
    },
    Event {
        title: "stdout",
        meaning: "nobody reads the server's output any more, and it has something to say",
        kind: Kind::Host("break"),
        graceful: true,
    },
    Event {
        title: "host",
        meaning: "the host is killed with SIGKILL",
        kind: Kind::HostKilled,
        graceful: true,
    },
    Event {
        title: "server",
        meaning: "the server is killed with SIGKILL",
        kind: Kind::Server(Blow::Kill),
        graceful: true,
    },
    Event {
        title: "group",
        meaning: "the server's process group is killed with SIGKILL (Codex, Zed)",
        kind: Kind::ServerGroup(Blow::Kill),
        graceful: true,
    },
    Event {
        title: "all, down",
        meaning: "everything that can be seen below the host is killed with SIGKILL, parents first (VS Code)",
        kind: Kind::Visible {
            parents_first: true,
        },
        graceful: false,
    },
    Event {
        title: "all, up",
        meaning: "the same, children first",
        kind: Kind::Visible {
            parents_first: false,
        },
        graceful: false,
    },
    Event {
        title: "guard",
        meaning: "the guard is killed with SIGKILL; the server goes on",
        kind: Kind::Guard,
        graceful: false,
    },
    Event {
        title: "guard, TERM",
        meaning: "the guard is killed with SIGKILL, and in the same moment the server gets SIGTERM",
        kind: Kind::GuardThenServer(Blow::Kill, Blow::Term),
        graceful: false,
    },
    Event {
        title: "guard stopped, TERM",
        meaning: "the guard is stopped (SIGSTOP), and in the same moment the server gets SIGTERM",
        kind: Kind::GuardThenServer(Blow::Stop, Blow::Term),
        graceful: true,
    },
];

impl Event {
    /// Whether nobody is left that could end this tree.
    pub(super) fn excused(&self, tree: &Tree) -> bool {
        let all_at_once = matches!(self.kind, Kind::Visible { .. });
        let out_of_sight = tree.name == "forks and exits at full speed";
        // Where a system has no subreaper, what a killed guard leaves is out of reach.
        let guard_killed = matches!(
            self.kind,
            Kind::Guard | Kind::GuardThenServer(Blow::Kill, _)
        );
        all_at_once && out_of_sight || guard_killed && !lab::can_count()
    }

    /// Whether the server lives on.
    pub(super) fn spares_server(&self) -> bool {
        matches!(self.kind, Kind::Guard | Kind::Host("stop"))
    }
}
