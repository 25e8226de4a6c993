//! The directory of a store, its lock, and the file in it: opened without changing it before it is
//! known to be ours and sound.

mod contents;
mod directory;
mod held;

pub(crate) use contents::Contents;
pub(crate) use directory::Directory;
pub(crate) use held::Opener;
