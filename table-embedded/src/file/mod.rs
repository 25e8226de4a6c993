//! The directory of a store, its lock, and the file in it: opened without changing it before it is
//! known to be ours and sound, and read page by page against its checksums.

mod contents;
mod directory;
mod opener;
mod overlay;
pub(crate) mod page;
mod room;
mod session;
pub(crate) mod sums;
mod unsynced;

pub(crate) use contents::Contents;
pub(crate) use directory::{Directory, Opened};
pub(crate) use opener::Opener;
pub(crate) use page::{Header, PAGE, PageRef};
pub(crate) use room::{Free, needed_to_compact};
pub(crate) use session::{LockMode, Session, Unreadable, WriteFailure, is_disk_full};
