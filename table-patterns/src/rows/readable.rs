//! Pages that list the entities that cannot be read.

use table_core::model::Key;
use table_core::query::{Continuation, Page, ReadablePage, UnreadableEntity};
use table_core::store::Result;

/// Separates the values from the errors of single entities.
pub(crate) fn readable<T>(
    read: impl IntoIterator<Item = (Key, Result<T>)>,
    continuation: Option<Continuation>,
) -> ReadablePage<T> {
    let mut found = ReadablePage { page: Page { items: Vec::new(), continuation }, unreadable: Vec::new() };
    for (key, value) in read {
        match value {
            Ok(value) => found.page.items.push(value),
            Err(error) => found.unreadable.push(UnreadableEntity { key, error }),
        }
    }
    found
}
