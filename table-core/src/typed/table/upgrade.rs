use std::future::ready;

use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{Conflicts, Table};
use crate::model::{Entity, IfMatch};
use crate::store::{Operation, Result};
use crate::typed::TableEntity;

/// Schema versions.
impl<T: TableEntity> Table<T> {
    /// Rewrites every entity of the type that is stored in an older version of its schema; how many there were.
    ///
    /// Properties that no version knows, which other programs have stored, stay. Rows of a newer version are left alone.
    ///
    /// Reads convert older rows as they come, filters and projections cannot: they see what is stored. Run it when no
    /// program writes the older version any more; again, if it was interrupted: what is done stays done. Writes of
    /// others win, as in [`update`](Self::update).
    ///
    /// One request for each page of the type's rows, and one for each older entity, as many at once as
    /// [`with_concurrency`](Self::with_concurrency) allows; two more for each that another writes meanwhile. Other
    /// tables of the pattern library, such as `IndexedTable`, have it for the types that they keep.
    ///
    /// ```
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::typed::{Table, TableEntity};
    /// #[derive(TableEntity)]
    /// #[entity(type = "Customer")]
    /// struct CustomerV1 {
    ///     #[partition_key] country: String,
    ///     #[row_key] number: u32,
    ///     full_name: String,
    /// }
    /// #[derive(TableEntity)]
    /// #[entity(type = "Customer", version = 2, previous = CustomerV1)]
    /// struct Customer {
    ///     #[partition_key] country: String,
    ///     #[row_key] number: u32,
    ///     name: String,
    /// }
    /// impl From<CustomerV1> for Customer {
    ///     fn from(old: CustomerV1) -> Self {
    ///         Self { country: old.country, number: old.number, name: old.full_name }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// let customers = Table::<Customer>::new(MemoryStore::new(), "Customers")?;
    /// customers.create_if_missing().await?;
    /// let old = CustomerV1 { country: "UK".into(), number: 1, full_name: "Ada".into() };
    /// customers.view::<CustomerV1>()?.insert(&old).await?;
    ///
    /// let by_name = customers.query().filter(Customer::NAME.eq("Ada"));
    /// assert_eq!(by_name.count().await?, 0); // the row has a full_name
    /// assert_eq!(customers.upgrade_all().await?, 1);
    /// assert_eq!(by_name.count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store's; a conversion fails or changes a key.
    pub async fn upgrade_all(&self) -> Result<u64> {
        self.shared().check_indexes(&T::indexes(), "an upgrade")?;
        let rows = self.query().project::<Entity>().stream();
        let upgrades = rows.map(async |row| self.upgrade(row?).await);
        let upgrades = upgrades.buffer_unordered(self.shared().concurrency);
        upgrades.try_fold(0, |count, one| ready(Ok(count + u64::from(one)))).await
    }

    /// Whether the entity was rewritten.
    async fn upgrade(&self, mut row: Entity) -> Result<bool> {
        let mut conflicts = Conflicts::new(self.shared().attempts);
        while T::SCHEMA.stored_version(&row)? < i64::from(T::SCHEMA.version) {
            let key = row.key().clone();
            let version = row.etag().cloned().map_or(IfMatch::Any, IfMatch::Exactly);
            let mut new = T::from_entity(row.clone())?.to_entity()?;
            T::SCHEMA.keep_unknown(&row, &mut new)?;
            match self.write(Operation::Replace(new, version)).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_entity_not_found() => return Ok(false),
                Err(error) => conflicts.wait(error).await?,
            }
            let Some(now) = self.store().get(self.name(), &key, None).await? else { return Ok(false) };
            row = now;
        }
        Ok(false)
    }
}
