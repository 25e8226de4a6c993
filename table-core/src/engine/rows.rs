//! The rows of a backend, as the engine reads them.

use crate::error::Result;
use crate::model::Key;

/// The rows of one table as a backend stores them: bytes of a [`Record`](super::Record) by bytes of a key.
///
/// The engine trusts these bytes, here and in a [`Scan`](super::Scan). A backend whose storage can be damaged
/// must detect damage, for example by a checksum.
pub trait Rows {
    /// Returns the stored form of a key. It must sort like [`Key::to_sortable`].
    fn key(&self, key: &Key) -> Vec<u8> {
        key.to_sortable()
    }

    /// Calls `decide` with a row's bytes, or with `None` if the row does not exist, and returns its result. A backend can thus
    /// lend the bytes of its buffer.
    ///
    /// # Errors
    /// Returns the backend's errors and the errors of `decide`.
    fn with_row<R>(&self, key: &[u8], decide: impl FnOnce(Option<&[u8]>) -> Result<R>)
    -> Result<R>;
}
