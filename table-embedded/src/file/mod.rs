//! The directory of a store, its lock, and its file. Opening does not change the file until it is known to be
//! a sound file of this store. Reads check every page against its checksum.

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
