//! The in-memory store: the whole semantics, nothing on disk.

mod store;
mod table;

pub use store::MemoryStore;
