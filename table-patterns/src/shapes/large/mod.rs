//! Large entities: the values of chosen fields are stored in blobs if they are large.
//!
//! # Problem
//! An entity has at most 1 MiB, a property 64 KiB. A document or a picture does not fit, and every query would read it.
//! Such a value belongs in a blob store, but then the row and the blob must stay consistent.
//!
//! Mark a `String` or `Vec<u8>` field with `#[large]` or `#[large(over = 4096)]`, and give the [`Database`](crate::Database) a blob store:
//! [`with_blobs`](crate::Database::with_blobs). Its [`Table`](crate::Table) then reads and writes whole entities.
//! A value with more bytes than the bound (32,768 by default) goes to the blob store; a smaller value stays in the row.
//! A database without a blob store refuses such a type.
//!
//! # Key layout
//! The row has the entity's own key. A property whose value is in a blob holds a *reference*
//! `blob1 id=… size=… stored=… sha256=… codec=…`. The reference has the other type than the field, so that no program
//! takes it for the value: Binary for a String field, String for a Binary field.
//!
//! A blob's name is `{root}/{table}/p{PartitionKey}/r{RowKey}/{property}/{write id}`, escaped. Every write makes a new id.
//! Blobs are never changed and never shared, so **the row alone decides** which blob is valid.
//!
//! # Guarantees
//! - A write stores the blobs first and the row last: a reader sees the whole old value or the whole new value.
//! - A read compares the content with the size and the SHA-256 hash in the row; different content is an error.
//! - A replacement or deletion is conditional on the version that was read, so that it removes only blobs without a row
//!   that refers to them. A reader whose blob was removed reads the row again.
//! - Streams ([`Table::put_stream`], [`Table::read_stream`]) have at most two parts of 8 MiB in memory.
//!
//! # Indexes
//! [`Table::by`](crate::Table::by) looks up whole entities. An index with a large field in its key, condition or
//! payload does not compile: no index entry refers to a blob, so the row alone decides which blob is valid. A write stores
//! its blobs, then writes row and entries, and then removes the old row's blobs. A write that is refused, for example
//! because a unique value is taken, removes the blobs that it has stored.
//!
//! # Failure windows
//! A process that dies, a lost answer, or a blob store that refuses a removal can leave blobs without a row, but never a row without
//! its blob. So can a write that does not know the type of the row: a handle of another type, or code that writes rows of any type.
//! [`Table::collect_blobs`] removes such blobs. The collection ignores blobs that are younger than a grace period by the
//! blob store's clock, because their row may not be written yet. A write fails if more time than
//! [`LargeOptions::write_deadline`] passes between its first blob and its row, measured by the later of the wall clock and
//! the monotonic clock; a request that is under way at this time may still arrive. **The grace period must be longer than the
//! write deadline** and than the longest request to the table.
//!
//! [`Table::delete_table_if_exists`](crate::Table::delete_table_if_exists) deletes a table with its blobs; repeat it if it
//! fails. If the table was deleted by the store alone, the call removes the remaining blobs.
//!
//! The same holds for a machine that dies, if the blob store has its acknowledged blobs on disk, as services do. **Local
//! files need an option for that**: `LocalFileSystem::new_with_prefix(…)?.with_fsync(true)`. Without it, a loss of power
//! can leave a row without its blob. A process that dies while it writes a local file leaves a partial file `…#1`, `…#2`,
//! which no listing shows. [`LargeOptions::with_local_files`] gives the directory, and collections remove partial files
//! that are older than the grace period. In S3, use a life-cycle rule that removes the parts of incomplete uploads.
//!
//! # Cost in requests
//!
//! | call | table | blob store |
//! |---|---|---|
//! | insert | 1 | 1 per large value up to 8 MiB; above, 1 per 8 MiB and 2 more |
//! | get, a row of a query | 1 (per page) | 1 per large value; 0 for a count |
//! | replace, update, upsert, insert_or_merge, delete | 2 | as insert; 1 delete per value replaced |
//! | put_stream, read_stream | 2, 1 | as above |
//! | collect_blobs | 1 per entity with old blobs | 1 per page of names, 1 per orphan, 3 for the clock |
//! | delete_table_if_exists | 1 | 1 per page of names, 1 per blob |
//! | merge | 2 | none |
//! | move_to | 4, within a partition 3, by the journal: see [its costs](crate::journal#cost-in-requests) | as insert, 1 read per large value, 1 delete per value moved or replaced |
//! | any write of a type with indexes | as above, and the requests of the [`journal`](crate::journal#cost-in-requests) | as above |
//! | by | 1 per page of entries, 1 per entity | 1 per large value |
//! | scrub_blobs | 1 per page of rows | 1 per large value |
//! | rewrite_blobs | 1 per page of rows, 1 merge per row with a blob that is rewritten | 1 per large value; 1 read, 1 write as for insert, 1 delete for each that is rewritten |
//!
//! # Keys of a codec
//! A codec that encrypts has its own keys. Before you delete a key, [`Table::rewrite_blobs`] encrypts the blobs under that
//! key with the active key, and counts the blobs under each key.
//!
//! # Limits, and when not to use it
//! - Each part of a key has at most 199 bytes after escaping; upper-case letters and signs count three bytes.
//! - A directory of blobs belongs to one table of one store: a collection of another store with the same table would
//!   remove its blobs.
//! - Large fields cannot be compared in filters, patched, projected or indexed. A type with large fields is neither wide
//!   nor spread.
//! - Keep the names and types of large fields in all schema versions, also of a field that the program does not need any more:
//!   otherwise older entities cannot be read.
//! - While a short text of a large field starts with `blob`, a collection keeps all blobs of this field of the entity.
//! - Several types of one table share a directory: [`Table::collect_blobs`] of one type collects the blobs of all types,
//!   [`Table::scrub_blobs`] checks only its own type.
//! - Deletions in [`bulk`](crate::bulk) ignore blobs, and copies include blobs only on request.
//! - A marked (`#[encrypt]`) large field needs a [`BlobCodec`] that encrypts.
//! - Values of about 10 KiB that are always read with the row cost less in the row. For many properties, use a
//!   [wide entity](crate::wide).

mod collect;
mod rewrite;
mod streams;

use table_core::store::{Error, Result};
use table_core::typed::TableEntity;

use crate::Table;

pub use crate::blobs::{BlobContext, ByteStream};
#[cfg(test)]
pub(crate) use crate::large_values::NewBlobs;
pub(crate) use crate::large_values::remove_blobs;
pub use crate::large_values::{BlobCodec, BlobKey, LargeOptions, PlainBlobs};
use crate::large_values::{EntityWriter, LargeValues};
pub(crate) use collect::Collection;
pub use collect::{CollectMode, Collected, LargeScrub, MissingBlob};
pub use rewrite::{LargeRewrite, LargeRewritten, UnreadableBlob};
pub use streams::LargeContent;

/// The writer of a type with large fields.
fn writer_of<T: TableEntity>(table: &Table<T>) -> Result<&EntityWriter> {
    table.large().map(|writer| &**writer).ok_or_else(|| {
        let (name, of) = (table.name(), T::SCHEMA.rust_name);
        Error::misuse(format!(
            "{of} has no `#[large]` field: open '{name}' with a type that has one"
        ))
    })
}

fn values_of<T: TableEntity>(table: &Table<T>) -> Result<&LargeValues> {
    writer_of(table).map(EntityWriter::values)
}

#[cfg(test)]
mod tests;
