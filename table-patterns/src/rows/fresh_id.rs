//! New ids of writes and processes.

use uuid::Uuid;

/// A new random id. In the interleaving suite, the next deterministic id: a repeated schedule then uses the same rows.
pub(crate) fn fresh_id() -> Uuid {
    #[cfg(test)]
    if let Some(id) = crate::proof::ids::next() {
        return id;
    }
    Uuid::new_v4()
}
