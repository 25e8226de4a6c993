//! Every public future is `Send`: this compiles, and nothing of it but the list of names is run.

#![allow(dead_code, clippy::let_unit_value)]

#[path = "../../tests/support/public_async.rs"]
mod public_async;

use public_async::{any, check_calls, send};
use std::sync::Arc;

use futures_util::stream::BoxStream;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Ticks};
use table_core::prelude::*;
use table_core::store::Result;
use table_core::typed::{LargeField, OneEntry};
use table_patterns::bulk::{
    self, Backup, BackupJob, BulkWriter, CopyJob, InsertAll, PreparedBackup, PreparedCopy,
    PreparedRestore, RestoreJob, StoreCopy,
};
use table_patterns::changes::{ChangeHandler, Changes, Consumer};
use table_patterns::compound::Compound;
use table_patterns::eventual::Coordinator;
use table_patterns::examination::Examination;
use table_patterns::heterogeneous::{self, Resolver};
use table_patterns::index::{IndexBuild, IndexedEntities, Stored};
use table_patterns::journal::{Journal, Recovery};
use table_patterns::large::LargeRewrite;
use table_patterns::log_blobs::LogWriter;
use table_patterns::log_tail::LogTail;
#[cfg(feature = "paging")]
use table_patterns::paging::Pager;
use table_patterns::queue::TableQueue;
use table_patterns::relationship::{JoinCache, Link, Relation};
use table_patterns::series::{DataSeries, Days};
use table_patterns::spread::{SpreadQuery, SpreadTable};
use table_patterns::table::{Lookup, StoredQuery};
use table_patterns::time_slices::{SliceQuery, TimeSlices};
use table_patterns::upkeep::Upkeep;
use table_patterns::wide::{Wide, WideEntities, WideQuery, WideTable};
use table_patterns::{Group, Table};

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Row")]
#[index(value, row_key = "value_{value}_{r}")]
struct Row {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
    value: Option<i32>,
}

#[derive(Clone, Debug, TableEntity)]
struct Plain {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
}

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Note")]
#[index(value, row_key = "value_{value}_{r}")]
struct Note {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
    value: Option<i32>,
    #[expires]
    until: Option<Ticks>,
    #[deleted_at]
    deleted: Option<Ticks>,
}

type NoteKey = EntityKey<Note>;
type RowKey = EntityKey<Row>;
type PlainKey = EntityKey<Plain>;

fn soft_deletion(
    (indexed, wide): (&Table<Note>, &WideTable<Note>),
    (spread, slices): (&SpreadTable<Note>, &TimeSlices<Note>),
) {
    send(indexed.soft_delete(any::<NoteKey>()));
    send(indexed.restore(any::<NoteKey>()));
    send(wide.soft_delete(any::<NoteKey>()));
    send(wide.restore(any::<NoteKey>()));
    send(spread.soft_delete(any::<NoteKey>()));
    send(spread.restore(any::<NoteKey>()));
    send(slices.soft_delete(any(), any::<NoteKey>()));
    send(slices.restore(any(), any::<NoteKey>()));
    send(slices.drop_expired());
}

fn backups(create: &BackupJob, restore: &RestoreJob) {
    send(Backup::open(any()));
    send(create.run());
    send(create.prepare());
    send(any::<PreparedBackup<'_>>().run());
    send(RestoreJob::open(any(), any::<MemoryStore>()));
    send(restore.faults());
    send(restore.definitions());
    send(restore.run());
    send(restore.prepare());
    send(any::<PreparedRestore<'_>>().run());
}

fn bulk_work(
    writer: &BulkWriter,
    job: &CopyJob,
    (copy, prepared): (&StoreCopy, &PreparedCopy<'_>),
    inserts: InsertAll<'_>,
) {
    send(job.is_begun());
    send(writer.write(any::<BoxStream<'static, Result<(TableName, Operation)>>>()));
    send(job.run());
    send(job.verify());
    send(copy.run());
    send(copy.verify());
    send(copy.prepare());
    send(prepared.run());
    send(prepared.verify());
    send(inserts.into_future());
    send(bulk::compare_tables(
        any::<(MemoryStore, _)>(),
        any::<(MemoryStore, _)>(),
    ));
    send(bulk::delete_partition(
        any::<MemoryStore>(),
        any(),
        any(),
        any(),
    ));
    send(bulk::delete_where(
        any::<MemoryStore>(),
        any(),
        any(),
        any(),
        any(),
    ));
}

fn coordinators(coordinator: &Coordinator) {
    send(Coordinator::open(any::<MemoryStore>(), any(), any(), any()));
    send(coordinator.submit(any(), any()));
    send(coordinator.status(any()));
    send(coordinator.wait(any(), any()));
    send(coordinator.run_once(any()));
    send(coordinator.run(any(), any(), std::future::pending()));
    send(coordinator.poison(any()));
    send(coordinator.requeue(any()));
    send(coordinator.discard(any()));
    send(coordinator.sweep(any()));
}

fn journals(journal: &Journal, recovery: &Recovery<'_>) {
    send(journal.write(any(), any()));
    send(journal.recover(any(), any()));
    send(journal.sweep(any(), any()));
    send(journal.flush());
    send(recovery.run_once(any()));
    send(recovery.run(any(), any(), std::future::pending()));
    send(recovery.poison(any()));
    send(recovery.requeue(any()));
}

fn upkeep(upkeep: &Upkeep, examination: &Examination) {
    send(examination.run());
    send(upkeep.run(std::future::pending()));
    send(upkeep.run_once());
}

fn indexed_entities(entities: &IndexedEntities, build: IndexBuild<'_>) {
    send(IndexedEntities::open(
        any::<MemoryStore>(),
        any(),
        any(),
        any(),
    ));
    send(IndexedEntities::open_to_read(
        any::<MemoryStore>(),
        any(),
        any(),
        any(),
    ));
    send(IndexedEntities::open_for_upkeep(
        any::<MemoryStore>(),
        any(),
        any(),
    ));
    send(any::<IndexedEntities>().declared());
    send(entities.refresh());
    send(entities.flush());
    send(entities.get(any()));
    send(entities.get_existing(any()));
    send(entities.find(any(), any(), any()));
    send(entities.page(any(), any(), any(), any()));
    send(entities.all(any(), any(), any()));
    send(entities.all_merged(any(), any(), any(), any()));
    send(entities.references(any(), any()));
    send(entities.list(any(), any()));
    send(entities.list_by_range(any(), any()));
    send(entities.summary(any(), any()));
    send(entities.summaries(any(), any()));
    send(entities.collect_blobs(any()));
    send(entities.write(any()));
    send(entities.insert(any()));
    send(entities.replace(any(), any()));
    send(entities.delete(any()));
    send(entities.upsert(any()));
    send(entities.move_to(any(), any(), any()));
    send(entities.modify(any(), |_: Option<&Entity>| Ok(None)));
    send(entities.scrub(any(), any()));
    send(entities.scrub_page(any(), any(), any(), any()));
    send(entities.trust_index(any()));
    send(entities.drop_index(any()));
    send(entities.drop_index_with(any(), |_| ()));
    send(entities.rebuild(any()));
    send(build.run());
}

fn tables(table: &Table<Row>, group: Group<Row>) {
    send(table.declare());
    send(table.schema_diff());
    send(table.entities());
    send(table.delete_table_if_exists());
    send(table.get_stored(any::<RowKey>()));
    send(table.get_existing_stored(any::<RowKey>()));
    send(table.get_as::<Row>(any::<RowKey>()));
    send(table.get_many(any::<Vec<RowKey>>()));
    send(table.delete_entity(any()));
    send(table.flush());
    send(table.upgrade_all());
    send(table.get(any::<RowKey>()));
    send(table.get_existing(any::<RowKey>()));
    send(table.insert(any()));
    send(table.upsert(any()));
    send(table.insert_or_merge(any()));
    send(table.replace(any()));
    send(table.replace_if(any(), any::<IfMatch>()));
    send(table.replace_stored(any(), any()));
    send(table.update_stored(any::<&mut Stored<Row>>(), |_: &mut Row| Ok(())));
    send(table.update(any::<RowKey>(), |_: &mut Row| Ok(())));
    send(table.merge(any::<RowKey>(), any(), any::<IfMatch>()));
    send(table.delete(any::<RowKey>(), any::<IfMatch>()));
    send(table.delete_if_exists(any::<RowKey>()));
    send(table.delete_stored(any()));
    send(table.move_to(any::<RowKey>(), any(), any::<RowKey>()));
    send(group.commit());
}

fn lookups(lookup: &Lookup<Row>, one: &Lookup<Row, Row, OneEntry>, stored: &StoredQuery<Row>) {
    send(lookup.page(any()));
    send(lookup.all());
    send(lookup.first());
    send(lookup.count());
    send(lookup.summary());
    send(lookup.summaries());
    send(lookup.readable_page(any()));
    send(one.get());
    send(stored.page(any()));
    send(stored.all());
    send(stored.first());
    send(stored.count());
}

#[cfg(feature = "paging")]
fn pages(pager: &Pager, query: &SpreadQuery<Plain>) {
    send(pager.page(query, any(), any()));
}

fn feeds(changes: &Changes, consumer: &Consumer, handler: &dyn ChangeHandler) {
    send(changes.partitions());
    send(changes.after(any(), any()));
    send(changes.trim(any(), any()));
    send(consumer.deliver(any(), handler));
    send(consumer.run_once(handler));
    send(consumer.run(handler, any(), std::future::pending()));
}

fn large_values(table: &Table<Plain>, rewrite: &mut LargeRewrite<Plain>) {
    let content = any::<BoxStream<'static, Result<bytes::Bytes>>>();
    send(table.put_stream(
        any::<PlainKey>(),
        any::<LargeField<Plain>>(),
        content,
        any::<IfMatch>(),
    ));
    send(table.read_stream(any::<PlainKey>(), any::<LargeField<Plain>>()));
    send(table.collect_blobs(any(), any()));
    send(table.scrub_blobs());
    send(rewrite.step());
    send(rewrite.run());
}

fn wide_entities(entities: &WideEntities, table: &WideTable<Plain>) {
    send(entities.create_if_missing());
    send(entities.get(any()));
    send(entities.insert(any()));
    send(entities.get_existing(any()));
    send(entities.replace(any()));
    send(entities.replace_if(any(), any::<IfMatch>()));
    send(entities.replace_stored(any::<&Wide<Entity>>(), any()));
    send(entities.set(any(), any(), any::<i32>()));
    send(entities.upsert(any()));
    send(entities.update(any(), |_| Ok(())));
    send(entities.delete(any(), any::<IfMatch>()));
    send(entities.delete_stored(any::<&Wide<Entity>>()));
    send(entities.delete_if_exists(any()));
    send(entities.move_to(any(), any(), any()));
    send(table.upgrade_all());
    send(table.create_if_missing());
    send(table.get(any::<PlainKey>()));
    send(table.get_existing(any::<PlainKey>()));
    send(table.insert(any()));
    send(table.insert_or_merge(any()));
    send(table.replace(any()));
    send(table.replace_if(any(), any::<IfMatch>()));
    send(table.replace_stored(any(), any()));
    send(table.upsert(any()));
    send(table.merge(any::<PlainKey>(), any(), any::<IfMatch>()));
    send(table.update(any::<PlainKey>(), |_: &mut Plain| Ok(())));
    send(table.delete(any::<PlainKey>(), any::<IfMatch>()));
    send(table.delete_stored(any()));
    send(table.delete_if_exists(any::<PlainKey>()));
    send(table.move_to(any::<PlainKey>(), any(), any::<PlainKey>()));
}

fn partition_queries(spread: &SpreadQuery<Plain>, wide: &WideQuery<Plain>) {
    send(spread.page(any()));
    send(spread.delete());
    send(spread.update(|_: &mut Plain| Ok(())));
    send(wide.delete());
    send(wide.update(|_: &mut Plain| Ok(())));
    send(spread.all());
    send(spread.first());
    send(spread.count());
    send(wide.page(any()));
    send(wide.readable_page(any()));
    send(spread.readable_page(any()));
    send(wide.all());
    send(wide.first());
    send(wide.count());
}

fn spread_tables(table: &SpreadTable<Plain>) {
    send(table.upgrade_all());
    send(table.create_if_missing());
    send(table.get(any::<PlainKey>()));
    send(table.get_existing(any::<PlainKey>()));
    send(table.insert(any()));
    send(table.upsert(any()));
    send(table.replace(any()));
    send(table.replace_if(any(), any::<IfMatch>()));
    send(table.update(any::<PlainKey>(), |_: &mut Plain| Ok(())));
    send(table.delete(any::<PlainKey>(), any::<IfMatch>()));
    send(table.insert_or_merge(any()));
    send(table.merge(any::<PlainKey>(), any(), any::<IfMatch>()));
    send(table.delete_if_exists(any::<PlainKey>()));
    send(table.move_to(any::<PlainKey>(), any(), any::<PlainKey>()));
    send(table.migrate());
}

fn slices(slices: &TimeSlices<Plain>, query: &SliceQuery<Plain>) {
    send(slices.upgrade_all());
    send(slices.insert(any()));
    send(slices.upsert(any()));
    send(slices.insert_or_merge(any()));
    send(slices.replace(any()));
    send(slices.replace_if(any(), any::<IfMatch>()));
    send(slices.merge(any(), any::<PlainKey>(), any(), any::<IfMatch>()));
    send(slices.update(any(), any::<PlainKey>(), |_: &mut Plain| Ok(())));
    send(slices.delete(any(), any::<PlainKey>(), any::<IfMatch>()));
    send(slices.delete_if_exists(any(), any::<PlainKey>()));
    send(slices.move_to(any(), any::<PlainKey>(), any(), any::<PlainKey>()));
    send(slices.get(any(), any::<PlainKey>()));
    send(slices.get_existing(any(), any::<PlainKey>()));
    send(slices.table_for(any()));
    send(slices.slices());
    send(slices.drop_before(any()));
    send(slices.expired(any(), any()));
    send(slices.retain(any(), any()));
    send(query.delete());
    send(query.update(|_: &mut Plain| Ok(())));
    send(query.page(any()));
    send(query.readable_page(any()));
    send(query.first());
    send(query.count());
    send(query.all());
}

fn series(series: &DataSeries<Days, i64>) {
    send(series.create_if_missing());
    send(series.set(any(), any(), any()));
    send(series.set_many(any(), Vec::new()));
    send(series.get(any()));
    send(series.get_slot(any(), any()));
    send(series.modify(any(), any(), |_| Ok(1)));
    send(series.add(any(), any(), any()));
    send(series.clear(any(), any()));
    send(series.delete(any()));
}

fn logs(tail: &LogTail<Properties>, writer: &LogWriter, closed: LogWriter) {
    send(tail.create_if_missing());
    send(tail.append(any()));
    send(tail.append_at(any::<Ticks>(), any()));
    send(tail.append_as(any(), any()));
    send(tail.latest(any()));
    send(tail.page(any(), any()));
    send(tail.get(any()));
    send(writer.append(any::<&String>()));
    send(writer.append_fields(any::<&[String]>()));
    send(writer.flush());
    send(closed.close());
}

fn relationships(
    cache: &JoinCache<Plain>,
    link: &Link<Plain>,
    relation: &Relation<Plain, Plain, PlainKey>,
) {
    send(cache.get(any::<PlainKey>()));
    send(cache.join(any::<Vec<u32>>(), |_: &u32| any::<Result<PlainKey>>()));
    send(cache.load(any()));
    send(link.follow(any()));
    send(Link::follow_all(any::<&[Link<Plain>]>(), any()));
    send(relation.of(any()));
    send(relation.of_all(any()));
}

fn others(compound: &Compound<Plain>, resolver: &Resolver<Plain>) {
    send(compound.all());
    send(compound.delete());
    send(resolver.all(any()));
    send(heterogeneous::modify(any::<&Table<Plain>>(), any(), |_| {
        Ok(Properties::new())
    }));
    send(TableQueue::open(any::<Arc<dyn TableStore>>(), any(), any()));
    send(TableQueue::open_with(
        any::<Arc<dyn TableStore>>(),
        any(),
        any(),
        any(),
    ));
}

#[test]
fn every_public_async_function_is_called_here() {
    check_calls(
        concat!(env!("CARGO_MANIFEST_DIR"), "/src"),
        include_str!("send.rs"),
    );
}
