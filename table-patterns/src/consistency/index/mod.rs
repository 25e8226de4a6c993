//! Secondary indexes: entries derived from entities, kept in step with them.
//!
//! # Problem
//! A table has one order, that of its keys. Other questions need entries of their own, and every write of
//! an entity must change them too, whatever crashes in between.
//!
//! # Key layout
//!
//! | [`Shape`] | row | holds |
//! |---|---|---|
//! | `Row` | the key that the index gives, which includes the entity's | payload, `IndexName` (the index's [id](Index::id)), `OwnerPartition`, `OwnerRow` |
//! | `List` | the key that the index gives, one for each value | `List0`, `List1`, …: references; or `ListChunks0`, …: the chunks that hold them; or `ListBlob`: the name of the blob that does |
//! | a list's chunk | the list's PartitionKey, `~~l_` + id | `List0`, …, and `ListOf`: the list's RowKey |
//! | `Blob` | as `List` | `ListBlob`; the blob is `{table}-{id of the table}/{index}/{id}` |
//! | `Summary` | the key that the index gives, in the entity's partition | `Count`, and `Sum…` for each property |
//! | `Copy` | an entity: the key that the index gives | the entity's own properties, and the copies, with their prefix |
//! | an index in the manifest | PartitionKey `~~manifest`, `index~` + type + `~` + id | definition, state, progress of a build |
//! | a type in the manifest | `~~manifest`, `type~` + type | the latest version of its schema |
//! | the manifest's row of the table | `~~manifest`, `table` | the longest cache, request and lease of any process; whether a program writes entities of any type; whether entries have collided; the table's id in the store of blobs |
//! | the manifest's row of scrubs | `~~manifest`, `scrub` | when an [upkeep](crate::upkeep) scrubbed the indexes last |
//! | owner of a table of entries | `~~manifest`, `owner` in that table | the table of the entities |
//!
//! References are keys in the order of the service, each without the bytes that it has in common with the one
//! before; the first byte names the format (1). They are the same in a row, in a chunk and in a blob.
//!
//! # Guarantees
//! Entries in the entity's partition change with it, in one group transaction: a list is read and written in
//! that group under its ETag, and the write starts again where another was quicker. Entries elsewhere follow
//! by the protocol of [`journal`](crate::journal). Every lookup of a list reads the entities and leaves out
//! those that are not to be in it. Blobs are never changed: a row names the one that counts, and its ETag
//! decides; a crash leaves blobs that no row names, which [`IndexedEntities::collect_blobs`] deletes.
//! Numbers of a summary are exact; where they could be added twice, in another partition, they are refused.
//!
//! # Life cycle
//! | to | call |
//! |---|---|
//! | add an index to a table full of data | [`open`](IndexedEntities::open) with it, [`build`](IndexedEntities::build) |
//! | read by it without writing | [`open_to_read`](IndexedEntities::open_to_read) |
//! | find and repair what dangles or is missing | [`scrub`](IndexedEntities::scrub), by pages [`scrub_page`](IndexedEntities::scrub_page) |
//! | make it anew | [`rebuild`](IndexedEntities::rebuild) |
//! | change its definition | `open` with the new one, `build`, then `drop_index` of the earlier one's id |
//! | give it up | [`drop_index`](IndexedEntities::drop_index) by any program; one without the definition calls [`open_for_upkeep`](IndexedEntities::open_for_upkeep) |
//! | see what there is | [`declared`](IndexedEntities::declared) |
//!
//! The manifest holds every definition as data, and every writer keeps every index of it in step: an older program the index that a newer one has
//! declared, a program of one type those of another. Two definitions of one name are two *generations*, both kept until one is dropped; their
//! keys must differ in the text that they start with. A writer that cannot maintain an index (its keys are made by a function that the program does not
//! have, or its definition is of a newer format) refuses writes of the entities that it is of, before anything is written. Reads go on.
//!
//! While a unique index is declared and not readable, nobody can tell who has a value: writes that give an entity one are
//! refused, and those that keep or remove one go on. A build over entities that share values lists all of them
//! ([`DuplicateValues`](table_core::store::ErrorKind::DuplicateValues)), and begins there when it is run again.
//!
//! A change of state waits until every writer knows it: in a store that only this process writes, until what was under way is done, else
//! for the longest cache and request of the processes that are registered in the manifest ([`IndexOptions::cache`]). A process that is gone
//! counts until its row was seen unchanged for its heartbeat. [`Waiting`] says for what, for which process, and until when at most.
//!
//! # Failure windows
//! In the entity's partition: none. Elsewhere: those of the [`journal`](crate::journal#failure-windows).
//! An entity that copies go into and that is added after its source has none until a scrub. Nor has one of another
//! table, from when a writer of that table replaces it: that knows nothing of the copies.
//!
//! A program that writes by a plain [`Table`](table_core::typed::Table) and whose type declares no index is not
//! refused: one that runs since before an index was declared leaves entries missing and stale, until a scrub. Stop it, or
//! let it write by indexes, before [`build`](IndexedEntities::build).
//!
//! # Cost in requests
//!
//! | | row | list, summary, copy | blob |
//! |---|---|---|---|
//! | write, entry in the partition | 0 more than the entity's group | 1 read for each row changed | the same, and 1 blob read, written, deleted |
//! | write, entry elsewhere | see [`journal`](crate::journal#cost-in-requests) | 2 for each row changed, instead of 1 for each partition | the same, and 1 blob read, written, deleted |
//! | lookup of n entities | 1 with a payload, 1 + n by references | 1 + n; 1 + 1 where a range serves; a summary or copy 1 | 1 + 1 blob + n |
//!
//! A list that does not fit one entity costs a lookup one request for each chunk, at once, and a write one
//! read and one operation more for each chunk that it changes.
//!
//! # Limits and when not to use it
//! A change of a list writes the whole list entity, up to 1 MiB: a value that thousands of entities share and
//! that changes often is better kept in rows. Writers of one process take turns at the lists and summaries of
//! an entity's partition; those of several meet at the ETag, and a hot one is better divided, by a hash in its key. Blobs and lists hold references only.

mod build;
mod build_groups;
mod build_shared;
mod bulk;
mod definition;
mod drop;
mod drop_rows;
mod entry;
mod fan_out;
mod held;
mod indexed;
mod kept;
mod list_pages;
mod lists;
mod lookup;
mod manifest;
mod moves;
mod open;
mod options;
mod owner;
mod processes;
mod query;
mod resolve;
mod scrub;
mod scrub_shared;
mod set;
mod shape;
pub(crate) mod shared;
mod stored;
mod table_row;
mod totals;
mod typed;
mod waiting;
mod writes;

pub use build::{BuildProgress, IndexBuild};
pub use bulk::{BulkInsert, InsertSummary, Inserted};
pub use definition::{Index, Payload, Placement, Uniqueness};
pub use entry::{Entry, EntryDiff, Location, Maintainer, Permission};
pub use indexed::IndexedEntities;
pub(crate) use kept::{Kept, Obstacle};
pub use lookup::Trust;
pub(crate) use moves::check_no_blob;
pub use options::IndexOptions;
pub use processes::ProcessId;
pub use query::IndexQuery;
pub use scrub::{ScrubCursor, ScrubMode, ScrubReport};
pub use shape::{Overflow, Shape};
pub use shared::Summary;
pub use stored::Stored;
pub use table_core::manifest::{EntityType, IndexDefinition, IndexState, StoredIndex};
pub use table_core::model::Shards;
pub use typed::{Found, GroupOf, IndexedGroup, IndexedTable, Lookup, StoredQuery};
pub(crate) use typed::{all_indexes, open_entities};
pub use waiting::{Waiting, WaitingFor};

#[cfg(test)]
mod tests;
