//! The command line `tables`, for people who have tables and no program for them: it lists, reads, queries and counts, in
//! Azure Table Storage, Azure Cosmos DB for Table, the emulator and embedded stores.
//!
//! The library of this crate is the program's `main` and nothing else. Programs use `table-core` and its stores.

mod arguments;
mod count;
mod entity_text;
mod failure;
mod list;
mod output;
mod query;
mod rows;
mod shell;
mod store;

pub use arguments::main;
