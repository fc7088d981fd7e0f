//! The kill matrix is made of shells, sessions and signals, so on this system there is none.

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Write};
use std::path::Path;

/// Says so.
pub fn run(out: &mut impl Write, _: &Path, _: &[String]) -> std::io::Result<bool> {
    writeln!(
        out,
        "the kill matrix is made of Unix processes and cannot run on this system; doctor without \
         --containment kills a server here, too, and looks what is left"
    )?;
    Ok(false)
}

/// There are no parts either.
pub fn act(_: &[OsString]) -> Result<(), Error> {
    Err(ErrorKind::Unsupported.into())
}
