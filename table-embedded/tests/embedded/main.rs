//! Tests of the embedded store in addition to the conformance suite: the contents of its files.

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
