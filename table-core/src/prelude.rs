//! The types that most programs with typed entities need: `use table_core::prelude::*;`

pub use crate::memory::MemoryStore;
pub use crate::model::{
    ETag, EdmValue, Entity, IfMatch, Key, KeyPart, PartitionKey, Properties, Reverse, RowKey,
    TableName, Ticks, ValueRef,
};
pub use crate::query::{AccessPath, Continuation, Filter, Page, Query, Select};
pub use crate::store::{ErrorKind, Operation, Outcome, TableStore, TableStoreExt};
#[cfg(feature = "derive")]
pub use crate::typed::EntityResolver;
pub use crate::typed::{
    EntityKey, Expires, Field, FromEntity, Json, Padded, PartitionPrefix, Property, PropertyGroup,
    RowPrefix, SoftDelete, TableEntity, Versioned,
};
