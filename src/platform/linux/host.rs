//! The host's death, where nothing else tells of it.
//!
//! A host that dies closes its end of our input. But that end may be open elsewhere as well: a
//! host that leaks descriptors has given a copy to the next program that it started. So the
//! process that holds the end, or has made the socket, is found once and watched.
//!
//! Only that process. An ancestor that ends may have been no more than a launcher.

use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;

use rustix::process::{Pid, PidfdFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::table;
use crate::platform::unix::standard;

/// Launchers between a host and its server are few.
const MOST_ANCESTORS: usize = 16;

/// Completes when the process at the other end of the client's input has ended, although that
/// end is still open. Never, where it is not known who that is. It is looked for after `moment`.
pub async fn host_gone(moment: impl Future<Output = ()>) {
    moment.await;
    let Some(host) = find_host() else {
        return std::future::pending().await;
    };
    let handle = rustix::process::pidfd_open(host, PidfdFlags::NONBLOCK).ok();
    let watched = handle
        // SAFETY: the handle owns its descriptor and is moved in; nothing else closes it.
        .and_then(|handle| unsafe {
            AsyncFd::register_with_interest(handle, Interest::READABLE).ok()
        });
    if let Some(watched) = watched
        // An id that was free for a moment may be another's by now.
        && find_host() == Some(host)
        && watched.readable().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

fn find_host() -> Option<Pid> {
    let stdin = standard(0);
    let found = match rustix::net::sockopt::socket_peercred(stdin) {
        Ok(maker) => maker.pid,
        Err(_) => pipe_holder(&stdin)?,
    };
    // Outside of our process ids it is 0, and to watch ourselves is no use.
    let own = rustix::process::getpid();
    (found.as_raw_pid() > 0 && found != own).then_some(found)
}

/// The nearest ancestor that holds the writing end of a pipe.
fn pipe_holder(pipe: &impl AsFd) -> Option<Pid> {
    let stat = rustix::fs::fstat(pipe).ok()?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_fifo() {
        return None;
    }
    let mut pid = table::stat(table::own_pid())?.parent;
    for _ in 0..MOST_ANCESTORS {
        if pid <= 0 {
            return None;
        }
        if holds(pid, stat.st_ino) {
            return Pid::from_raw(pid);
        }
        pid = table::stat(pid)?.parent;
    }
    None
}

fn holds(pid: i32, pipe: u64) -> bool {
    let name = format!("pipe:[{pipe}]");
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    open.flatten().any(|entry| {
        let link = entry.path();
        // By its name: to look at what is open may wait for a network.
        std::fs::read_link(&link).is_ok_and(|target| target.as_os_str() == name.as_str())
            // The link's own mode tells for what it is open.
            && std::fs::symlink_metadata(&link).is_ok_and(|link| link.st_mode() & 0o200 != 0)
    })
}
