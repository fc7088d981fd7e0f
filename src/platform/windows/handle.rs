//! Calls on handles, in a safe form.

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::time::Duration;

use windows_sys::Win32::Foundation::{
    HANDLE, HANDLE_FLAG_INHERIT, INVALID_HANDLE_VALUE, SetHandleInformation, WAIT_FAILED,
    WAIT_OBJECT_0, WAIT_TIMEOUT,
};
use windows_sys::Win32::System::Console::{
    GetStdHandle, STD_ERROR_HANDLE, STD_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, SetStdHandle,
};
use windows_sys::Win32::System::Threading::{
    CreateEventW, INFINITE, OpenProcess, PROCESS_QUERY_INFORMATION, PROCESS_SYNCHRONIZE,
    PROCESS_TERMINATE, TerminateProcess, WaitForMultipleObjects,
};
use windows_sys::core::BOOL;

/// Input, output and errors, in this order.
pub(super) const STANDARD: [STD_HANDLE; 3] =
    [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE];

/// The exit code of a process that a guard ends by force.
const ENDED_BY_FORCE: u32 = 1;

/// The result of a call that says only whether it worked.
pub(super) fn check(worked: BOOL) -> io::Result<()> {
    if worked == 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Takes over the handle that a call has just made, or the reason why it made none.
///
/// # Safety
///
/// The handle must be null or valid and owned by nobody else.
pub(super) unsafe fn own(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: what the caller promises.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// One of the process's standard streams, if it has it.
pub(super) fn standard(stream: STD_HANDLE) -> Option<BorrowedHandle<'static>> {
    // SAFETY: reads a value of this process.
    let handle = unsafe { GetStdHandle(stream) };
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return None;
    }
    // SAFETY: a standard handle stays open; only `take_standard` takes one away, in a guard, which
    // borrows none.
    Some(unsafe { BorrowedHandle::borrow_raw(handle) })
}

/// Takes one of the process's standard streams away from it.
pub(super) fn take_standard(stream: STD_HANDLE) -> io::Result<OwnedHandle> {
    let handle = standard(stream)
        .ok_or(io::ErrorKind::NotFound)?
        .as_raw_handle();
    // SAFETY: changes a value of this process.
    check(unsafe { SetStdHandle(stream, std::ptr::null_mut()) })?;
    // SAFETY: the process has just forgotten this handle, so this is its only owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Says whether processes started from now on get this handle.
pub(super) fn set_inheritable(handle: BorrowedHandle<'_>, inherit: bool) -> io::Result<()> {
    let flag = if inherit { HANDLE_FLAG_INHERIT } else { 0 };
    // SAFETY: changes a flag of a handle that is open.
    check(unsafe { SetHandleInformation(handle.as_raw_handle(), HANDLE_FLAG_INHERIT, flag) })
}

/// When an event goes back to being unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reset {
    /// As soon as somebody has waited for it.
    Auto,
    /// When the system starts the next operation that sets it.
    Manual,
}

/// A new event, unset.
pub(super) fn event(reset: Reset) -> io::Result<OwnedHandle> {
    let manual = BOOL::from(reset == Reset::Manual);
    // SAFETY: no attributes and no name are both allowed.
    let handle = unsafe { CreateEventW(std::ptr::null(), manual, 0, std::ptr::null()) };
    // SAFETY: just made, or null.
    unsafe { own(handle) }
}

/// Waits until one of these is signalled, and tells which; `None` when time is up.
pub(super) fn wait_any(
    handles: &[BorrowedHandle<'_>],
    timeout: Option<Duration>,
) -> io::Result<Option<usize>> {
    let millis = timeout.map_or(INFINITE, |time| {
        // Rounded up: a wait that is too short would be repeated without a pause.
        let millis = time.as_nanos().div_ceil(1_000_000);
        u32::try_from(millis).unwrap_or(INFINITE).min(INFINITE - 1)
    });
    let count = u32::try_from(handles.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let first = handles.as_ptr().cast::<HANDLE>();
    // SAFETY: a borrowed handle is laid out as a handle, and all of them are open.
    match unsafe { WaitForMultipleObjects(count, first, 0, millis) } {
        WAIT_TIMEOUT => Ok(None),
        WAIT_FAILED => Err(io::Error::last_os_error()),
        signalled => Ok(Some((signalled - WAIT_OBJECT_0) as usize)),
    }
}

/// Whether a process has ended.
pub(super) fn has_ended(process: BorrowedHandle<'_>) -> bool {
    matches!(wait_any(&[process], Some(Duration::ZERO)), Ok(Some(_)))
}

/// A process, to be watched and ended. While this is held, no other process gets its id.
pub(super) fn open_process(pid: u32) -> io::Result<OwnedHandle> {
    // The limited right to query would do, but not in Wine.
    let rights = PROCESS_QUERY_INFORMATION | PROCESS_SYNCHRONIZE | PROCESS_TERMINATE;
    // SAFETY: an id that means nothing makes no handle.
    let handle = unsafe { OpenProcess(rights, 0, pid) };
    // SAFETY: just made, or null.
    unsafe { own(handle) }
}

/// Ends a process, and only this one. One that ends already is left to it.
pub(super) fn terminate(process: BorrowedHandle<'_>) {
    // SAFETY: ends another process; the worst that a wrong handle does is nothing.
    unsafe { TerminateProcess(process.as_raw_handle(), ENDED_BY_FORCE) };
}
