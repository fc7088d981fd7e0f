//! A line at the end of a file that others append to as well.
//!
//! # Theory of operation
//!
//! The file is opened for each line, so a log that was renamed or removed is simply made again.
//! A line is one write to the end of the file, and the system keeps such writes apart: nothing is
//! locked, and nobody who holds the file can keep a guard from its work.
//!
//! On a full disk a write may end early. What it left is then overwritten with tabs, which JSON
//! allows in front of an object and which no line holds. Each writer changes only bytes of its
//! own, so it does not matter who appends meanwhile. Where that was impossible (the writer was
//! killed, the file only grows), the next line begins with a line break.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use crate::platform;

/// JSON takes it for nothing, and in a line it is always escaped.
const BLANK: u8 = b'\t';

/// The second one tells what is in the way; more are for a disk that is filled and emptied.
const ATTEMPTS: usize = 5;

/// How often and how long to look whether somebody is still writing a line.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Appends a line, whole or not at all.
pub(super) fn append(path: &Path, line: &str) -> io::Result<()> {
    for _ in 0..ATTEMPTS {
        let mut log = platform::open_log(path)?;
        let torn = is_torn(&mut log)?;
        let bytes = if torn {
            Cow::Owned(format!("\n{line}").into_bytes())
        } else {
            Cow::Borrowed(line.as_bytes())
        };
        let written = write_once(&mut log, &bytes)?;
        if written == bytes.len() {
            return Ok(());
        }
        let mut blanks = vec![BLANK; written];
        if torn && let Some(first) = blanks.first_mut() {
            *first = b'\n';
        }
        // What cannot be overwritten is torn, and the next line knows it.
        let _ = take_back(&mut log, &blanks);
    }
    Err(io::ErrorKind::StorageFull.into())
}

/// The end of the file, at most so many bytes.
pub(super) fn newest(path: &Path, most: u64) -> io::Result<String> {
    let mut log = platform::open_log(path)?;
    let end = log.seek(SeekFrom::End(0))?;
    log.seek(SeekFrom::Start(end.saturating_sub(most)))?;
    let mut text = Vec::new();
    log.take(most).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Whether the file ends within a line that nobody is writing any more.
fn is_torn(log: &mut File) -> io::Result<bool> {
    let (begin, whole) = end(log)?;
    if whole {
        return Ok(false);
    }
    // A large write can be seen half done. It goes on in no time; what stays as it is is torn.
    for _ in 0..LOOKS {
        std::thread::sleep(PAUSE);
        let (now, whole) = end(log)?;
        if whole || now != begin {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where the file ends, and whether that is where a line may begin.
fn end(log: &mut File) -> io::Result<(u64, bool)> {
    let end = log.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if end > 0 {
        log.seek(SeekFrom::Start(end - 1))?;
        // Nothing is read where somebody has emptied the file meanwhile.
        let _ = log.read(&mut last)?;
    }
    Ok((end, matches!(last[0], b'\n' | BLANK)))
}

fn write_once(log: &mut File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match log.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Overwrites what was written last.
fn take_back(log: &mut File, blanks: &[u8]) -> io::Result<()> {
    let end = log.stream_position()?;
    platform::overwrite(log, blanks, end.saturating_sub(blanks.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_does_not_swallow_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        for (before, after) in [
            ("", "{}\n"),
            ("{}\n", "{}\n{}\n"),
            ("{\"ts\":", "{\"ts\":\n{}\n"),
            ("{}\n\t\t", "{}\n\t\t{}\n"),
        ] {
            std::fs::write(&log, before).unwrap();
            append(&log, "{}\n").unwrap();
            assert_eq!(std::fs::read_to_string(&log).unwrap(), after);
        }
    }

    #[test]
    #[cfg(unix)]
    fn what_an_early_end_left_is_blanked_and_others_lines_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, "{\"a\":1}\n").unwrap();
        let mut log = platform::open_log(&path).unwrap();
        log.write_all(b"{\"b").unwrap();
        append(&path, "{\"c\":1}\n").unwrap();
        take_back(&mut log, &[BLANK; 3]).unwrap();
        append(&path, "{\"d\":1}\n").unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"a\":1}\n\t\t\t\n{\"c\":1}\n{\"d\":1}\n"
        );
    }

    #[test]
    fn many_writers_never_mix_their_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = &dir.path().join("log");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                scope.spawn(move || {
                    for _ in 0..100 {
                        append(path, &format!("{}\n", writer.to_string().repeat(5000))).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 800);
        for line in text.lines() {
            assert!(line.len() == 5000 && line.bytes().all(|byte| byte == line.as_bytes()[0]));
        }
    }
}
