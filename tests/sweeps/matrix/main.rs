//! Combinations of features, in tables: every path on every layout on every store, in plaintext and encrypted,
//! and every program version on the rows of every other version. A cell is right, or refused before anything is
//! written.

#[allow(dead_code, reason = "other tests use the other backends")]
#[path = "../../tests/suites/backends.rs"]
mod backends;
mod declared;
mod deploys;
mod expiry;
mod layouts;
mod migrations;
mod pairs;
mod programs;
mod readers;
mod revisions;
mod sets;
mod types;
mod upgrades;
mod versions;
mod world;
