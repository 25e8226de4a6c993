//! Soft deletion of every layout: `soft_delete` sets the time of deletion, `restore` removes it.

use table_core::model::Ticks;
use table_core::store::{Result, TableStore as _};
use table_core::typed::{KeyOf, SoftDelete};

#[cfg(feature = "blobs")]
use super::large::LargeTable;
use super::spread::SpreadTable;
use super::time_slices::TimeSlices;
use super::wide::{Wide, WideTable};

macro_rules! soft_delete {
    ($($table:ident => $stored:ty;)+) => {$(
        /// Soft deletion: see [`Table::soft_delete`](table_core::typed::Table::soft_delete).
        impl<T: SoftDelete> $table<T> {
            /// Sets the time of deletion: reads leave the entity out, and a sweep removes it for good when it was kept for the days of
            /// `#[deleted_at]`. Returns the entity as stored. Requests as for [`update`](Self::update).
            ///
            /// # Errors
            /// As [`update`](Self::update).
            pub async fn soft_delete(&self, key: impl KeyOf<T>) -> Result<$stored> {
                let now = self.store().now();
                self.update(key, |entity| {
                    entity.set_deleted_at(Some(now));
                    Ok(())
                })
                .await
            }

            /// Removes the time of deletion. Returns the entity as stored. Requests as for [`update`](Self::update).
            ///
            /// # Errors
            /// As [`update`](Self::update).
            pub async fn restore(&self, key: impl KeyOf<T>) -> Result<$stored> {
                // The entity is hidden until it is restored, and the update has to find it.
                let all = self.clone().with_hidden();
                all.update(key, |entity| {
                    entity.set_deleted_at(None);
                    Ok(())
                })
                .await
            }
        }
    )+};
}

#[cfg(feature = "blobs")]
soft_delete! {
    LargeTable => T;
}

soft_delete! {
    SpreadTable => T;
    WideTable => Wide<T>;
}

/// Soft deletion: see [`Table::soft_delete`](table_core::typed::Table::soft_delete).
impl<T: SoftDelete> TimeSlices<T> {
    /// Sets the time of deletion: reads leave the entity out, and a sweep of its slice removes it for good when it was kept for the days of
    /// `#[deleted_at]`. Returns the entity as stored. Requests as for [`update`](Self::update).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn soft_delete(&self, at: Ticks, key: impl KeyOf<T>) -> Result<T> {
        let now = self.store().now();
        self.update(at, key, |entity| {
            entity.set_deleted_at(Some(now));
            Ok(())
        })
        .await
    }

    /// Removes the time of deletion. Returns the entity as stored. Requests as for [`update`](Self::update).
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub async fn restore(&self, at: Ticks, key: impl KeyOf<T>) -> Result<T> {
        let all = self.clone().with_hidden();
        all.update(at, key, |entity| {
            entity.set_deleted_at(None);
            Ok(())
        })
        .await
    }
}
