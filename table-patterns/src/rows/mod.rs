//! What every pattern needs to read and write rows: clocks, the order of writes, permission by the manifest, encryption rules; here:
//! conclusions from errors, bytes of any length, pages and streams with unreadable entities, upgrades.

pub mod clock;
pub(crate) mod encrypted;
pub(crate) mod in_order;
pub(crate) mod plain;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt as _, stream};
use table_core::model::{Entity, Key, TableName, ValueRef, key_order};
use table_core::query::{
    Continuation, Filter, Page, Query, ReadablePage, Select, UnreadableEntity,
};
use table_core::store::{
    Conflicts, CycleDetector, Error, ErrorKind, GroupTransaction, Operation, Outcome, Result,
    TableStore, Written, limits,
};
use table_core::typed::{FromEntity, Schema, TableEntity};

pub(crate) use table_core::store::own_key_error;

/// The number of bytes of properties at which a window ends.
pub(crate) const WINDOW_BYTES: usize = 16 * 1024 * 1024;

/// The value of an entity that was written. An error says that the write took effect.
pub(crate) fn written_value<T: FromEntity>(entity: Entity, written: Written) -> Result<T> {
    T::from_entity(entity.with_system(written.etag, None))
        .map_err(|error| error.with_outcome(Outcome::Applied))
}

/// A new random id, of a write or a process.
pub(crate) fn fresh_id() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

/// The identity of a query of a table: the fingerprint of its continuation tokens.
#[cfg(feature = "paging")]
pub(crate) fn query_identity(
    profile: &table_core::store::ServiceProfile,
    table: &table_core::model::TableName,
    query: &table_core::query::Query,
) -> String {
    use table_core::query::Position;
    Continuation::new(
        profile,
        table,
        query,
        Position {
            first: String::new(),
            second: None,
        },
    )
    .to_string()
}

/// The pause before the next attempt of work that met other writers: a random part of 5 ms, which doubles with each attempt, at most
/// `doublings` times. Random, because two writers that stop each other must separate.
pub(crate) fn random_pause(attempt: u32, doublings: u32) -> Duration {
    Duration::from_millis(5).mul_f64(f64::from(1 << attempt.min(doublings)) * fastrand::f64())
}

/// Treats an unreadable answer of a write that was applied as a success, with a default value in place of the answer.
///
/// The rows are stored; only their new ETags are unknown.
pub(crate) fn accept_applied<T: Default>(answer: Result<T>) -> Result<T> {
    answer.or_else(|error| match error.outcome() {
        Outcome::Applied => {
            tracing::debug!(%error, "the answer to a request that took effect cannot be read");
            Ok(T::default())
        }
        Outcome::NotApplied | Outcome::Ambiguous => Err(error),
    })
}

/// The result of a request that prepares a write. Whatever has become of that request, the write itself was not sent: an error is *not
/// applied*.
pub(crate) fn before_write<T>(prepared: Result<T>) -> Result<T> {
    prepared.map_err(|error| error.with_outcome(Outcome::NotApplied))
}

/// Whether another writer has changed or deleted the row first, and nothing was written: the row must be read again.
pub(crate) fn was_changed_by_another(error: &Error) -> bool {
    !error.is_ambiguous() && (error.is_precondition_failed() || error.is_entity_not_found())
}

/// Whether a deletion has found its row. A row that does not exist is no error.
pub(crate) fn existed<T>(deleted: Result<T>) -> Result<bool> {
    match deleted {
        Err(error) if error.is_certainly_missing() => Ok(false),
        deleted => deleted.map(|_| true),
    }
}

/// Whether an insert was refused because of a stored entity, which may be due: then the caller reads and replaces it.
pub(crate) fn may_replace_due(schema: &Schema, error: &Error) -> bool {
    // An ambiguous error may be about this very insert, whose first answer was lost.
    schema.expiry.is_some() && error.is_already_exists() && !error.is_ambiguous()
}

/// Inserts an entity of a type; a stored entity that is due is replaced in the version that was read. `read` reads the stored entity, and
/// `replace` writes over it. Repeats after a conflict.
pub(crate) async fn insert_over_due<W, S, I, R, O>(
    schema: &Schema,
    attempts: u32,
    insert: impl Fn() -> I + Send,
    read: impl Fn() -> R + Send,
    is_due: impl Fn(&S) -> bool + Send,
    replace: impl Fn(S) -> O + Send,
) -> Result<W>
where
    I: Future<Output = Result<W>> + Send,
    R: Future<Output = Result<Option<S>>> + Send,
    O: Future<Output = Result<W>> + Send,
{
    let mut conflicts = Conflicts::new(attempts);
    loop {
        let exists = match insert().await {
            Err(error) if may_replace_due(schema, &error) => error,
            inserted => return inserted,
        };
        let Some(old) = read().await? else {
            conflicts.wait(exists).await?;
            continue;
        };
        if !is_due(&old) {
            return Err(exists);
        }
        match replace(old).await {
            Err(error) => conflicts.wait(error).await?,
            replaced => return replaced,
        }
    }
}

/// Whether an entity cannot be read because of its schema version: it is stored in a later version than this program knows.
pub(crate) fn is_of_later_version(error: &Error) -> bool {
    matches!(error.root().kind(), ErrorKind::Decode(decode) if decode.property == Schema::VERSION_PROPERTY)
}

/// Whether a property holds the schema version of a row, or the versions that read it.
pub(crate) fn is_version_property(name: &str) -> bool {
    [Schema::VERSION_PROPERTY, Schema::READER_PROPERTY].contains(&name)
}

/// The error of one row of an entity, with the entity's key in place of the row's. The row's error is the source.
pub(crate) fn with_entity_key(key: &Key, error: Error) -> Error {
    let entity = |table: &String| (table.clone(), key.to_string());
    let kind = match error.root().kind() {
        ErrorKind::EntityAlreadyExists { table, .. } => {
            let (table, key) = entity(table);
            ErrorKind::EntityAlreadyExists { table, key }
        }
        ErrorKind::EntityNotFound { table, .. } => {
            let (table, key) = entity(table);
            ErrorKind::EntityNotFound { table, key }
        }
        ErrorKind::PreconditionFailed { table, .. } => {
            let (table, key) = entity(table);
            ErrorKind::PreconditionFailed { table, key }
        }
        _ => return error,
    };
    let outcome = error.outcome();
    Error::new(kind).with_outcome(outcome).with_source(error)
}

/// The keys of one partition that have rows, as far as one page of the rows between them tells. 1 request. Empty if the rows cannot be read,
/// for example by a credential that may only add rows: the caller then learns it from each write.
pub(crate) async fn existing_keys<'a>(
    store: &dyn TableStore,
    table: &TableName,
    keys: impl IntoIterator<Item = &'a Key>,
) -> HashSet<Key> {
    let keys: Vec<_> = keys.into_iter().collect();
    let row = |a: &&&Key, b: &&&Key| key_order::compare(a.row(), b.row());
    let (Some(first), Some(last)) = (keys.iter().min_by(row), keys.iter().max_by(row)) else {
        return HashSet::new();
    };
    let between = Filter::eq(Filter::PARTITION_KEY, first.partition())
        .and(Filter::ge(Filter::ROW_KEY, first.row()))
        .and(Filter::le(Filter::ROW_KEY, last.row()));
    let query = Query::new()
        .with_filter(between)
        .with_select(Select::new([Filter::PARTITION_KEY, Filter::ROW_KEY]));
    match store
        .query(table, &query, None)
        .await
        .and_then(ReadablePage::into_page)
    {
        Ok(page) => page
            .items
            .into_iter()
            .map(|row| row.key().clone())
            .collect(),
        Err(error) => {
            tracing::debug!(%error, %table, "existing rows were not looked for");
            HashSet::new()
        }
    }
}

/// Writes operations of one partition together: one operation as a single write, several as a group transaction.
pub(crate) async fn write_together(
    store: &dyn TableStore,
    table: &TableName,
    operations: &[Operation],
) -> Result<Vec<Written>> {
    match operations {
        [] => Ok(Vec::new()),
        [operation] => store
            .write(table, operation.clone())
            .await
            .map(|written| vec![written]),
        [first, ..] => {
            let mut group = GroupTransaction::new(first.key().partition_key(), store.profile());
            operations
                .iter()
                .try_for_each(|operation| group.push(operation.clone()))?;
            store.transact(table, group).await
        }
    }
}

/// Sets bytes of any length as the binary properties `{name}0`, `{name}1`, …, each as long as a property may be.
pub(crate) fn set_bytes(row: &mut Entity, name: &str, bytes: &[u8]) {
    for (n, part) in bytes.chunks(limits::BINARY_BYTES).enumerate() {
        row.properties_mut().set(&format!("{name}{n}"), part);
    }
}

/// The bytes that [`set_bytes`] has set; empty if there are none.
pub(crate) fn get_bytes(row: &Entity, name: &str) -> Vec<u8> {
    let parts = (0..).map_while(|n| match row.get(&format!("{name}{n}")) {
        Some(ValueRef::Binary(part)) => Some(part),
        _ => None,
    });
    parts.flatten().copied().collect()
}

/// The page of the values that were read, with a list of the entities that cannot be read.
pub(crate) fn readable<T>(
    read: impl IntoIterator<Item = (Key, Result<T>)>,
    continuation: Option<Continuation>,
) -> ReadablePage<T> {
    let mut found = ReadablePage {
        page: Page {
            items: Vec::new(),
            continuation,
        },
        unreadable: Vec::new(),
    };
    for (key, value) in read {
        match value {
            Ok(value) => found.page.items.push(value),
            Err(error) => found.unreadable.push(UnreadableEntity { key, error }),
        }
    }
    found
}

/// The results of all pages of a query. The unreadable entities of a page come after the others, and do not count towards the limit. `with_limit`
/// sets the limit of the query; `page` reads the page that begins at a continuation.
pub(crate) fn stream_readable<Q, T, F>(
    query: Q,
    limit: Option<usize>,
    with_limit: fn(Q, usize) -> Q,
    page: impl Fn(Q, Option<Continuation>) -> F + Copy + Send,
) -> impl Stream<Item = Result<Result<T, UnreadableEntity>>> + Send + Unpin
where
    Q: Clone + Send,
    T: Send,
    F: Future<Output = Result<ReadablePage<T>>> + Send,
{
    let start = Some((query, None, limit, CycleDetector::default())).filter(|_| limit != Some(0));
    let pages = stream::try_unfold(start, move |state| async move {
        let Some((query, from, limit, mut cycles)) = state else {
            return Ok::<_, Error>(None);
        };
        // A page returns up to the limit, so the limit of each page is what the pages before have left of it.
        let rest = limit.into_iter().fold(query.clone(), with_limit);
        let ReadablePage {
            page: Page {
                items,
                continuation,
            },
            unreadable,
        } = page(rest, from).await?;
        let left = limit.map(|limit| limit.saturating_sub(items.len()));
        let next = match continuation.filter(|_| left != Some(0)) {
            Some(next) => {
                cycles.add(&next, items.len() + unreadable.len())?;
                Some((query, Some(next), left, cycles))
            }
            None => None,
        };
        let rows = items
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

/// The row in the current schema version, including properties that no version declares.
pub(crate) fn upgraded<T: TableEntity>(old: &Entity, value: &T) -> Result<Entity> {
    let mut new = value.to_logical()?;
    T::SCHEMA.keep_unknown(old, &mut new)?;
    Ok(new)
}

/// Upgrades one row that was read: `first` in the version that was read, and after a conflict `again` in the stored version.
/// Returns `false` if the row was deleted.
pub(crate) async fn upgrade_one<A, B>(
    first: impl Future<Output = Result<A>> + Send,
    again: impl Future<Output = Result<B>> + Send,
) -> Result<bool> {
    let is_deleted = Error::is_certainly_missing;
    match first.await {
        Ok(_) => return Ok(true),
        Err(error) if is_deleted(&error) => return Ok(false),
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    match again.await {
        Err(error) if is_deleted(&error) => Ok(false),
        done => done.map(|_| true),
    }
}
