//! The directory of a store, its lock, and its file. Opening does not change the file until it is known to be
//! a sound file of this store. Reads check every page against its checksum.

pub(crate) mod checksums;
mod contents;
mod directory;
mod overlay;
pub(crate) mod page;
mod session;
mod unsynced;

pub(crate) use contents::Contents;
pub(crate) use directory::{Directory, Opened};
pub(crate) use page::{Header, PAGE, PageRef};
pub(crate) use session::{LockMode, Session, WriteFailure};
