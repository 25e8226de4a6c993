use crate::model::Key;
use crate::store::Result;
use crate::typed::TableEntity;

/// A struct with declared indexes. Derived with the entity where it has `#[index(name, …)]`:
///
/// | setting | says |
/// |---|---|
/// | `row_key = "…"` | the RowKey of entries: text and fields in braces, as in the entity's own |
/// | `partition_key = "…"` | their PartitionKey; without it the entity's. `{email#16}` is the [shard](crate::model::Shards) of a text among 16: the row key starts with that field then, `T::by_name(…)` finds the shard by the value, and `T::name_shards()` names all of them |
/// | `table = "…"` | another table |
/// | `payload = full`, `fields(a, b)`, `reference` | what entries hold: a reference if nothing is said |
/// | `shape = row`, `list`, `blob` | a row for each entity, or a list or blob for each value; `list(bytes = 65536, overflow = blob)` says how much a list entity holds, and where more goes: into more of them, or into a blob |
/// | `unique = "partition"`, `"table"` | that no other entity there has the same entry |
/// | `where = "Status eq 'open'"` | which entities have entries: a filter over the entity as it is stored |
///
/// Fields are written as they are, or transformed: `{email:lower}`, `{name:prefix(3)}`, `{at:date}`, `{at:hour}`, `{placed:desc}`, `{tags[]}` (an
/// entry for each element). What is declared is in [`Schema::indexes`](super::super::Schema) as data:
/// [`IndexDefinition`](crate::manifest::IndexDefinition).
#[diagnostic::on_unimplemented(
    message = "`{Self}` declares no indexes",
    note = "add `#[index(name, row_key = \"…\")]` to the struct, beside `#[derive(TableEntity)]`"
)]
pub trait IndexedEntity: TableEntity {
    /// The keys of its entries in an index, by the index's place in [`Schema::indexes`](super::super::Schema): none if a part of
    /// the key is absent, one for each element of a list. The condition of the index is not looked at: it is of what is stored.
    ///
    /// # Errors
    /// A key part does not fit, the key is too long, or it is one that an entity could have.
    fn index_keys(&self, index: usize) -> Result<Vec<Key>>;
}
