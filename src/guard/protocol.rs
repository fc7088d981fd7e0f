//! What a server and its guard say to each other.
//!
//! The server opens with one [`Spec`]: what to run and how long to be patient. After that both
//! sides send only messages of [`FRAME`] bytes, so that neither end ever parses, allocates or
//! waits for the rest of something. Both ends are the same program, but not always the same
//! version of it (an upgrade may replace the file while a server runs), so a spec carries
//! [`VERSION`] and a guard refuses any other.
//!
//! Architecture invariant: pure, and the same on every platform. Nothing here reads or writes.

use std::ffi::OsString;
use std::time::Duration;

use crate::platform::{Containment, os_from_bytes, os_to_bytes};

/// Raised whenever a spec or a frame changes its meaning.
pub const VERSION: u16 = 4;

/// The size in bytes of every message but the spec.
pub const FRAME: usize = 8;

/// A spec larger than this is a mistake of the sender, not a command.
const MAX_SPEC: u32 = 64 << 20;

/// What to run, as the server has decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// How long a tree may take to end after it was asked to, when the server is gone.
    pub grace: Duration,
    /// The program, already looked up.
    pub program: OsString,
    /// The program's own name, as it will see it; none is the program as it is. Unix only.
    pub argv0: Option<OsString>,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Whether the last argument goes onto a Windows command line as it is, unquoted.
    pub verbatim: bool,
    /// Whether its streams are a terminal, which is to control its session. Unix only.
    pub terminal: bool,
    /// The working directory; none is the guard's own, which is the server's.
    pub cwd: Option<OsString>,
    /// Variables laid over the guard's own environment; `None` removes one.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// What to write down of it; none is nothing.
    pub audited: Option<Audited>,
    /// What must still be what it was when the server looked. Otherwise nothing runs.
    pub pins: Vec<Pin>,
}

/// What a guard needs for the two lines of its process in the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// The log, absolute.
    pub log: OsString,
    /// The process's id.
    pub id: String,
    /// The command as the caller gave it.
    pub command: String,
}

/// Which file or directory something is, for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The file system.
    pub device: u64,
    /// The number in it.
    pub inode: u64,
}

/// A path, and what was found there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Where.
    pub path: OsString,
    /// What.
    pub identity: Identity,
}

/// How a leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The leader's own code, -1 where a signal ended it.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(_) => -1,
        }
    }
}

/// What a guard tells its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromGuard {
    /// The leader runs.
    Spawned {
        /// Its process id.
        pid: u32,
        /// What the end of its tree is sure to reach.
        containment: Containment,
    },
    /// Nothing runs: the operating system's error number.
    Failed(i32),
    /// Nothing runs: what this pin says, counted from nought, holds no longer.
    Changed(u32),
    /// The leader has ended. Its tree may live on.
    Exited(Exit),
    /// The tree is empty. Nothing follows this.
    Gone {
        /// Whether it took force.
        forced: bool,
    },
    /// This process does not end, whatever is sent to it. The guard goes on trying.
    Stuck(u32),
    /// A wish that the tree ends has come, and the guard lives to fulfil it. Answers each
    /// [`ToGuard::Stop`]; a leader whose end was told before has ended by itself.
    Heard,
    /// The audit log tells of the start. Comes before the spawn.
    Recorded,
    /// The audit log could not be written: an error number of `audit`'s. Before `Recorded` it
    /// means that nothing runs.
    Unrecorded(i32),
}

/// What a server tells a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToGuard {
    /// Ask the tree to end, and end it by force after this time.
    Stop {
        /// How long the tree may take by itself.
        grace: Duration,
    },
    /// Interrupt what runs, as Ctrl-C on a terminal would.
    Interrupt,
}

impl Spec {
    /// The bytes that open a conversation.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(256);
        put(&mut body, &millis(self.grace).to_le_bytes());
        put(
            &mut body,
            &[
                u8::from(self.verbatim),
                u8::from(self.terminal),
                u8::from(self.cwd.is_some()),
            ],
        );
        put_text(&mut body, &self.program);
        put_text(&mut body, &self.cwd.clone().unwrap_or_default());
        body.push(u8::from(self.argv0.is_some()));
        put_text(&mut body, &self.argv0.clone().unwrap_or_default());
        put_count(&mut body, self.args.len());
        for arg in &self.args {
            put_text(&mut body, arg);
        }
        put_count(&mut body, self.env.len());
        for (key, value) in &self.env {
            put_text(&mut body, key);
            body.push(u8::from(value.is_some()));
            put_text(&mut body, &value.clone().unwrap_or_default());
        }
        put_count(&mut body, self.pins.len());
        for Pin { path, identity } in &self.pins {
            put_text(&mut body, path);
            put(&mut body, &identity.device.to_le_bytes());
            put(&mut body, &identity.inode.to_le_bytes());
        }
        body.push(u8::from(self.audited.is_some()));
        if let Some(Audited { log, id, command }) = &self.audited {
            put_text(&mut body, log);
            put_bytes(&mut body, id.as_bytes());
            put_bytes(&mut body, command.as_bytes());
        }
        let mut spec = Vec::with_capacity(body.len() + 6);
        put(&mut spec, &VERSION.to_le_bytes());
        put_count(&mut spec, body.len());
        put(&mut spec, &body);
        spec
    }

    /// The length of the body that follows this header, or `None` where the other end is of
    /// another version or no server at all.
    pub fn body_length(header: [u8; 6]) -> Option<usize> {
        let (version, length) = header.split_first_chunk::<2>()?;
        let length = u32::from_le_bytes(*length.first_chunk::<4>()?);
        (u16::from_le_bytes(*version) == VERSION && length <= MAX_SPEC).then_some(length as usize)
    }

    /// The spec whose body this is, or `None` where it is cut or garbled.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let mut rest = body;
        let grace = Duration::from_millis(u64::from(take_u32(&mut rest)?));
        let [verbatim, terminal, has_cwd] = *take(&mut rest, 3)?.first_chunk::<3>()?;
        let program = take_text(&mut rest)?;
        let cwd = take_text(&mut rest)?;
        let has_argv0 = take(&mut rest, 1)? == [1];
        let argv0 = take_text(&mut rest)?;
        let args = (0..take_u32(&mut rest)?)
            .map(|_| take_text(&mut rest))
            .collect::<Option<Vec<_>>>()?;
        let env = (0..take_u32(&mut rest)?)
            .map(|_| {
                let key = take_text(&mut rest)?;
                let set = take(&mut rest, 1)? == [1];
                let value = take_text(&mut rest)?;
                Some((key, set.then_some(value)))
            })
            .collect::<Option<Vec<_>>>()?;
        let pins = (0..take_u32(&mut rest)?)
            .map(|_| {
                Some(Pin {
                    path: take_text(&mut rest)?,
                    identity: Identity {
                        device: take_u64(&mut rest)?,
                        inode: take_u64(&mut rest)?,
                    },
                })
            })
            .collect::<Option<Vec<_>>>()?;
        let cwd = (has_cwd == 1).then_some(cwd);
        let audited = match take(&mut rest, 1)? {
            [0] => None,
            _ => Some(Audited {
                log: take_text(&mut rest)?,
                id: take_string(&mut rest)?,
                command: take_string(&mut rest)?,
            }),
        };
        rest.is_empty().then_some(Self {
            grace,
            program,
            argv0: has_argv0.then_some(argv0),
            args,
            verbatim: verbatim == 1,
            terminal: terminal == 1,
            cwd,
            env,
            audited,
            pins,
        })
    }
}

impl FromGuard {
    /// The frame that says this.
    pub fn encode(self) -> [u8; FRAME] {
        match self {
            Self::Spawned { pid, containment } => {
                let kind = u8::from(containment == Containment::Group);
                frame(b'P', kind, pid.cast_signed())
            }
            Self::Failed(errno) => frame(b'E', 0, errno),
            Self::Changed(pin) => frame(b'C', 0, pin.cast_signed()),
            Self::Exited(Exit::Code(code)) => frame(b'X', 0, code),
            Self::Exited(Exit::Signal(signal)) => frame(b'X', 1, signal),
            Self::Gone { forced } => frame(b'G', u8::from(forced), 0),
            Self::Stuck(pid) => frame(b'S', 0, pid.cast_signed()),
            Self::Heard => frame(b'H', 0, 0),
            Self::Recorded => frame(b'A', 0, 0),
            Self::Unrecorded(number) => frame(b'A', 1, number),
        }
    }

    /// What this frame says, or `None` where it says nothing known.
    pub fn decode(frame: [u8; FRAME]) -> Option<Self> {
        let (tag, kind, value) = parts(frame);
        Some(match (tag, kind) {
            (b'P', kind @ (0 | 1)) => Self::Spawned {
                pid: value.cast_unsigned(),
                containment: if kind == 0 {
                    Containment::Exact
                } else {
                    Containment::Group
                },
            },
            (b'E', 0) => Self::Failed(value),
            (b'C', 0) => Self::Changed(value.cast_unsigned()),
            (b'X', 0) => Self::Exited(Exit::Code(value)),
            (b'X', 1) => Self::Exited(Exit::Signal(value)),
            (b'G', forced @ (0 | 1)) => Self::Gone {
                forced: forced == 1,
            },
            (b'S', 0) => Self::Stuck(value.cast_unsigned()),
            (b'H', 0) => Self::Heard,
            (b'A', 0) => Self::Recorded,
            (b'A', 1) => Self::Unrecorded(value),
            _ => return None,
        })
    }
}

impl ToGuard {
    /// The frame that says this.
    pub fn encode(self) -> [u8; FRAME] {
        match self {
            Self::Stop { grace } => frame(b'T', 0, millis(grace).cast_signed()),
            Self::Interrupt => frame(b'I', 0, 0),
        }
    }

    /// What this frame says, or `None` where it says nothing known.
    pub fn decode(frame: [u8; FRAME]) -> Option<Self> {
        match parts(frame) {
            (b'T', 0, grace) => Some(Self::Stop {
                grace: Duration::from_millis(u64::from(grace.cast_unsigned())),
            }),
            (b'I', 0, _) => Some(Self::Interrupt),
            _ => None,
        }
    }
}

fn frame(tag: u8, kind: u8, value: i32) -> [u8; FRAME] {
    let [a, b, c, d] = value.to_le_bytes();
    [tag, kind, 0, 0, a, b, c, d]
}

fn parts([tag, kind, _, _, a, b, c, d]: [u8; FRAME]) -> (u8, u8, i32) {
    (tag, kind, i32::from_le_bytes([a, b, c, d]))
}

/// A time that does not fit is as good as for ever: 49 days.
fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put(out, &u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &std::ffi::OsStr) {
    put_bytes(out, &os_to_bytes(text));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    put(out, bytes);
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(head)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*take(rest, 4)?.first_chunk::<4>()?))
}

fn take_u64(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*take(rest, 8)?.first_chunk::<8>()?))
}

fn take_text(rest: &mut &[u8]) -> Option<OsString> {
    take_bytes(rest).map(os_from_bytes)
}

fn take_string(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_bytes(rest)?.to_vec()).ok()
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_u32(rest)? as usize;
    take(rest, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec {
            grace: Duration::from_millis(5001),
            program: "/bin/sh".into(),
            argv0: Some("sh".into()),
            args: vec!["-c".into(), "echo ☃; exit 3".into(), "".into()],
            verbatim: false,
            terminal: true,
            cwd: Some("/tmp".into()),
            env: vec![
                ("PORT".into(), Some("3000".into())),
                ("EMPTY".into(), Some("".into())),
                ("GONE".into(), None),
            ],
            audited: Some(Audited {
                log: "/var/log/a.jsonl".into(),
                id: "sc-a1b2c3".into(),
                command: "echo ☃; exit 3".into(),
            }),
            pins: vec![Pin {
                path: "/bin/sh".into(),
                identity: Identity {
                    device: u64::MAX,
                    inode: 7,
                },
            }],
        }
    }

    #[test]
    fn a_spec_arrives_as_it_was_sent() {
        for spec in [
            spec(),
            Spec {
                cwd: None,
                verbatim: true,
                terminal: false,
                argv0: None,
                args: vec![],
                audited: None,
                pins: vec![],
                ..spec()
            },
        ] {
            let bytes = spec.encode();
            let (header, body) = bytes.split_first_chunk::<6>().unwrap();
            assert_eq!(Spec::body_length(*header), Some(body.len()));
            assert_eq!(Spec::decode(body), Some(spec));
        }
    }

    #[test]
    fn a_cut_or_longer_spec_is_refused() {
        let bytes = spec().encode();
        for end in 6..bytes.len() {
            assert_eq!(Spec::decode(&bytes[6..end]), None, "cut at {end}");
        }
        assert_eq!(Spec::decode(&[&bytes[6..], b"x"].concat()), None);
    }

    #[test]
    fn another_version_is_refused() {
        let mut header = *spec().encode().first_chunk::<6>().unwrap();
        header[0] += 1;
        assert_eq!(Spec::body_length(header), None);
    }

    #[test]
    fn every_frame_arrives_as_it_was_sent() {
        for message in [
            FromGuard::Spawned {
                pid: u32::MAX,
                containment: Containment::Exact,
            },
            FromGuard::Spawned {
                pid: 1,
                containment: Containment::Group,
            },
            FromGuard::Failed(7),
            FromGuard::Changed(1),
            FromGuard::Exited(Exit::Code(-1)),
            FromGuard::Exited(Exit::Signal(9)),
            FromGuard::Gone { forced: true },
            FromGuard::Gone { forced: false },
            FromGuard::Stuck(42),
            FromGuard::Recorded,
            FromGuard::Unrecorded(-1),
        ] {
            assert_eq!(FromGuard::decode(message.encode()), Some(message));
        }
        let stop = ToGuard::Stop {
            grace: Duration::from_millis(u64::from(u32::MAX)),
        };
        for message in [stop, ToGuard::Interrupt] {
            assert_eq!(ToGuard::decode(message.encode()), Some(message));
        }
        assert_eq!(FromGuard::decode(*b"?\0\0\0\0\0\0\0"), None);
        assert_eq!(ToGuard::decode(*b"?\0\0\0\0\0\0\0"), None);
    }
}
