//! Runnable examples, all in `examples/`: the flights flagship, and one program per feature area.
//! `README.md` lists them. This library has what several of them need.

pub mod data;
pub mod row;
pub mod store;

/// The result of programs: errors are for the person who started them.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The programs of the README, which compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The programs of the crates' own pages.
#[cfg(doctest)]
#[doc = include_str!("../../table-azure/README.md")]
#[doc = include_str!("../../table-core/README.md")]
#[doc = include_str!("../../table-embedded/README.md")]
#[doc = include_str!("../../table-patterns/README.md")]
struct CrateReadmes;
