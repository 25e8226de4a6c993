//! The in-memory store: complete semantics, no files.

mod store;
mod table;

pub use store::MemoryStore;
