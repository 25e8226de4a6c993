//! The embedded store's own tests, beside the conformance suite: what is on disk, and what happens to it.

mod durability;
mod support;
