//! Every public future is `Send`: this compiles, and nothing of it but the list of names is run.

#![allow(dead_code, clippy::let_unit_value)]

#[path = "../../tests/support/public_async.rs"]
mod public_async;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use public_async::{any, check_calls, send};
use table_core::adapter::{Faulty, RequestMeter};
use table_core::manifest::Manifest;
use table_core::memory::MemoryStore;
use table_core::model::{ETag, Entity, IfMatch, TableName, Ticks};
use table_core::store::{
    BulkSummary, Conflicts, LocalChange, LocalWriters, MovedCopy, Result, TableStoreExt as _,
};
use table_core::typed::set::{Decision, SetWrite};
use table_core::typed::upgrade::UpgradePage;
use table_core::typed::{
    EntityKey, PlainGroup, PlainTable, SchemaDiff, SerdeTable, TableEntity, TableQuery,
    permit_registered,
};

#[derive(TableEntity)]
struct Row {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
    value: Option<i32>,
    #[etag]
    etag: Option<ETag>,
}

#[derive(TableEntity)]
struct Note {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
    #[deleted_at]
    deleted: Option<Ticks>,
}

type Key = EntityKey<Row>;
type Plain = std::collections::BTreeMap<String, String>;

fn tables(table: &PlainTable<Row>) {
    send(table.create_if_missing());
    send(table.delete_table_if_exists());
    send(table.get(any::<Key>()));
    send(table.get_existing(any::<Key>()));
    send(table.get_versioned(any::<Key>()));
    send(table.get_as::<Row>(any::<Key>()));
    send(table.get_many(any::<Vec<Key>>()));
    send(table.insert(any()));
    send(table.upsert(any()));
    send(table.insert_or_merge(any()));
    send(table.replace(any()));
    send(table.replace_if(any(), any::<IfMatch>()));
    send(table.merge(any::<Key>(), any(), any::<IfMatch>()));
    send(table.update(any::<Key>(), |_: &mut Row| Ok(())));
    send(table.delete(any::<Key>(), any::<IfMatch>()));
    send(table.delete_entity(any()));
    send(table.delete_if_exists(any::<Key>()));
    send(table.move_to(any::<Key>(), table, any::<Key>()));
    send(table.upgrade_all());
    let upgrade = table.upgrade();
    send(upgrade.plan());
    send(upgrade.diff());
    send(upgrade.run());
    send(UpgradePage::of_query(
        any::<&TableQuery<Row, Entity>>(),
        any(),
    ));
    send(table.plain_write());
    send(table.register(any()));
    send(table.write(any()));
}

fn soft_deletion(table: &PlainTable<Note>) {
    send(table.soft_delete(any::<EntityKey<Note>>()));
    send(table.restore(any::<EntityKey<Note>>()));
}

fn queries(query: &TableQuery<Row>, group: PlainGroup<Row>) {
    send(query.all());
    send(query.first());
    send(query.count());
    send(query.page(any()));
    send(query.readable_page(any()));
    send(SchemaDiff::of::<Row>(any()));
    send(query.delete());
    send(query.update(|_: &mut Row| Ok(())));
    send(BulkSummary::of(futures_util::stream::empty()));
    send(query.write_set(|_| Ok(Decision::Ignore)));
    send(group.commit());
}

fn serde_tables(table: &SerdeTable<Plain>) {
    send(table.create_if_missing());
    send(table.get(any::<table_core::model::Key>()));
    send(table.get_existing(any::<table_core::model::Key>()));
    send(table.insert(any()));
    send(table.upsert(any()));
    send(table.insert_or_merge(any()));
    send(table.replace(any()));
    send(table.replace_if(any(), any::<IfMatch>()));
    send(table.merge(
        any::<table_core::model::Key>(),
        any::<&Plain>(),
        any::<IfMatch>(),
    ));
    send(table.update(any::<table_core::model::Key>(), |_: &mut Plain| Ok(())));
    send(table.delete(any::<table_core::model::Key>(), any::<IfMatch>()));
    send(table.delete_if_exists(any::<table_core::model::Key>()));
    send(table.move_to(
        any::<table_core::model::Key>(),
        table,
        any::<table_core::model::Key>(),
    ));
}

fn adapters(faulty: &Faulty<MemoryStore>, meter: &RequestMeter) {
    send(faulty.settle());
    send(meter.measure(std::future::ready(())));
}

fn manifests(
    (store, table): (&MemoryStore, &TableName),
    writers: &LocalWriters,
    change: &LocalChange,
) {
    send(Manifest::load(store, table));
    send(store.manifest(table));
    send(store.plain_write(table));
    send(permit_registered(store, table, Row::SCHEMA, |_| Ok(None)));
    send(writers.until_idle("a build"));
    send(writers.until_follow_ups_end());
    send(change.known());
}

fn conflicts(conflicts: &mut Conflicts, copy: MovedCopy) {
    send(conflicts.wait(any()));
    send(copy.remove_after(any(), |_| std::future::ready(Ok(()))));
    send(conflicts.wait_if(true, any()));
    send(conflicts.wait_to_move_again(any()));
}

type Decide = fn(Entity) -> BoxFuture<'static, Result<Decision>>;

fn sets(write: &SetWrite<'_, Decide, fn(&Entity) -> bool>) {
    send(write.run(any::<BoxStream<'static, Result<Entity>>>()));
}

#[test]
fn every_public_async_function_is_called_here() {
    check_calls(
        concat!(env!("CARGO_MANIFEST_DIR"), "/src"),
        include_str!("send.rs"),
    );
}
