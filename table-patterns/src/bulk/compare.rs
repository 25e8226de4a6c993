use std::cmp::Ordering;
use std::sync::Arc;

use futures_util::future::try_join;
use futures_util::{Stream, TryStreamExt};
use sha2::{Digest, Sha256};
use table_core::adapter::WRITE_ID_PROPERTY;
use table_core::model::{Entity, Key, Properties, PropertyRef, TableName};
use table_core::query::Query;
use table_core::store::{KeyOrder, Result, TableStore};

use super::checkpoint::is_checkpoint;
use super::scan::scan;

/// Differences that a [`Comparison`] names.
const NAMED: usize = 100;

/// How two tables differ.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Rows of the first table.
    pub first: u64,
    /// Rows of the second.
    pub second: u64,
    /// Whether they hold the same rows: keys, properties and types. ETags, times and the
    /// [ids of writes](WRITE_ID_PROPERTY) are each store's own.
    pub equal: bool,
    /// The first 100 differences, by key; none where a store does not sort.
    pub differences: Vec<Difference>,
}

/// A row that two tables do not share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Only the first table has it.
    OnlyInFirst(Key),
    /// Only the second table has it.
    OnlyInSecond(Key),
    /// Both have it, with other properties.
    Properties(Key),
    /// Both have it, and a blob that it refers to is missing beside the copy: of a [`CopyJob`](super::CopyJob) that copies
    /// blobs.
    Blob(Key),
}

/// Compares two tables of any stores. One request a page of either; a page of each is in memory.
///
/// Where both sort, row by row. Where one does not, by the sum of hashes of the rows: that tells whether
/// they are equal, not where they differ. Rows of copy jobs are left out.
///
/// # Errors
/// The stores'.
pub async fn compare_tables(
    first: (Arc<dyn TableStore>, TableName),
    second: (Arc<dyn TableStore>, TableName),
) -> Result<Comparison> {
    let sorted = [&first, &second].iter().all(|side| side.0.profile().order == KeyOrder::Sorted);
    let (first, second) = (rows(first), rows(second));
    if sorted { merge(first, second).await } else { digest(first, second).await }
}

fn rows((store, table): (Arc<dyn TableStore>, TableName)) -> impl Stream<Item = Result<Entity>> + Unpin {
    let rows = scan(store, table, Query::new());
    rows.try_filter(|row| std::future::ready(!is_checkpoint(row.key())))
}

async fn merge(
    mut first: impl Stream<Item = Result<Entity>> + Unpin,
    mut second: impl Stream<Item = Result<Entity>> + Unpin,
) -> Result<Comparison> {
    let mut found = Comparison { equal: true, ..Comparison::default() };
    let (mut a, mut b) = (first.try_next().await?, second.try_next().await?);
    loop {
        let order = match (&a, &b) {
            (None, None) => return Ok(found),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.key().cmp(b.key()),
        };
        found.add(order, a.as_ref(), b.as_ref());
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
        self.equal = false;
        if self.differences.len() < NAMED {
            self.differences.push(Difference::Blob(key.clone()));
        }
    }

    fn add(&mut self, order: Ordering, a: Option<&Entity>, b: Option<&Entity>) {
        self.first += u64::from(order.is_le());
        self.second += u64::from(order.is_ge());
        let difference = match (order, a, b) {
            (Ordering::Less, Some(a), _) => Difference::OnlyInFirst(a.key().clone()),
            (Ordering::Greater, _, Some(b)) => Difference::OnlyInSecond(b.key().clone()),
            (_, Some(a), Some(b)) if !same(a, b) => Difference::Properties(a.key().clone()),
            _ => return,
        };
        self.equal = false;
        if self.differences.len() < NAMED {
            self.differences.push(difference);
        }
    }
}

/// Whether the properties are the same, in any order.
fn same(a: &Entity, b: &Entity) -> bool {
    a.properties().as_packed() == b.properties().as_packed() || packed(a).eq(packed(b))
}

/// The properties in the order of their names, each as its bytes: a NaN equals itself.
fn packed(entity: &Entity) -> impl Iterator<Item = Vec<u8>> {
    sorted(entity).into_iter().map(|property| {
        let mut one = Properties::new();
        one.push(property.name(), property.value(), property.is_encrypted());
        one.into_packed()
    })
}

fn sorted(entity: &Entity) -> Vec<PropertyRef<'_>> {
    let properties = entity.properties().iter();
    let mut properties: Vec<_> = properties.filter(|p| p.name() != WRITE_ID_PROPERTY).collect();
    properties.sort_by_key(PropertyRef::name);
    properties
}

async fn digest(
    first: impl Stream<Item = Result<Entity>> + Unpin,
    second: impl Stream<Item = Result<Entity>> + Unpin,
) -> Result<Comparison> {
    let ((first, a), (second, b)) = try_join(sum(first), sum(second)).await?;
    Ok(Comparison { first, second, equal: first == second && a == b, differences: Vec::new() })
}

/// The number of rows and the sum of their hashes, which does not depend on their order.
async fn sum(rows: impl Stream<Item = Result<Entity>>) -> Result<(u64, u128)> {
    let add =
        |(rows, sum): (u64, u128), row: Entity| async move { Ok((rows + 1, sum.wrapping_add(hash(&row)))) };
    rows.try_fold((0, 0), add).await
}

fn hash(row: &Entity) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update(row.key().to_sortable());
    for property in packed(row) {
        hasher.update([0]);
        hasher.update(property);
    }
    let hash: [u8; 32] = hasher.finalize().into();
    hash.first_chunk().map_or(0, |half| u128::from_be_bytes(*half))
}
