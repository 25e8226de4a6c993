//! The command line `tables`: it lists, queries, counts, exports, imports, copies, backs up, deletes, serves and examines tables,
//! and keeps indexes and encrypted properties, in Azure Table Storage, Azure Cosmos DB for Table, the emulator and embedded stores.
//!
//! The library of this crate is the program's `main` and nothing else. Programs use `table-core` and its stores.

// The future of a command contains the futures of every layer below it, from the job to the request.
#![recursion_limit = "256"]

mod arguments;
mod azcopy;
mod backup;
mod blobs;
mod copy;
mod data_file;
mod delete;
mod doctor;
mod emulator;
mod entity_text;
mod export;
mod failure;
mod faults;
mod import;
mod index;
mod index_add;
mod keys;
mod layouts;
mod output;
mod pace;
mod plot;
mod progress;
mod read;
mod read_rows;
mod rows;
mod sas;
mod selection;
mod serve;
mod spool;
mod store;
mod sweep;
mod target_file;
mod text_input;
mod upkeep;
#[cfg(feature = "key-vault")]
mod vault_key;
#[cfg(feature = "parquet")]
mod write_parquet;
mod write_rows;

pub use arguments::main;
