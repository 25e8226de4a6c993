use futures_util::{Stream, StreamExt as _};
use table_core::store::Result;
use table_core::typed::IndexedEntity;

use super::table::IndexedTable;
use crate::index::bulk::{BulkInsert, Inserted};

impl<T: IndexedEntity> IndexedTable<T> {
    /// Inserts entities while the stream is polled; returns a result for each. See
    /// [`IndexedEntities::insert_all`] for groups and requests.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use table_core::prelude::*;
    /// use futures_util::stream;
    /// use table_patterns::index::{BulkInsert, IndexOptions, IndexedTable, InsertSummary};
    /// # #[derive(Debug, TableEntity)]
    /// # #[entity(type = "Employee", rename_all = "PascalCase")]
    /// # #[index(email, row_key = "email_{email}", unique = "partition")]
    /// # struct Employee {
    /// #     #[partition_key] department: String,
    /// #     #[row_key(format = "empid_{:06}")] id: u32,
    /// #     email: String,
    /// # }
    /// # let employees = IndexedTable::<Employee>::open(MemoryStore::new(), "Employees", IndexOptions::local()).await?;
    /// let hired = (0..100).map(|id| {
    ///     let department = if id % 2 == 0 { "Sales" } else { "Marketing" }.to_owned();
    ///     Ok(Employee { department, id, email: format!("{id}@x") })
    /// });
    /// let outcomes = employees.insert_all(stream::iter(hired), BulkInsert::default());
    /// let summary = InsertSummary::of(outcomes).await?;
    /// assert_eq!((summary.written, summary.groups), (100, 2)); // 50 entities with 50 entries each
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`IndexedEntities::insert_all`]: crate::index::IndexedEntities::insert_all
    ///
    /// # Errors
    /// As items: an error of the input, as the last item; an error of reading the states of indexes.
    pub fn insert_all<'a, S>(
        &'a self,
        entities: S,
        options: BulkInsert,
    ) -> impl Stream<Item = Result<Inserted>> + Send + use<'a, T, S>
    where
        S: Stream<Item = Result<T>> + Send + 'a,
    {
        self.entities.insert_all(entities.map(|entity| entity?.to_entity()), options)
    }
}
