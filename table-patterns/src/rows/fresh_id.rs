//! New ids of writes and processes.

use uuid::Uuid;

/// A new random id.
pub(crate) fn fresh_id() -> Uuid {
    Uuid::new_v4()
}
