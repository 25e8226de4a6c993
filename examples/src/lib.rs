//! Runnable examples, all in `examples/`: the flights flagship, and one program per feature area.
//! `README.md` lists them. This library has what several of them need.

pub mod store;

/// The programs of the README, which compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
