//! The processes that a guard answers for: the other members of its job.

use std::ffi::c_void;
use std::io;
use std::mem::{ManuallyDrop, offset_of};
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};

use windows_sys::Win32::Foundation::ERROR_MORE_DATA;
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, IsProcessInJob, JOB_OBJECT_LIMIT,
    JOB_OBJECT_LIMIT_ACTIVE_PROCESS, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_PROCESS_ID_LIST, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation, QueryInformationJobObject,
    SetInformationJobObject,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::handle;
use super::walk::Walk;

/// The tree of one process.
#[derive(Debug)]
pub(super) enum Tree {
    /// What is in a job, which is everything. The handle is left to the end of the process: to
    /// close it is to end the guard, which is a member, in the middle of whatever it does.
    Job(ManuallyDrop<Job>),
    /// Where a host forbids jobs: what can be found by following parents. A process whose parent
    /// came and went between two looks is missed.
    Walk(Walk),
}

impl Tree {
    /// Makes this process the guard of all that it will start.
    pub(super) fn enter() -> Self {
        match Job::new().and_then(|job| job.enter().map(|()| job)) {
            Ok(job) => Self::Job(ManuallyDrop::new(job)),
            Err(_) => Self::Walk(Walk::default()),
        }
    }

    /// Says which process the tree starts with, while that certainly has this id.
    pub(super) fn begin(&mut self, leader: u32) {
        if let Self::Walk(walk) = self {
            walk.add(leader);
        }
    }

    /// Everything that lives. Not to know is not the same as nothing.
    pub(super) fn pids(&mut self) -> io::Result<Vec<u32>> {
        match self {
            Self::Job(job) => job.pids(),
            Self::Walk(walk) => Ok(walk.pids()),
        }
    }

    /// A member of the tree, if this certainly is one.
    pub(super) fn open(&self, pid: u32) -> Option<OwnedHandle> {
        match self {
            Self::Job(job) => job.open(pid),
            Self::Walk(walk) => walk.open(pid),
        }
    }

    /// One round of the forced end.
    pub(super) fn kill(&mut self) {
        if let Self::Job(job) = self {
            job.close();
        }
        for pid in self.pids().unwrap_or_default() {
            if let Some(process) = self.open(pid) {
                handle::terminate(process.as_handle());
            }
        }
    }
}

/// A job that ends with the last handle to it.
#[derive(Debug)]
pub(super) struct Job {
    handle: OwnedHandle,
    closed: bool,
}

impl Job {
    fn new() -> io::Result<Self> {
        // SAFETY: no attributes (nobody inherits the handle) and no name are both allowed.
        let handle = unsafe { CreateJobObjectW(std::ptr::null(), std::ptr::null()) };
        // SAFETY: just made, or null.
        let handle = unsafe { handle::own(handle) }?;
        let job = Self {
            handle,
            closed: false,
        };
        job.limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)?;
        Ok(job)
    }

    fn enter(&self) -> io::Result<()> {
        // SAFETY: takes nothing and always works.
        let this = unsafe { GetCurrentProcess() };
        // SAFETY: this process stands for as long as the call lasts.
        self.assign(unsafe { BorrowedHandle::borrow_raw(this) })
    }

    fn assign(&self, process: BorrowedHandle<'_>) -> io::Result<()> {
        let process = process.as_raw_handle();
        // SAFETY: both handles are open.
        handle::check(unsafe { AssignProcessToJobObject(self.handle.as_raw_handle(), process) })
    }

    /// Lets nothing new be born in the job, so that a tree that forks cannot outrun its end.
    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            let _ =
                self.limit(JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_ACTIVE_PROCESS);
        }
    }

    fn limit(&self, flags: JOB_OBJECT_LIMIT) -> io::Result<()> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = flags;
        // Counts only with its flag: the guard and nobody besides.
        limits.BasicLimitInformation.ActiveProcessLimit = 1;
        let size = u32::try_from(size_of_val(&limits)).unwrap_or(0);
        let limits: *const c_void = (&raw const limits).cast();
        let job = self.handle.as_raw_handle();
        // SAFETY: the structure is the one that this class of information is about.
        handle::check(unsafe {
            SetInformationJobObject(job, JobObjectExtendedLimitInformation, limits, size)
        })
    }

    /// The members that live, without the guard itself.
    fn pids(&self) -> io::Result<Vec<u32>> {
        // The ids are as wide as a pointer, and follow two counts of 32 bits.
        const HEAD: usize = offset_of!(JOBOBJECT_BASIC_PROCESS_ID_LIST, ProcessIdList);
        const WIDE: usize = size_of::<usize>();
        let mut list = vec![0_usize; 64];
        loop {
            let size = u32::try_from(list.len() * WIDE).unwrap_or(u32::MAX);
            let job = self.handle.as_raw_handle();
            let start = list.as_mut_ptr();
            // SAFETY: the system writes at most `size` bytes, which the list has.
            let asked = handle::check(unsafe {
                let class = JobObjectBasicProcessIdList;
                QueryInformationJobObject(job, class, start.cast(), size, std::ptr::null_mut())
            });
            // SAFETY: the list is longer than the head, aligned for it, and initialised.
            let listed = unsafe {
                (*start.cast::<JOBOBJECT_BASIC_PROCESS_ID_LIST>()).NumberOfProcessIdsInList
            };
            match asked {
                Ok(()) => {
                    let this = std::process::id();
                    let ids = list.get(HEAD / WIDE..).unwrap_or_default().iter();
                    return Ok(ids
                        .take(listed as usize)
                        .filter_map(|id| u32::try_from(*id).ok())
                        .filter(|pid| *pid != this)
                        .collect());
                }
                Err(error) if error.raw_os_error() == Some(ERROR_MORE_DATA.cast_signed()) => {
                    list.resize(list.len() * 2, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn open(&self, pid: u32) -> Option<OwnedHandle> {
        let process = handle::open_process(pid).ok()?;
        let mut member = 0;
        let job = self.handle.as_raw_handle();
        // The id may have been given to a stranger since the list was made.
        // SAFETY: both handles are open, and the answer goes to a local.
        let asked = unsafe { IsProcessInJob(process.as_raw_handle(), job, &raw mut member) };
        (asked != 0 && member != 0).then_some(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(30);

    /// A process that waits until its input ends.
    fn waiting() -> Child {
        Command::new("cmd.exe")
            .args(["/d", "/C", "set /p line="])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn ends(child: &Child) -> bool {
        handle::wait_any(&[child.as_handle()], Some(LONG))
            .unwrap()
            .is_some()
    }

    #[test]
    fn a_job_lists_its_members_and_ends_them_and_nobody_else() {
        let mut job = Job::new().unwrap();
        assert_eq!(job.pids().unwrap(), Vec::<u32>::new());
        let mut children: Vec<Child> = (0..70).map(|_| waiting()).collect();
        let mut stranger = waiting();
        for child in &children {
            job.assign(child.as_handle()).unwrap();
        }
        let mut pids: Vec<u32> = children.iter().map(Child::id).collect();
        let mut listed = job.pids().unwrap();
        pids.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, pids);
        assert!(job.open(stranger.id()).is_none());
        assert!(job.open(pids[0]).is_some());

        job.close();
        let mut tree = Tree::Job(ManuallyDrop::new(job));
        tree.kill();
        for child in &mut children {
            assert!(ends(child));
            assert_eq!(child.wait().unwrap().code(), Some(1));
        }
        assert_eq!(tree.pids().unwrap(), Vec::<u32>::new());
        assert!(!handle::has_ended(stranger.as_handle()));
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }

    #[test]
    fn the_members_end_with_the_job() {
        let job = Job::new().unwrap();
        let mut child = waiting();
        job.assign(child.as_handle()).unwrap();
        drop(job);
        assert!(ends(&child));
        child.wait().unwrap();
    }
}
