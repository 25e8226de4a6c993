//! The command line `tables`: it lists, queries, counts, exports, imports, copies, backs up, deletes and serves entities,
//! and repairs indexes, in Azure Table Storage, Azure Cosmos DB for Table, the emulator and embedded stores.
//!
//! The library of this crate is the program's `main` and nothing else. Programs use `table-core` and its stores.

mod arguments;
mod backup;
mod blob_files;
mod copy;
mod count;
mod csv_text;
mod data_file;
mod delete;
mod entity_text;
mod export;
mod failure;
mod faults;
mod import;
mod index;
mod layouts;
mod list;
mod outcomes;
mod output;
mod pace;
mod progress;
mod query;
mod read_rows;
mod rows;
mod serve;
mod shell;
mod signals;
mod store;
mod upkeep;
mod write_rows;

pub use arguments::main;
