use crate::error::Result;
use crate::model::Key;

/// The rows of one table as a backend stores them: the bytes of a [`Record`](super::Record) by the
/// bytes of a key.
///
/// The engine takes the bytes to be sound, here and in a [`Scan`](super::Scan): a backend that keeps
/// them where they can be damaged must find that out, by a checksum.
pub trait Rows {
    /// The stored form of a key: it must sort as [`Key::to_sortable`] does.
    fn key(&self, key: &Key) -> Vec<u8> {
        key.to_sortable()
    }

    /// Shows a row's bytes to `look`, or that there is none.
    ///
    /// # Errors
    /// The backend's, or what `look` returns.
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> Result<R>) -> Result<R>;
}
