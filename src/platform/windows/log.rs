//! A file that several processes append to.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;

use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OPEN_REPARSE_POINT;

use crate::platform::not_a_log;

/// Opens a log to append to, and makes it where there is none. A link is not followed, and
/// nothing else than a regular file is a log. Others may write, rename and remove it meanwhile.
pub fn open_log(path: &Path) -> io::Result<File> {
    let log = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
        .open(path)?;
    if log.metadata()?.is_file() {
        Ok(log)
    } else {
        Err(not_a_log())
    }
}

/// Who may read a file is not told in a number here.
pub fn shared_mode(_: &Path) -> Option<u32> {
    None
}

/// Overwrites what is in the middle of a log: a handle that appends cannot do that here.
pub fn overwrite(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
