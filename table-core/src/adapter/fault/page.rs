use crate::model::{Entity, TableName};
use crate::query::{Continuation, Page, Position, Query};
use crate::store::ServiceProfile;

/// Keeps the first `len` entities of a page. The continuation token starts at the next entity.
pub(super) fn cut_entities(
    page: &mut Page<Entity>,
    len: usize,
    profile: &ServiceProfile,
    table: &TableName,
    query: &Query,
) {
    let Some(next) = page.items.get(len).map(Entity::key) else { return };
    let position = Position { first: next.partition().to_owned(), second: Some(next.row().to_owned()) };
    page.continuation = Some(Continuation::new(profile, table, query, position));
    page.items.truncate(len);
}

/// Keeps the first `len` names of a page. The continuation token starts at the next name.
pub(super) fn cut_tables(
    page: &mut Page<TableName>,
    len: usize,
    profile: &ServiceProfile,
    prefix: Option<&str>,
) {
    let Some(next) = page.items.get(len) else { return };
    let first = profile.table_identity(next);
    page.continuation = Some(Continuation::of_tables(prefix, Position { first, second: None }));
    page.items.truncate(len);
}
