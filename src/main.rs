//! Which role? A guard first, before anything of the server exists.

use std::process::ExitCode;

use mcp_sidecar::platform::{self, Role};
use mcp_sidecar::{cli, guard};

fn main() -> ExitCode {
    platform::prepare();
    match platform::role() {
        Role::Guard => guard::main(),
        Role::Server => cli::main(),
    }
}
