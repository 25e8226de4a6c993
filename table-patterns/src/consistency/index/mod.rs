//! Secondary indexes: entries derived from entities and kept consistent with the entities.
//!
//! # Problem
//! A table has one order: the order of its keys. A query by another property needs index entries, and every
//! write of an entity must change its entries too, whatever process crashes between two requests.
//!
//! # Key layout
//!
//! | [`Shape`] | row | holds |
//! |---|---|---|
//! | `Row` | the key from the index, which includes the entity's key | payload, `IndexName` (the index's [id](Index::id)), `OwnerPartition`, `OwnerRow` |
//! | `Row` of a unique index, remote | as `Row` | also `OwnerWrite`, `OwnerPending`, and during a move `HeirPartition`, `HeirRow` |
//! | `List` | the key from the index, one row for each value | `List0`, `List1`, …: references; or `ListChunks0`, …: the names of the chunks with the references; or `ListBlob`: the name of the blob with the references |
//! | a list's chunk | the list's PartitionKey, `~~l_` + id | `List0`, …, and `ListOf`: the list's RowKey |
//! | `Blob` | as `List` | `ListBlob`; the blob is `{table}-{id of the table}/{index}/{id}` |
//! | `Summary` | the key from the index, in the entity's partition | `Count`, and `Sum…` for each property |
//! | `Copy` | an entity: the key from the index | the entity's own properties, and the copied properties with their prefix |
//! | an index in the manifest | PartitionKey `~~manifest`, `index~` + type + `~` + id | definition, state, progress of a build |
//! | a type in the manifest | `~~manifest`, `type~` + type | the latest version of its schema |
//! | a process in the manifest | `~~manifest`, `process~` + id | cache time, longest request, lease and heartbeat of a process that writes the table |
//! | the table's row in the manifest | `~~manifest`, `table` | the longest cache time, request and lease of processes without a row; whether a program writes entities of any type; the table's id in the blob store |
//! | the manifest's row of scrubs | `~~manifest`, `scrub` | when an [upkeep](crate::upkeep) last scrubbed the indexes |
//! | pairing id | `~~manifest`, `pairing` | a random id of the table, which consents name |
//! | consent | `~~manifest`, `consent~{table}~{SHA-256}` in a table with entries of another | the table of the entities and its pairing id |
//!
//! References are keys in the order of the service. Each omits the bytes that it shares with the key before;
//! the first byte of a list names the format (1). The encoding is the same in a row, in a chunk and in a blob.
//!
//! # Guarantees
//! Local entries change with their entity in one group transaction. A list in the entity's partition is read,
//! then written in that group under its ETag; the write starts again after a conflict. Remote entries follow by
//! the protocol of [`journal`](crate::journal). A lookup in a list reads the entities and omits entities that
//! have left the list. Blobs are immutable: a row names the valid blob, and the row's ETag decides between two
//! writers. A crash can leave blobs that no row names; [`IndexedEntities::collect_blobs`] deletes these. The
//! numbers of a summary are exact. A summary in another partition could add a number twice, so its definition
//! is refused.
//!
//! # Life cycle
//! | task | call |
//! |---|---|
//! | add an index to a table with data | [`open`](IndexedEntities::open) with the index, then [`build`](IndexedEntities::build) |
//! | read by an index without writing | [`open_to_read`](IndexedEntities::open_to_read) |
//! | find and repair dangling and missing entries | [`scrub`](IndexedEntities::scrub); page by page [`scrub_page`](IndexedEntities::scrub_page) |
//! | recreate an index | [`rebuild`](IndexedEntities::rebuild) |
//! | change a definition | `open` with the new definition, `build`, then `drop_index` with the earlier index's id |
//! | remove an index | [`drop_index`](IndexedEntities::drop_index) by any program; a program without the definition calls [`open_for_upkeep`](IndexedEntities::open_for_upkeep) |
//! | list the indexes of a table | [`declared`](IndexedEntities::declared) |
//!
//! The manifest holds every definition as data, and every writer maintains every index of the manifest. An
//! older program maintains an index that a newer program has declared; a program of one type maintains the
//! indexes of other types. Two definitions with one name are two *generations*. Both are maintained until one
//! is dropped; their keys must start with different text. A writer cannot maintain an index whose keys need a
//! Rust function that the program lacks, or whose definition has a newer format. Such a writer refuses writes
//! of the index's entities before it sends a request. Reads go on.
//!
//! While a unique index is declared and not readable, no process can decide which entity has a value. Writes
//! that give an entity a value of the index are refused; writes that keep or remove a value go on. A build over
//! entities that share values lists all of them
//! ([`DuplicateValues`](table_core::store::ErrorKind::DuplicateValues)). The next build starts at the first
//! window with duplicates.
//!
//! A change of an index's state waits until every writer knows the state. In a store that only this process
//! writes, the wait ends with the writes under way. In any other store, the wait takes the longest cache time
//! plus the longest request of the processes that the manifest registers ([`IndexOptions::cache`]). A process
//! that has ended counts until its row was unchanged for its heartbeat. [`Waiting`] names the reason of a wait,
//! the slowest process and the latest end.
//!
//! # Failure windows
//! Local entries: none. Remote entries: the windows of the [`journal`](crate::journal#failure-windows). An
//! entity that is added after the source of its copies has no copies until a scrub. An entity of another table
//! loses its copies when a writer of that table replaces it, until a scrub: that writer does not know the
//! copies.
//!
//! A [`Table`](crate::Table) of a program without the index maintains it from 30 seconds after the declaration on, at the latest; the build of a
//! type's first index waits for that. An `open` that is the first of its type does not wait: no program without the index may write the type until
//! 90 seconds later. A table that is [ignoring indexes](crate::Table::ignoring_indexes), a store that is `unmanaged()`, and clients of other libraries
//! do not read the manifest: they leave entries missing and stale until a scrub. Stop them before [`build`](IndexedEntities::build).
//!
//! # Cost in requests
//!
//! | | row | list, summary, copy | blob |
//! |---|---|---|---|
//! | write, local entry | 0 more than the entity's group | 1 read for each row changed | the same, and 1 blob read, written, deleted |
//! | write, remote entry | see [`journal`](crate::journal#cost-in-requests) | 2 for each row changed, instead of 1 for each partition | the same, and 1 blob read, written, deleted |
//! | lookup of n entities | 1 with a payload, 1 + n by references | 1 + n; 1 + 1 with a range query; a summary or copy 1 | 1 + 1 blob + n |
//!
//! A list that does not fit one entity costs a lookup 1 request for each chunk, sent in parallel. A write costs
//! 1 read and 1 operation more for each chunk that it changes.
//!
//! # Limits and when not to use it
//! A change of a list writes the whole list entity, up to 1 MiB. Keep a value that thousands of entities share
//! and that changes often in rows. Writers of one process take turns at the lists and summaries of an entity's
//! partition. Writers of several processes conflict at the ETag; divide a hot list or summary by a hash in its
//! key. Blobs and lists hold references only.
//!
//! # Where to read
//! [`IndexedEntities`] is the facade. Each of these types does one kind of work, and has the parts that it uses as fields:
//!
//! | module | type | work |
//! |---|---|---|
//! | `consistency/entry` | [`Index`], `SharedRows` | how an entity becomes entries, and the rows that several entities share |
//! | `states` | `IndexSet`, `Waits` | how a process learns the indexes and their states, how other processes learn of the process, and the waits of a change of state |
//! | `open` | `Opening` | the registration of a program, and the first declaration of its indexes |
//! | `consent` | functions | the consents of other tables to definitions of this one |
//! | `rows` | `IndexedRows` | reads of the rows of entities and of indexes |
//! | `lookup` | `Pages`, `Lists`, `MergedLookup`, `Lookups` | from a query of an index to entities |
//! | `changes` | `EntityChanges` | writes, read-modify-write, moves, the removal of due entities that are in the way of a write |
//! | `bulk` | `GroupedInserts` | writes of many entities |
//! | `build` | [`IndexBuild`], `Windows` | filling an index |
//! | `scrub` | `Scrub`, `SharedScrub`, `Recount` | comparing an index with its entities |
//! | `drop` | `IndexDrop`, `Removal` | ending an index and removing its rows |
//! | `upkeep` | `UpkeepManifest` | what upkeep reads in the manifest |
//! | `table` | [`Table`](crate::Table) | the same for a Rust type |
//!
//! The reasons of the waiting rules are in `docs/manifest.md`; `docs/proof.md` lists the schedules that tests
//! search; `docs/indexes.md` shows when to use which index.

mod build;
mod bulk;
mod changes;
mod consent;
mod drop;
mod entities;
pub(crate) mod exposure;
mod lookup;
pub(crate) mod open;
mod options;
mod rows;
mod scrub;
pub(crate) mod set;
pub(crate) mod states;
mod stored;
mod upkeep;

pub use self::build::{BuildProgress, IndexBuild};
pub use self::bulk::BulkInsert;
pub(crate) use self::changes::{MAX_CLAIMS, due_row};
pub use self::entities::IndexedEntities;
pub use self::lookup::{IndexQuery, Trust};
pub use self::options::IndexOptions;
pub use self::scrub::{ScrubCursor, ScrubMode, ScrubReport};
pub(crate) use self::set::change;
pub(crate) use self::states::manifest::refused_rows;
pub use self::states::processes::ProcessId;
pub use self::states::waiting::{Waiting, WaitingFor};
pub use self::stored::Stored;
pub(crate) use self::upkeep::{Obstacle, UpkeepManifest, UpkeepTable};
pub use super::entry::{
    Entry, Index, Location, Maintainer, Overflow, Payload, Permission, Placement, Recorded, Shape,
    Summary, Uniqueness,
};
pub use table_core::manifest::{EntityType, IndexDefinition, IndexState, StoredIndex};
pub use table_core::model::Shards;

#[cfg(test)]
mod tests;
