//! What a program with typed entities mostly needs: `use table_core::prelude::*;`

pub use crate::memory::MemoryStore;
pub use crate::model::{
    ETag, Entity, IfMatch, Key, KeyPart, PartitionKey, Properties, Reverse, TableName, Ticks, ValueRef,
};
pub use crate::query::{Filter, Query};
pub use crate::store::{Operation, TableStore, TableStoreExt};
pub use crate::typed::*;
