//! The embedded store's own tests, beside the conformance suite: what is on disk, and what happens to it.

mod backup;
mod concurrency;
mod damage;
mod durability;
mod files;
mod flips;
mod names;
mod places;
mod read_only;
mod support;
mod tables;
