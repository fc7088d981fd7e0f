//! Real software, as agents run it.
