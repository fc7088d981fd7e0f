//! Real software, as agents run it.

#[cfg(unix)]
mod postgres;
#[cfg(unix)]
mod ready;
#[cfg(unix)]
mod redis;
mod repl;
mod watch;
mod web;

use std::env;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use mcp_sidecar::doctor::client::PATIENCE;

use crate::harness::Sidecar;

/// What Python is called.
const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

/// Where a program is; a missing one is a failure, because a test that is silently left out
/// proves nothing.
#[track_caller]
fn need(program: &str) -> PathBuf {
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join(&file))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{program} is missing: run `cargo xtask setup`"))
}

/// A port that nobody uses. Connect to it only once a server has said that it listens there: a
/// connection to a port of this range may otherwise come out as one to itself.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

#[track_caller]
fn assert_free(port: u16) {
    if let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        panic!("port {port} is still taken: {error}");
    }
}

/// A connection on which nothing is waited for without end.
#[track_caller]
fn connect(port: u16) -> TcpStream {
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&stream, Some(Duration::from_secs(10))).unwrap();
    }
    stream
}

/// Waits until a process has written this to standard error.
#[track_caller]
fn stderr_with(sidecar: &mut Sidecar, id: &str, wanted: &str) -> String {
    let output = sidecar.output_when(id, wanted, |output| {
        output["stderr"].as_str().unwrap().contains(wanted)
    });
    output["stderr"].as_str().unwrap().to_owned()
}
