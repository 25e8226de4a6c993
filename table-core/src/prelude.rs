//! What a program with typed entities mostly needs: `use table_core::prelude::*;`

pub use crate::memory::MemoryStore;
pub use crate::model::{ETag, Entity, Key, KeyPart, Reverse, TableName, Ticks};
pub use crate::query::{Filter, Query};
pub use crate::store::{TableStore, TableStoreExt};
pub use crate::typed::*;
