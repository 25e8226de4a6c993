use futures_core::Stream;
use futures_util::{TryStreamExt as _, stream};

use super::TableQuery;
use crate::model::Entity;
use crate::query::{Continuation, Page, ReadablePage, UnreadableEntity};
use crate::store::{CycleDetector, Error, Result};
use crate::typed::FromEntity;

/// Reads that go on after a row that cannot be read.
impl<T: FromEntity, R: FromEntity> TableQuery<T, R> {
    /// Returns one page like [`page`](Self::page), and lists the rows of it that cannot be read, with their keys and errors: rows that do not fit
    /// `R`, and rows that the store cannot decrypt. 1 request.
    ///
    /// ```
    /// # use table_core::prelude::*;
    /// # use table_core::typed::PlainTable;
    /// # use table_core::store::Operation;
    /// # #[derive(Debug, TableEntity)]
    /// # struct Employee { #[partition_key] department: String, #[row_key] id: u32, age: i32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = PlainTable::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// # employees.insert(&Employee { department: "Sales".into(), id: 1, age: 41 }).await?;
    /// # let key = Employee::key("Sales", 2)?.into_key();
    /// # employees.store().write(employees.name(), Operation::Insert(Entity::from(key).with("age", "forty"))).await?;
    /// let found = employees.query().readable_page(None).await?;
    /// assert_eq!(found.page.items[0].id, 1);
    /// assert!(found.unreadable[0].error.to_string().contains("'age'"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`page`](Self::page), without the errors of rows.
    pub async fn readable_page(&self, from: Option<&Continuation>) -> Result<ReadablePage<R>> {
        let empty = Page {
            items: Vec::new(),
            continuation: None,
        };
        let mut found = ReadablePage {
            page: empty,
            unreadable: Vec::new(),
        };
        let Some(query) = self.page_query()? else {
            return Ok(found);
        };
        let (table, row_filter) = (&self.table, self.row_filter());
        let ReadablePage {
            mut page,
            unreadable,
        } = table
            .store()
            .query(table.name(), &query.with_unreadable(), from)
            .await?;
        row_filter.filter_page(&mut page);
        found.unreadable = unreadable;
        found
            .unreadable
            .retain(|row| !(row_filter.removes_system_rows && row.key.is_system()));
        found.page.continuation = page.continuation;
        if let Some(loads) = self.loads()? {
            loads.readable(page.items, &mut found).await?;
            return Ok(found);
        }
        for entity in page.items {
            match read(entity) {
                Ok(value) => found.page.items.push(value),
                Err(unreadable) => found.unreadable.push(unreadable),
            }
        }
        Ok(found)
    }

    /// Returns a stream of the results that goes on after a row that cannot be read: such a row is an `Err` with its key within an `Ok`. An error of
    /// the store ends the stream. 1 request per page, without [`prefetch`](Self::prefetch). The unreadable rows of a page come after the others,
    /// and do not count towards a [`limit`](Self::limit).
    ///
    /// ```
    /// # use table_core::prelude::*;
    /// # use table_core::typed::PlainTable;
    /// # #[derive(Debug, TableEntity)]
    /// # struct Employee { #[partition_key] department: String, #[row_key] id: u32, age: i32 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # let employees = PlainTable::<Employee>::new(MemoryStore::new(), "Employees")?;
    /// # employees.create_if_missing().await?;
    /// use futures_util::TryStreamExt;
    /// let mut rows = employees.query().stream_readable();
    /// while let Some(row) = rows.try_next().await? {
    ///     match row {
    ///         Ok(employee) => println!("{}", employee.age),
    ///         Err(row) => eprintln!("skipped {}: {}", row.key, row.error),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream_readable(
        &self,
    ) -> impl Stream<Item = Result<Result<R, UnreadableEntity>>> + Send + Unpin + use<T, R> {
        let state = Some((self.clone(), None, CycleDetector::default()));
        let pages = stream::try_unfold(state, |state| async move {
            let Some((mut query, from, mut cycles)) = state else {
                return Ok::<_, Error>(None);
            };
            let ReadablePage { page, unreadable } = query.readable_page(from.as_ref()).await?;
            query.options.limit = query
                .options
                .limit
                .map(|limit| limit.saturating_sub(page.items.len()));
            let rows = page.items.len() + unreadable.len();
            let next = match page.continuation.filter(|_| query.options.limit != Some(0)) {
                Some(from) => {
                    cycles.add(&from, rows)?;
                    Some((query, Some(from), cycles))
                }
                None => None,
            };
            let rows = page
                .items
                .into_iter()
                .map(Ok)
                .chain(unreadable.into_iter().map(Err));
            Ok(Some((
                stream::iter(rows.map(Ok::<_, Error>).collect::<Vec<_>>()),
                next,
            )))
        });
        Box::pin(pages.try_flatten())
    }
}

/// Decodes an entity, or returns its key with the error.
pub(super) fn read<R: FromEntity>(entity: Entity) -> Result<R, UnreadableEntity> {
    let key = entity.key().clone();
    R::from_entity(entity).map_err(|error| UnreadableEntity { key, error })
}
