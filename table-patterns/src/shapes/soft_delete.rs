//! Soft deletion of every layout: `soft_delete` sets the time of deletion, `restore` removes it.

use table_core::model::Ticks;
use table_core::store::{Result, TableStore as _};
use table_core::typed::{KeyOf, SoftDelete};

use super::spread::SpreadTable;
use super::time_slices::TimeSlices;
use super::wide::{Wide, WideTable};
use crate::Table;

/// The methods of each handle. A handle that finds an entity by more than its key names the other parameter.
macro_rules! soft_delete {
    ($($table:ident $(($at:ident: $time:ty))? => $stored:ty;)+) => {$(
        /// Soft deletion: see [`PlainTable::soft_delete`](table_core::typed::PlainTable::soft_delete). Index entries and unique values stay, so
        /// that no other entity takes a value that a restore needs.
        impl<T: SoftDelete> $table<T> {
            /// Sets the time of deletion: reads leave the entity out, and a sweep removes it for good when it was kept for the days of
            /// `#[deleted_at]`. Returns the entity as stored. Requests as for [`update`](Self::update).
            ///
            /// # Errors
            /// As [`update`](Self::update).
            pub async fn soft_delete(&self, $($at: $time,)? key: impl KeyOf<T>) -> Result<$stored> {
                let now = self.store().context().now();
                self.update($($at,)? key, |entity| {
                    entity.set_deleted_at(Some(now));
                    Ok(())
                })
                .await
            }

            /// Removes the time of deletion. Returns the entity as stored. Requests as for [`update`](Self::update).
            ///
            /// # Errors
            /// As [`update`](Self::update).
            pub async fn restore(&self, $($at: $time,)? key: impl KeyOf<T>) -> Result<$stored> {
                // The entity is hidden until it is restored, and the update has to find it.
                let all = self.clone().with_hidden();
                all.update($($at,)? key, |entity| {
                    entity.set_deleted_at(None);
                    Ok(())
                })
                .await
            }
        }
    )+};
}

soft_delete! {
    Table => T;
    SpreadTable => T;
    WideTable => Wide<T>;
    TimeSlices(at: Ticks) => T;
}
