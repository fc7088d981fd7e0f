//! Who listens on a TCP port: the kernel's list of sockets, and who holds them.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::table;

/// The state of a socket that listens, as the kernel writes it.
const LISTEN: &str = "0A";

/// Whether a process of this guard's tree listens there; nothing where that cannot be seen.
pub fn listens(guard: u32, port: u16) -> Option<bool> {
    if !table::is_ours() {
        return None;
    }
    let tree: Vec<_> = super::living_descendants(guard.cast_signed()).collect();
    // A tree may have a network of its own.
    let namespace = tree.first().copied().unwrap_or_else(table::own_pid);
    let sockets = sockets(namespace, port);
    Some(!sockets.is_empty() && tree.iter().any(|pid| holds(*pid, &sockets)))
}

/// Who listens on a port in this process's network, for people, and with what arguments where that
/// is for them to know; nothing where nobody does.
pub fn port_owner(port: u16, arguments: bool) -> Option<String> {
    let sockets = sockets(table::own_pid(), port);
    if sockets.is_empty() {
        return None;
    }
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let owner = pids
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .find(|pid| holds(*pid, &sockets));
    Some(match owner {
        Some(pid) if arguments => format!("process {pid} ({})", command(pid)),
        Some(pid) => format!("process {pid} ({})", name(pid)),
        None => "a process of another user".into(),
    })
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

/// The numbers of the sockets that listen there, for either version of IP.
fn sockets(namespace: i32, port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let mut found = Vec::new();
    for version in ["tcp", "tcp6"] {
        let list = fs::read_to_string(format!("/proc/{namespace}/net/{version}"));
        for line in list.unwrap_or_default().lines().skip(1) {
            let fields: Vec<_> = line.split_ascii_whitespace().collect();
            if let [_, local, _, LISTEN, _, _, _, _, _, inode, ..] = fields[..]
                && local.ends_with(&port)
            {
                found.push(format!("socket:[{inode}]"));
            }
        }
    }
    found
}

fn holds(pid: i32, sockets: &[String]) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    open.into_iter().flatten().flatten().any(|entry| {
        fs::read_link(entry.path()).is_ok_and(|target| {
            let target = target.as_os_str().as_bytes();
            sockets.iter().any(|socket| socket.as_bytes() == target)
        })
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
                let owner = port_owner(port, arguments).unwrap();
                assert!(
                    owner.starts_with(&format!("process {} ", std::process::id())),
                    "{owner}"
                );
                assert_eq!(owner.contains('/'), arguments, "{owner}");
            }
            drop(listener);
            assert_eq!(port_owner(port, true), None);
        }
    }
}
