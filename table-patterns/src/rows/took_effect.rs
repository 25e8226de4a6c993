use table_core::store::{Outcome, Result};

/// Treats an unreadable answer of a write that was applied as a success, with a default value in place of the answer.
///
/// The rows are stored; only their new ETags are unknown.
pub(crate) fn took_effect<T: Default>(answer: Result<T>) -> Result<T> {
    answer.or_else(|error| match error.outcome() {
        Outcome::Applied => {
            tracing::debug!(%error, "the answer to a request that took effect cannot be read");
            Ok(T::default())
        }
        Outcome::NotApplied | Outcome::Ambiguous => Err(error),
    })
}
