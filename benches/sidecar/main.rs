//! What the server costs, as a client sees it, beside the floor of the same machine in the same run.
//!
//! `cargo bench` runs it; what follows `--` is for it. `--against COMMAND` puts another server of the same
//! tools beside it, each row in turn. `--quick` only shows that it runs. The figures mean something
//! only as ratios: machines swing by a factor of two between minutes.

#![cfg_attr(
    unix,
    expect(
        clippy::unwrap_used,
        clippy::print_stdout,
        clippy::cast_precision_loss,
        reason = "a measurement that is surprised should stop, and figures are shown rounded"
    )
)]

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod flood;
#[cfg(target_os = "linux")]
mod many;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["--write", bytes, line] = args[..] {
        return flood::write(bytes.parse().unwrap(), line.parse().unwrap());
    }
    let after = |flag: &str| {
        let at = args.iter().position(|arg| *arg == flag)?;
        args.get(at + 1).copied()
    };
    let mut contenders = vec![server::Contender::own()];
    if let Some(command) = after("--against") {
        contenders.push(server::Contender::other(command));
    }
    let effort = server::Effort {
        quick: args.contains(&"--quick"),
    };
    let mut table = table::Table::new(&contenders);
    calls::measure(&contenders, effort, &mut table);
    flood::measure(&contenders, effort, &mut table);
    many::measure(&contenders, effort, &mut table);
    println!("{table}");
}

/// The figures come from `/proc`.
#[cfg(not(target_os = "linux"))]
fn main() {}
