//! Who listens on which TCP port: the kernel's lists of sockets, and who holds them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::table;
use crate::platform::PortOwner;

/// The state of a socket that listens, as the kernel writes it.
const LISTEN: &str = "0A";

/// Sockets that listen, each by its number with its port.
type Sockets = HashMap<u64, u16>;

/// Whether a process of this guard's tree listens there; nothing where that cannot be seen.
pub fn listens(guard: u32, port: u16) -> Option<bool> {
    held(guard, |listening| listening == port).map(|held| !held.is_empty())
}

/// Where processes of this guard's tree listen; nothing where that cannot be seen.
pub fn ports(guard: u32) -> Option<BTreeSet<u16>> {
    held(guard, |_| true)
}

/// Who listens on a port in this process's network, for people, and with what arguments where that
/// is for them to know.
pub fn port_owner(port: u16, arguments: bool) -> PortOwner {
    let mut sockets = Sockets::new();
    add_sockets(table::own_pid(), &mut sockets);
    sockets.retain(|_, listening| *listening == port);
    if sockets.is_empty() {
        return PortOwner::Nobody;
    }
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let owner = pids
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .find(|pid| open_sockets(*pid).any(|socket| sockets.contains_key(&socket)));
    PortOwner::Somebody(match owner {
        Some(pid) if arguments => format!("process {pid} ({})", command(pid)),
        Some(pid) => format!("process {pid} ({})", name(pid)),
        None => "a process of another user".into(),
    })
}

/// Where trees listen, looked up for many of them, again and again: a socket that was seen before
/// needs no second search for who holds it.
#[derive(Debug, Default)]
pub struct Listeners {
    /// Of each socket that listens, which guard's tree holds it, if any.
    known: HashMap<u64, Option<u32>>,
}

impl Listeners {
    /// The ports of each tree, as far as it shares the network of this process.
    pub fn of(&mut self, guards: &[u32]) -> HashMap<u32, BTreeSet<u16>> {
        let mut sockets = Sockets::new();
        if table::is_ours() {
            add_sockets(table::own_pid(), &mut sockets);
        }
        self.known.retain(|socket, _| sockets.contains_key(socket));
        let new: HashSet<u64> = sockets
            .keys()
            .filter(|socket| !self.known.contains_key(socket))
            .copied()
            .collect();
        if !new.is_empty() {
            self.learn(&new, guards);
        }
        let mut ports: HashMap<u32, BTreeSet<u16>> = HashMap::new();
        for (socket, guard) in &self.known {
            if let (Some(guard), Some(port)) = (guard, sockets.get(socket)) {
                ports.entry(*guard).or_default().insert(*port);
            }
        }
        ports
    }

    fn learn(&mut self, new: &HashSet<u64>, guards: &[u32]) {
        self.known.extend(new.iter().map(|socket| (*socket, None)));
        for guard in guards {
            for pid in super::living_descendants(guard.cast_signed()) {
                for socket in open_sockets(pid).filter(|socket| new.contains(socket)) {
                    self.known.insert(socket, Some(*guard));
                }
            }
        }
    }
}

fn held(guard: u32, wanted: impl Fn(u16) -> bool) -> Option<BTreeSet<u16>> {
    if !table::is_ours() {
        return None;
    }
    let tree: Vec<_> = super::living_descendants(guard.cast_signed()).collect();
    let mut sockets = Sockets::new();
    // A tree, or a part of it, may have a network of its own.
    let mut networks = HashSet::new();
    for pid in &tree {
        if networks.insert(network(*pid)) {
            add_sockets(*pid, &mut sockets);
        }
    }
    sockets.retain(|_, port| wanted(*port));
    if sockets.is_empty() {
        return Some(BTreeSet::new());
    }
    let open = tree.iter().flat_map(|pid| open_sockets(*pid));
    Some(
        open.filter_map(|socket| sockets.get(&socket).copied())
            .collect(),
    )
}

/// The network that a process is in; nothing where that may not be seen.
fn network(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

fn command(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    words.trim().chars().take(80).collect()
}

fn name(pid: i32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim().to_owned()
}

/// Adds what listens in the network of a process, for either version of IP.
fn add_sockets(pid: i32, sockets: &mut Sockets) {
    for version in ["tcp", "tcp6"] {
        let list = fs::read_to_string(format!("/proc/{pid}/net/{version}"));
        sockets.extend(list.unwrap_or_default().lines().filter_map(listening));
    }
}

/// The socket and the port of a line of `/proc/net/tcp`, if it listens.
fn listening(line: &str) -> Option<(u64, u16)> {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    if fields.nth(1)? != LISTEN {
        return None;
    }
    let (_, port) = local.rsplit_once(':')?;
    Some((
        fields.nth(5)?.parse().ok()?,
        u16::from_str_radix(port, 16).ok()?,
    ))
}

/// The sockets that a process has open.
fn open_sockets(pid: i32) -> impl Iterator<Item = u64> {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    open.into_iter().flatten().flatten().filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let name = target.as_os_str().as_bytes().strip_prefix(b"socket:[")?;
        std::str::from_utf8(name.strip_suffix(b"]")?)
            .ok()?
            .parse()
            .ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_port_has_its_owner() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            for arguments in [true, false] {
                let PortOwner::Somebody(owner) = port_owner(port, arguments) else {
                    panic!("nobody listens on {address}");
                };
                assert!(
                    owner.starts_with(&format!("process {} ", std::process::id())),
                    "{owner}"
                );
                assert_eq!(owner.contains('/'), arguments, "{owner}");
            }
            drop(listener);
            assert_eq!(port_owner(port, true), PortOwner::Nobody);
        }
    }

    #[test]
    fn only_what_listens_is_listed() {
        let line = |state| {
            format!(
                "   0: 00000000000000000000000001000000:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0"
            )
        };
        assert_eq!(listening(&line("0A")), Some((4711, 8080)));
        assert_eq!(listening(&line("01")), None);
        let title = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        assert_eq!(listening(title), None);
        assert_eq!(listening(""), None);
    }
}
