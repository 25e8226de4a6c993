use table_core::store::{Outcome, Result};

/// An answer that says *applied* and cannot be read is an answer: what was written is there, in a version that is not
/// known.
pub(crate) fn took_effect<T: Default>(answer: Result<T>) -> Result<T> {
    answer.or_else(|error| match error.outcome() {
        Outcome::Applied => {
            tracing::debug!(%error, "the answer to a request that took effect cannot be read");
            Ok(T::default())
        }
        Outcome::NotApplied | Outcome::Ambiguous => Err(error),
    })
}
