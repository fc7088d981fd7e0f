//! The real program, driven over stdio as clients drive it.

#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test that is surprised should say where, and call sites read better"
)]

mod guards;
mod harness;

mod audit;
mod cgroup;
mod cli;
mod containment;
mod cycles;
mod documents;
mod end;
mod facts;
mod lifecycle;
mod load;
mod names;
mod notices;
mod output;
mod real;
mod replace;
mod scarcity;
mod secure;
mod soak;
mod stdin;
mod tidy;
mod wait;
mod wire;
