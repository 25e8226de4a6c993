//! The trait [`TableStore`] that every backend and every adapter implements, with its operations, errors and profiles.

mod answer;
mod conflicts;
mod context;
mod contract;
mod encrypted;
mod ext;
mod forward;
mod local;
mod manifests;
mod moved_copy;
mod pages;
mod row_filter;

#[doc(hidden)]
pub use answer::CycleDetector;
pub use answer::{check_entity, check_page, check_progress};
pub use conflicts::Conflicts;
pub use context::{EncryptedProperties, StoreContext};
pub use contract::TableStore;
pub use encrypted::{EncryptedNames, RowRule};
pub use ext::TableStoreExt;
#[doc(hidden)]
pub use local::{LocalChange, LocalWork};
pub use local::{LocalPermit, LocalWriters};
#[doc(hidden)]
pub use manifests::PlainWrite;
pub use manifests::{ManifestCache, ManifestChange, NewTable};
#[doc(hidden)]
pub use moved_copy::{MovedCopy, own_key_error};
pub(crate) use pages::{Cursor, Entities, NextPage, Pages, QueryCursor, StoreHandle};
pub(crate) use row_filter::RowFilter;

pub use crate::error::{
    DecodeError, Duplicate, Error, ErrorKind, LimitKind, Outcome, Result, ServiceAnswer,
};
pub use crate::limits;
pub use crate::operation::{
    BulkOutcome, BulkSummary, GroupTransaction, Operation, OperationKind, Written,
};
pub use crate::profile::{KeyOrder, ServiceProfile};
