//! The process table, asked by way of libproc.

use std::ffi::{c_int, c_void};

use super::lineage::Process;

/// `PROC_PIDUNIQIDENTIFIERINFO`, of the kernel's private `proc_info.h`. Its size is asserted there,
/// so programs may count on it.
const UNIQUE_IDS: c_int = 17;

/// `struct proc_uniqidentifierinfo`.
#[repr(C)]
#[derive(Default)]
struct UniqueIds {
    executable: [u8; 16],
    id: u64,
    origin: u64,
    version: i32,
    origin_version: i32,
    reserved: [u64; 2],
}

const _: () = assert!(size_of::<UniqueIds>() == 56);

/// Everything that runs, and the dead that were not waited for: they too show who forked whom.
pub(super) fn all() -> Vec<Process> {
    let mut pids = Vec::new();
    loop {
        let room = count_of(list(&mut [])) + 64;
        pids.resize(room, 0);
        let found = count_of(list(&mut pids));
        if found < room {
            pids.truncate(found);
            break;
        }
    }
    pids.into_iter()
        .filter(|pid| *pid > 1)
        .filter_map(dead_or_alive)
        .collect()
}

/// A process that lives or was not waited for.
pub(super) fn dead_or_alive(pid: i32) -> Option<Process> {
    ids(pid, true)
}

/// Whether this process lives and still is the one with that unique id.
pub(super) fn lives(pid: i32, id: u64) -> bool {
    ids(pid, false).is_some_and(|process| process.id == id)
}

fn ids(pid: i32, or_dead: bool) -> Option<Process> {
    let mut ids = UniqueIds::default();
    // SAFETY: the buffer is as large as said, and any bytes are a valid value of its type.
    let written = unsafe {
        libc::proc_pidinfo(
            pid,
            UNIQUE_IDS,
            or_dead.into(),
            (&raw mut ids).cast(),
            size_of_c(&ids),
        )
    };
    (written == size_of_c(&ids)).then_some(Process {
        pid,
        id: ids.id,
        origin: ids.origin,
    })
}

/// Fills `pids`; with no room at all, only counts.
fn list(pids: &mut [i32]) -> c_int {
    let buffer: *mut c_void = if pids.is_empty() {
        std::ptr::null_mut()
    } else {
        pids.as_mut_ptr().cast()
    };
    // SAFETY: the buffer is as large as said, or null with the size zero.
    unsafe { libc::proc_listallpids(buffer, size_of_c(pids)) }
}

fn count_of(answer: c_int) -> usize {
    usize::try_from(answer).unwrap_or(0)
}

pub(super) fn size_of_c<T: ?Sized>(value: &T) -> c_int {
    c_int::try_from(size_of_val(value)).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn own() -> Process {
        dead_or_alive(std::process::id().cast_signed()).unwrap()
    }

    #[test]
    fn this_process_is_listed_and_lives() {
        assert!(all().contains(&own()));
        assert!(lives(own().pid, own().id));
        assert!(!lives(own().pid, own().id + 1));
    }

    #[test]
    fn a_child_is_younger_than_its_origin_and_is_dead_before_it_is_waited_for() {
        let mut child = Command::new("/bin/cat")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let process = dead_or_alive(child.id().cast_signed()).unwrap();
        assert_eq!(process.origin, own().id);
        assert!(process.id > own().id);
        assert!(lives(process.pid, process.id));
        drop(child.stdin.take());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while lives(process.pid, process.id) && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!lives(process.pid, process.id));
        child.wait().unwrap();
        assert_eq!(
            dead_or_alive(process.pid).filter(|other| other.id == process.id),
            None
        );
    }
}
