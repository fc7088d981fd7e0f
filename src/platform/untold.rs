//! Facts about trees that are not looked up on this system. Callers leave them out, or find out in
//! another way.

use std::collections::{BTreeSet, HashMap};

use super::{PortOwner, Usage};

/// How many processes of a tree are alive is known to its guard alone.
pub fn tree_size(_: u32) -> Option<usize> {
    None
}

/// What a tree takes.
pub fn usage(_: u32) -> Option<Usage> {
    None
}

/// Whether a tree listens on a port.
pub fn listens(_: u32, _: u16) -> Option<bool> {
    None
}

/// Where a tree listens.
pub fn ports(_: u32) -> Option<BTreeSet<u16>> {
    None
}

/// Who listens on a port.
pub fn port_owner(_: u16, _: bool) -> PortOwner {
    PortOwner::Unknown
}

/// Where trees listen.
#[derive(Debug, Default)]
pub struct Listeners;

impl Listeners {
    /// Of none it is known.
    pub fn of(&mut self, _: &[u32]) -> HashMap<u32, BTreeSet<u16>> {
        HashMap::new()
    }
}
