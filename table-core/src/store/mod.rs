//! The storage contract: what every backend and every adapter implements, and what it reports.

mod answer;
mod contract;
mod encrypted;
mod error;
mod ext;
mod group;
pub mod limits;
mod local;
mod operation;
mod pages;
mod profile;

pub(crate) use answer::Progress;
pub use answer::{check_entity, check_page, check_progress};
pub use contract::TableStore;
pub use encrypted::{EncryptedNames, RowRule};
pub use error::{DecodeError, Duplicate, Error, ErrorKind, Outcome, Result, ServiceAnswer};
pub use ext::TableStoreExt;
pub use group::GroupTransaction;
pub use local::{LocalChange, LocalPermit, LocalWork, LocalWriters};
pub use operation::{Operation, OperationKind, Written};
pub(crate) use pages::{Entities, Handle, Hidden, Pages, Rest, Step, Stepped};
pub use profile::{KeyOrder, ServiceProfile};
