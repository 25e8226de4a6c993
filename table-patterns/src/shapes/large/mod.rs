//! Large entities: chosen fields that outgrow a row are kept in blobs, and come back by themselves.
//!
//! # Problem
//! An entity holds 1 MiB, a property 64 KiB. A document, a picture or a file does not fit, and would
//! be read with every query if it did. It belongs in a blob store, but then two stores must agree.
//!
//! Mark a `String` or `Vec<u8>` field with `#[large]`, or `#[large(over = 4096)]`, and open the table with
//! [`LargeTable`]: a value of more bytes than that (32,768 unless said otherwise) goes to the blob store,
//! a smaller one stays in the row. [`Table`](table_core::typed::Table) refuses such a type.
//!
//! # Key layout
//! The row is the entity's own. A property that moved out holds a *reference* of the other type, so that nobody
//! takes it for the value: a Binary where the field is a String, a String where it is a Binary:
//! `blob1 id=… size=… stored=… sha256=… codec=…`.
//!
//! A blob's name is `{root}/{table}/p{PartitionKey}/r{RowKey}/{property}/{write id}`, escaped. Every write makes a new
//! id: blobs are never changed and never shared, so that **the row alone decides** which one counts.
//!
//! # Guarantees
//! - A write puts its blobs first and the row last; a reader sees the whole old value or the whole new one.
//! - Content is compared with the size and SHA-256 in the row; other bytes are an error, never a value.
//! - Replacing and deleting is bound to the version that was read, so that the blobs removed afterwards are those
//!   that nobody refers to. A reader that was about to fetch one reads the row again.
//! - Streams in and out ([`LargeTable::put_stream`], [`LargeTable::read_stream`]) hold two parts of 8 MiB
//!   in memory at most.
//!
//! # Indexes
//! A type with `#[index(…)]` is opened by [`LargeTable::open`]: every write, of whatever method, keeps the entries in step by the
//! [`journal`](crate::journal), and [`LargeTable::by`] looks whole entities up. No key, condition or payload of an index has a large
//! field, which does not compile: an entry never names a blob, so that the row alone goes on deciding which one counts, and a
//! collection asks no index. Blobs come before the write of row and entries, and those of the old row go after it; a write that is refused,
//! for a unique value that is taken for example, removes what it has put.
//!
//! # Failure windows
//! A process that dies, or an answer that is lost, can leave blobs without a row: never a row without its
//! blob. [`LargeTable::collect`] removes them. It leaves blobs alone that are younger than a grace period, by the clock
//! of the blob store, since their row may be on its way; a write that takes longer than
//! [`LargeOptions::write_deadline`] between its first blob and its row is given up, by the longer of what
//! the system's clock and one that nobody can set say. **The grace period must
//! be longer than that deadline** and than the longest time a request to the table can be under way.
//!
//! [`LargeTable::delete_table`] drops a table with its blobs; one that dies is run again. Dropped by the store alone, a
//! table leaves all of its blobs, which it removes, too. An index whose entries are in another table is dropped first.
//!
//! The same holds for a machine that dies if the blob store has on disk what it acknowledged, as services have. **Local
//! files do not by themselves**: open them as `LocalFileSystem::new_with_prefix(…)?.with_fsync(true)`, or a loss of
//! power can leave a row without its blob. A process that dies while it writes a local file leaves a part of it in
//! `…#1`, `…#2`, beside the blob: no listing shows these. [`LargeOptions::with_local_files`] says where they are, and
//! collections remove those that are older than the grace period. In S3, parts of an upload that was cut short are
//! removed by a life-cycle rule.
//!
//! # Cost in requests
//!
//! | call | table | blob store |
//! |---|---|---|
//! | insert | 1 | 1 per large value up to 8 MiB; above, 1 per 8 MiB and 2 more |
//! | get, a row of a query | 1 (a page) | 1 per large value; a count none |
//! | replace, update, upsert, insert_or_merge, delete | 2 | as insert; 1 delete per value replaced |
//! | put_stream, read_stream | 2, 1 | as above |
//! | collect | 1 per entity with old blobs | 1 per page of names, 1 per orphan, 3 for the clock |
//! | delete_table | 1 | 1 per page of names, 1 per blob |
//! | merge | 2 | none |
//! | move_to | 4, within a partition 3, by the journal as [there](crate::journal#cost-in-requests) | as insert, a read of each large value, 1 delete per value here and replaced there |
//! | any write of a type with indexes | as above, and what the [`journal`](crate::journal#cost-in-requests) adds | as above |
//! | by | 1 per page of entries, 1 per entity | 1 per large value |
//! | scrub | 1 per page of rows | 1 per large value |
//! | rewrite | 1 per page of rows, 1 merge per row with a blob that is rewritten | 1 per large value; 1 read, 1 write as for insert, 1 delete for each that is rewritten |
//!
//! # Keys of a codec
//! Rows and blobs of a codec that encrypts are under keys of their own. Before a key is dropped, [`LargeTable::rewrite`]
//! writes the blobs anew that are under it, and counts how many are under which.
//!
//! # Limits, and when not to use it
//! A key, escaped, has at most 199 bytes in each part (upper-case letters and signs count three). One directory
//! of blobs belongs to one table of one store: another store with the same table would take its blobs for orphans.
//! Large fields cannot be compared in filters, patched, projected or indexed. A type with them is neither wide nor spread. Keep their names and types from one schema
//! version to the next: an older entity could not be read otherwise, though its blobs stay. Several types of one table
//! share its directory: [`LargeTable::collect`] of any of them looks after the blobs of all, [`LargeTable::scrub`]
//! only after its own. Copies and deletions in [`bulk`](crate::bulk) know rows, no blobs: see there. A marked (`#[encrypt]`) large field needs a [`BlobCodec`] that encrypts. Values of some
//! 10 KiB that are always read with the row are cheaper inline; many properties are a wide entity.

mod codec;
mod collect;
mod commit;
mod elsewhere;
pub(crate) mod entity_writer;
mod indexed;
mod lookup;
mod moves;
mod options;
mod place;
mod query;
mod read;
mod reference;
mod rewrite;
mod rewrite_row;
mod row;
mod scrub;
mod staging;
mod stream;
mod table;
mod upgrade;
mod values;

pub use crate::blobs::ByteStream;
pub use codec::{BlobCodec, BlobContext, BlobKey, PlainBlobs};
pub(crate) use collect::Collection;
pub use collect::{CollectMode, Collected};
pub(crate) use elsewhere::BlobStores;
pub use lookup::LargeLookup;
pub use options::LargeOptions;
pub use query::LargeQuery;
pub(crate) use reference::{in_a_blob, names_in_blobs};
pub use rewrite::{LargeRewrite, LargeRewritten, UnreadableBlob};
pub use row::LargeRow;
pub(crate) use row::filled;
pub use scrub::{LargeScrub, MissingBlob};
pub use stream::LargeContent;
pub use table::LargeTable;
pub(crate) use values::{LargeValues, NewBlobs};

#[cfg(test)]
mod tests;
