//! Compares the rows of two tables.

use std::cmp::Ordering;
use std::sync::Arc;

use futures_util::future::try_join;
use futures_util::{Stream, TryStreamExt};
use sha2::{Digest, Sha256};
use table_core::adapter::WRITE_ID_PROPERTY;
use table_core::model::{Entity, Key, Properties, PropertyRef, TableName};
use table_core::query::Query;
use table_core::store::{KeyOrder, Result, TableStore, TableStoreExt as _};

use super::scan::scan;
use super::windows::is_of_one_store;

/// The number of differences that a [`Comparison`] lists.
const LISTED: usize = 100;
/// A comparison reports its progress after this number of rows.
const PROGRESS_ROWS: u64 = 1000;

/// The result of comparing two tables.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The number of rows of the first table.
    pub first: u64,
    /// The number of rows of the second table.
    pub second: u64,
    /// Whether the tables hold the same rows: keys, properties and types. ETags, timestamps and
    /// [write ids](WRITE_ID_PROPERTY) are not compared.
    pub equal: bool,
    /// The number of rows of the first table that the second lacks, or has with other properties or without a blob. `None` if a store
    /// does not sort and the tables differ.
    pub missing: Option<u64>,
    /// The first 100 differences, in the order of keys; empty if a store does not sort.
    pub differences: Vec<Difference>,
}

/// A row that differs between two tables.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// Only the first table has the row.
    OnlyInFirst(Key),
    /// Only the second table has the row.
    OnlyInSecond(Key),
    /// Both tables have the row, with different properties.
    Properties(Key),
    /// Both tables have the row, and the copy's blob store lacks a blob that the row refers to. Only a
    /// [`CopyJob`](super::CopyJob) that copies blobs reports it.
    Blob(Key),
}

/// Compares two tables of any stores. 1 request per page of each table; one page of each is in memory.
///
/// If both stores sort, the tables are compared row by row. Otherwise the sums of the rows' hashes are compared: they
/// tell whether the tables are equal, not which rows differ. Checkpoint rows of copy jobs and the rows of the
/// manifest that say which programs write a store are ignored.
///
/// # Errors
/// Errors of the stores.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::bulk::{Difference, compare_tables};
///
/// let (store, first, second) = (Arc::new(MemoryStore::new()), TableName::new("Old")?, TableName::new("New")?);
/// store.create_table(&first).await?;
/// store.create_table(&second).await?;
/// store.write(&first, Operation::Insert(Entity::new("Sales", "1")?)).await?;
/// let found = compare_tables((store.clone(), first), (store, second)).await?;
/// assert_eq!(found.differences, [Difference::OnlyInFirst(Key::new("Sales", "1")?)]);
/// # Ok(())
/// # }
/// ```
pub async fn compare_tables(
    first: (impl TableStore, TableName),
    second: (impl TableStore, TableName),
) -> Result<Comparison> {
    let (first, second) = (
        (first.0.into_shared(), first.1),
        (second.0.into_shared(), second.1),
    );
    compare_with_progress(first, second, |_| ()).await
}

/// A table of a store: the source or the target.
pub(super) type Side = (Arc<dyn TableStore>, TableName);

/// Like [`compare_tables`]. Calls `report` with the number of further rows of the first table, every 1,000 rows.
pub(super) async fn compare_with_progress(
    first: Side,
    second: Side,
    report: impl Fn(u64),
) -> Result<Comparison> {
    let sorted = [&first, &second]
        .iter()
        .all(|side| side.0.profile().order == KeyOrder::Sorted);
    let mut read = 0_u64;
    let first = rows(first).inspect_ok(move |_| {
        read += 1;
        if read.is_multiple_of(PROGRESS_ROWS) {
            report(PROGRESS_ROWS);
        }
    });
    let second = rows(second);
    if sorted {
        compare_sorted(first, second).await
    } else {
        compare_hashes(first, second).await
    }
}

fn rows((store, table): Side) -> impl Stream<Item = Result<Entity>> + Unpin {
    let rows = scan(store, table, Query::new());
    rows.try_filter(|row| std::future::ready(!is_of_one_store(row.key())))
}

/// Walks both tables in the order of keys.
async fn compare_sorted(
    mut first: impl Stream<Item = Result<Entity>> + Unpin,
    mut second: impl Stream<Item = Result<Entity>> + Unpin,
) -> Result<Comparison> {
    let mut found = Comparison {
        equal: true,
        missing: Some(0),
        ..Comparison::default()
    };
    let (mut a, mut b) = (first.try_next().await?, second.try_next().await?);
    loop {
        let order = match (&a, &b) {
            (None, None) => return Ok(found),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.key().cmp(b.key()),
        };
        found.add(order, a.as_ref(), b.as_ref());
        // The side with the smaller key moves on; both do if the keys are equal.
        if order.is_le() {
            a = first.try_next().await?;
        }
        if order.is_ge() {
            b = second.try_next().await?;
        }
    }
}

impl Comparison {
    /// Adds a row whose blob is missing.
    pub(super) fn add_missing_blob(&mut self, key: &Key) {
        self.differ(Difference::Blob(key.clone()));
    }

    fn differ(&mut self, difference: Difference) {
        self.equal = false;
        if let Some(missing) = &mut self.missing {
            *missing += u64::from(!matches!(difference, Difference::OnlyInSecond(_)));
        }
        if self.differences.len() < LISTED {
            self.differences.push(difference);
        }
    }

    /// Counts the row or rows with the smaller key, and adds their difference.
    fn add(&mut self, order: Ordering, a: Option<&Entity>, b: Option<&Entity>) {
        self.first += u64::from(order.is_le());
        self.second += u64::from(order.is_ge());
        let difference = match (order, a, b) {
            (Ordering::Less, Some(a), _) => Difference::OnlyInFirst(a.key().clone()),
            (Ordering::Greater, _, Some(b)) => Difference::OnlyInSecond(b.key().clone()),
            (_, Some(a), Some(b)) if !has_equal_properties(a, b) => {
                Difference::Properties(a.key().clone())
            }
            _ => return,
        };
        self.differ(difference);
    }
}

/// Whether the properties are equal, in any order.
fn has_equal_properties(a: &Entity, b: &Entity) -> bool {
    // Equal bytes are the common case, and need no sorting.
    a.properties().as_packed() == b.properties().as_packed()
        || sorted_packed(a).eq(sorted_packed(b))
}

/// The packed bytes of each property, in the order of names. As bytes a NaN equals itself, and two zeros of different
/// signs differ.
fn sorted_packed(entity: &Entity) -> impl Iterator<Item = Vec<u8>> {
    sorted(entity).into_iter().map(|property| {
        let mut one = Properties::new();
        one.push(property.name(), property.value(), property.is_encrypted());
        one.into_packed()
    })
}

/// The properties in the order of names, without the write id.
fn sorted(entity: &Entity) -> Vec<PropertyRef<'_>> {
    let properties = entity.properties().iter();
    let mut properties: Vec<_> = properties
        .filter(|p| p.name() != WRITE_ID_PROPERTY)
        .collect();
    properties.sort_by_key(PropertyRef::name);
    properties
}

async fn compare_hashes(
    first: impl Stream<Item = Result<Entity>> + Unpin,
    second: impl Stream<Item = Result<Entity>> + Unpin,
) -> Result<Comparison> {
    let ((first, a), (second, b)) = try_join(sum_hashes(first), sum_hashes(second)).await?;
    let equal = first == second && a == b;
    Ok(Comparison {
        first,
        second,
        equal,
        missing: equal.then_some(0),
        differences: Vec::new(),
    })
}

/// The number of rows and the sum of their hashes. The sum does not depend on the order of the rows.
async fn sum_hashes(rows: impl Stream<Item = Result<Entity>>) -> Result<(u64, u128)> {
    let add = |(rows, sum): (u64, u128), row: Entity| async move {
        Ok((rows + 1, sum.wrapping_add(hash(&row))))
    };
    rows.try_fold((0, 0), add).await
}

/// 128 bits of a hash of the key and the properties.
fn hash(row: &Entity) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update(row.key().to_sortable());
    for property in sorted_packed(row) {
        hasher.update([0]);
        hasher.update(property);
    }
    let hash: [u8; 32] = hasher.finalize().into();
    hash.first_chunk()
        .map_or(0, |half| u128::from_be_bytes(*half))
}
