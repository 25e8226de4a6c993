//! The rows of all slices, for an upgrade.

use std::sync::Arc;

use async_trait::async_trait;
use table_core::model::{Entity, TableName};
use table_core::store::{Error, Result};
use table_core::typed::upgrade::{UpgradePage, UpgradeRow, UpgradeRows};
use table_core::typed::{PlainTable, TableEntity};
use tokio::sync::OnceCell;

use super::family::is_table_dropped;
use super::{Slice, TimeSlices};

/// In a cursor, separates the table from the place in the table. A table name has letters and digits only, so the first separator
/// ends it; the place may have others.
const SEPARATOR: char = '\u{1}';

/// The rows of the slices that exist when the first page is read.
pub(super) struct SliceRows<T> {
    family: TimeSlices<T>,
    slices: OnceCell<Vec<Slice>>,
}

impl<T> SliceRows<T> {
    pub(super) fn new(family: TimeSlices<T>) -> Self {
        Self {
            family,
            slices: OnceCell::new(),
        }
    }
}

impl<T: TableEntity> SliceRows<T> {
    fn table(&self, name: &TableName) -> Result<PlainTable<T>> {
        PlainTable::new(Arc::clone(&self.family.shared.store), name.clone())
    }

    /// Splits a cursor into the slice and the place in its table; `None` for the start of the table.
    fn place<'c>(&self, cursor: &'c str) -> Result<(Slice, Option<&'c str>)> {
        let split = cursor.split_once(SEPARATOR);
        let (table, inner) = split.ok_or_else(|| {
            Error::invalid_continuation("the cursor is not of an upgrade of time slices")
        })?;
        Ok((
            self.family.shared.slice(&TableName::new(table)?)?,
            Some(inner).filter(|inner| !inner.is_empty()),
        ))
    }
}

#[async_trait]
impl<T: TableEntity> UpgradeRows<T> for SliceRows<T> {
    async fn page(&self, from: Option<&str>) -> Result<UpgradePage> {
        let slices = self.slices.get_or_try_init(|| self.family.slices()).await?;
        let begun = from.map(|cursor| self.place(cursor)).transpose()?;
        let order = |slice: &Slice| (slice.from, slice.generation);
        let is_left = |slice: &&Slice| {
            begun
                .as_ref()
                .is_none_or(|(begun, _)| order(slice) >= order(begun))
        };
        let mut left = slices.iter().filter(is_left).peekable();
        while let Some(slice) = left.next() {
            let inner = begun
                .as_ref()
                .filter(|(begun, _)| begun.table == slice.table)
                .and_then(|(_, inner)| *inner);
            let query = self
                .table(&slice.table)?
                .query()
                .with_hidden()
                .project::<Entity>();
            let mut page = match UpgradePage::of_query(&query, inner).await {
                Ok(page) => page,
                // Dropped since the tables were listed.
                Err(error) if is_table_dropped(&error) => continue,
                Err(error) => return Err(error),
            };
            page.next = match (page.next, left.peek()) {
                (Some(inner), _) => Some(format!("{}{SEPARATOR}{inner}", slice.table)),
                // The end of a slice: the cursor names the next one, without a place in it.
                (None, Some(next)) => Some(format!("{}{SEPARATOR}", next.table)),
                (None, None) => None,
            };
            page.rows
                .iter_mut()
                .for_each(|row| row.state = Some(Arc::new(slice.table.clone())));
            return Ok(page);
        }
        Ok(UpgradePage::default())
    }

    async fn check(&self, row: &UpgradeRow) -> Result<()> {
        self.table(table_of(row)?)?.check(row).await
    }

    async fn convert(&self, row: UpgradeRow) -> Result<bool> {
        match self.table(table_of(&row)?)?.convert(row).await {
            Err(error) if is_table_dropped(&error) => Ok(false),
            done => done,
        }
    }
}

/// The table of a row of a page.
fn table_of(row: &UpgradeRow) -> Result<&TableName> {
    let table = row
        .state
        .as_ref()
        .and_then(|state| state.downcast_ref::<TableName>());
    table.ok_or_else(|| Error::misuse("the row is not of a slice"))
}
