//! Wide entities and wide structs: more properties or bytes than one entity can have.

use std::collections::BTreeMap;
use std::sync::Arc;

use table_core::adapter::{CrashPoint, FaultInjector, Faulty, Metered, RequestMeter};
use table_core::model::{EdmValue, Entity, IfMatch, Key, PartitionKey, Properties, ValueRef};
use table_core::query::Query;
use table_core::store::{OperationKind, TableStore, TableStoreExt};
use table_core::typed::TableEntity;
use table_patterns::Database;
use table_patterns::wide::{WideEntities, WideTable};
use tokio::task::JoinSet;

use super::log_tail::{declare_index_of_alarms, declare_index_of_any};
use crate::wrappers::{SmallPageStore, UnsortedStore};
use crate::{Harness, TestTable};

fn key() -> Key {
    Key::new("JFK", "2013").expect("a legal key")
}

/// Returns an entity with `count` numbers.
fn numbers(count: usize, value: i32) -> Entity {
    let mut properties = Properties::new();
    for n in 0..count {
        properties.push(&format!("P{n:04}"), ValueRef::Int32(value), false);
    }
    Entity::from_parts(key(), properties)
}

fn bag(entity: &Entity) -> BTreeMap<String, EdmValue> {
    entity
        .properties()
        .iter()
        .map(|p| (p.name().to_owned(), p.value().to_owned()))
        .collect()
}

fn open(table: &TestTable, store: Arc<dyn TableStore>) -> WideEntities {
    WideEntities::new(store, table.name().clone())
}

fn metered(table: &TestTable) -> (WideEntities, RequestMeter) {
    let meter = RequestMeter::new();
    (
        open(
            table,
            Arc::new(Metered::new(table.store().clone(), meter.clone())),
        ),
        meter,
    )
}

async fn rows(table: &TestTable) -> usize {
    table
        .store()
        .query_all(table.name(), &Query::new())
        .await
        .expect("rows")
        .len()
}

/// A wide entity of a year of numbers is written by one group and read by one range query. Typed tables do not
/// see its rows.
pub(crate) async fn one_request_writes_and_one_reads_an_entity(harness: &Harness) {
    let table = harness.table().await;
    let (wide, meter) = metered(&table);
    assert!(wide.get(&key()).await.expect("an answer").is_none());
    meter.reset();
    let written = wide.insert(&numbers(365, 1)).await.expect("a new entity");
    assert_eq!(written.rows(), 3);
    assert_eq!(meter.total(), 1);
    assert_eq!(meter.snapshot().of_kind(OperationKind::Transact), 1);
    let (read, cost) = meter.measure(wide.get(&key())).await;
    let read = read.expect("an answer").expect("an entity");
    assert_eq!(cost.total(), 1);
    assert_eq!(cost.of_kind(OperationKind::Query), 1);
    assert_eq!(read.key(), &key());
    assert_eq!(bag(&read), bag(&numbers(365, 1)));
    let error = wide
        .insert(&numbers(1, 1))
        .await
        .expect_err("the row exists");
    assert!(error.to_string().contains("('JFK', '2013')"), "{error}");
    assert!(!error.to_string().contains("~~"), "{error}");
    assert!(error.is_already_exists(), "{error}");
    let unsorted = open(&table, Arc::new(UnsortedStore::new(table.store().clone())));
    assert_eq!(
        bag(&unsorted
            .get(&key())
            .await
            .expect("an answer")
            .expect("an entity")),
        bag(&numbers(365, 1))
    );
    assert!(
        unsorted
            .query()
            .partition(key().partition_key())
            .all()
            .await
            .is_err()
    );
    assert!(
        wide.query()
            .all()
            .await
            .expect_err("no partition")
            .to_string()
            .contains("partition")
    );
    let typed = Database::new(table.store().clone())
        .view::<Entity>(table.name().clone())
        .expect("a table");
    assert_eq!(typed.query().all().await.expect("rows"), []);
}

/// A change of one property writes its row and the head row, by one request, under the version that was read.
pub(crate) async fn a_change_of_one_property_writes_its_row(harness: &Harness) {
    let table = harness.table().await;
    let (wide, meter) = metered(&table);
    let read = wide.insert(&numbers(600, 1)).await.expect("a new entity");
    let before = meter.snapshot();
    let set = wide.set(&read, "P0400", 7).await.expect("a property");
    let cost = meter.since(&before);
    assert_eq!(cost.total(), 1);
    assert_eq!(
        cost.sum(|request| request.kind == OperationKind::Transact)
            .entities,
        2
    );
    let error = wide
        .set(&read, "P0401", 8)
        .await
        .expect_err("the entity was changed");
    assert!(error.is_precondition_failed(), "{error}");
    wide.set(&set, "P0401", 8).await.expect("a property");
    let mut expected = bag(&numbers(600, 1));
    expected.insert("P0400".to_owned(), 7.into());
    expected.insert("P0401".to_owned(), 8.into());
    assert_eq!(
        bag(&wide
            .get(&key())
            .await
            .expect("an answer")
            .expect("an entity")),
        expected
    );

    let (updated, cost) = meter
        .measure(wide.update(&key(), |properties| {
            properties.set("P0000", 9);
            Ok(())
        }))
        .await;
    updated.expect("an update");
    assert_eq!(cost.total(), 2);
}

/// A wide entity gets more rows when it grows and fewer when it shrinks. A deletion removes all rows.
pub(crate) async fn rows_follow_the_size_of_the_entity(harness: &Harness) {
    let table = harness.table().await;
    let (wide, meter) = metered(&table);
    for (count, expected) in [(10, 2), (900, 5), (300, 3), (0, 1), (500, 4)] {
        let (written, cost) = meter.measure(wide.upsert(&numbers(count, 3))).await;
        assert_eq!(written.expect("an entity").rows(), expected, "{count}");
        assert_eq!(cost.total(), 2, "{count}");
        assert_eq!(rows(&table).await, expected, "{count}");
        let read = wide
            .get(&key())
            .await
            .expect("an answer")
            .expect("an entity");
        assert_eq!(bag(&read), bag(&numbers(count, 3)));
    }
    let (removed, cost) = meter.measure(wide.delete_if_exists(&key())).await;
    assert!(removed.expect("the entity existed"));
    assert_eq!(cost.total(), 2);
    assert_eq!(rows(&table).await, 0);
    assert!(
        !wide
            .delete_if_exists(&key())
            .await
            .expect("the table is gone")
    );
}

/// A wide entity of up to 4 MB is written. A larger entity is refused by an error that names large entities,
/// and nothing is written.
pub(crate) async fn entities_larger_than_a_group_are_refused(harness: &Harness) {
    let table = harness.table().await;
    let wide = open(&table, table.store().clone());
    let big = |texts: usize| {
        let names = (0..texts).map(|n| format!("T{n:03}"));
        names.fold(Entity::from(key()), |e, name| {
            e.with(&name, "x".repeat(32 * 1024))
        })
    };
    let written = wide.insert(&big(100)).await.expect("3.2 MB of text");
    assert!(written.rows() > 6, "{}", written.rows());
    assert_eq!(
        wide.get(&key())
            .await
            .expect("an answer")
            .expect("an entity")
            .properties()
            .len(),
        100
    );
    let error = wide.upsert(&big(140)).await.expect_err("4.5 MB of text");
    assert!(error.is_limit_exceeded(), "{error}");
    assert!(error.to_string().contains("large entities"), "{error}");
    let many = numbers(100 * 247, 1);
    let error = wide
        .upsert(&many)
        .await
        .expect_err("a hundred rows and a head");
    assert!(error.is_limit_exceeded(), "{error}");
    assert!(error.to_string().contains("large entities"), "{error}");
    assert_eq!(
        wide.get(&key())
            .await
            .expect("an answer")
            .expect("an entity")
            .properties()
            .len(),
        100
    );
    let error = wide
        .upsert(&Entity::from(key()).with("WideRows", "mine"))
        .await
        .expect_err("a reserved name");
    assert!(error.to_string().contains("WideRows"), "{error}");
}

/// Readers use pages of one row while writers replace all rows or set one property. No reader returns rows of
/// two writes.
pub(crate) async fn readers_never_see_two_writes_mixed(harness: &Harness) {
    let table = harness.table().await;
    let wide = open(&table, table.store().clone()).with_attempts(100_000);
    wide.insert(&numbers(600, 0)).await.expect("a new entity");
    let rounds = harness.scale().tasks as i32;
    let mut writers = JoinSet::new();
    for writer in 1..=2 {
        let wide = wide.clone();
        writers.spawn(async move {
            for round in 1..=rounds {
                let value = writer * 1000 + round;
                let count = if round % 3 == 0 { 200 } else { 600 };
                wide.upsert(&numbers(count, value)).await.expect("a write");
            }
        });
    }
    let paged = open(
        &table,
        Arc::new(SmallPageStore::new(1, table.store().clone())),
    )
    .with_attempts(100_000);
    let mut reads = 0;
    while !writers.is_empty() {
        let read = paged
            .get(&key())
            .await
            .expect("an answer")
            .expect("an entity");
        let values: std::collections::BTreeSet<String> = read
            .properties()
            .iter()
            .map(|p| format!("{:?}", p.value()))
            .collect();
        assert_eq!(values.len(), 1, "a torn read: {values:?}");
        assert!([200, 600].contains(&read.properties().len()));
        reads += 1;
        while let Some(ended) = writers.try_join_next() {
            ended.expect("a writer");
        }
    }
    assert!(reads > 0);
}

/// Rows that do not belong together are an error if no writer is changing them.
pub(crate) async fn rows_that_do_not_belong_together_are_an_error(harness: &Harness) {
    let table = harness.table().await;
    let wide = open(&table, table.store().clone());
    wide.insert(&numbers(300, 1)).await.expect("a new entity");
    let last = Key::new("JFK", "~~w_2013~~002").expect("a legal key");
    table
        .write(table_core::store::Operation::Delete(
            last,
            table_core::model::IfMatch::Any,
        ))
        .await
        .expect("a row");
    let error = wide
        .get(&key())
        .await
        .expect_err("a row of the entity is missing");
    assert!(
        error.to_string().contains("do not belong together"),
        "{error}"
    );
}

/// Random changes to several entities of one partition agree with a map.
pub(crate) async fn entities_agree_with_a_map(harness: &Harness) {
    let table = harness.table().await;
    let wide = open(&table, table.store().clone());
    let mut rng = fastrand::Rng::with_seed(5);
    let keys = ["a", "a~", "a~0", "ab", &"long".repeat(128), ""]
        .map(|row| Key::new("p", row).expect("a key"));
    let mut model: BTreeMap<Key, BTreeMap<String, EdmValue>> = BTreeMap::new();
    for _ in 0..harness.scale().steps.min(300) {
        let key = &keys[rng.usize(..keys.len())];
        match rng.u8(..4) {
            0 => {
                let count = rng.usize(..800);
                let entity = (0..count).fold(Entity::from(key.clone()), |e, n| {
                    e.with(&format!("P{n}"), rng.i32(..))
                });
                model.insert(key.clone(), bag(&entity));
                wide.upsert(&entity).await.expect("an entity");
            }
            1 => {
                assert_eq!(
                    wide.delete_if_exists(key).await.expect("an answer"),
                    model.remove(key).is_some()
                );
            }
            _ => {
                let (name, value) = (
                    format!("P{}", rng.usize(..900)),
                    "y".repeat(rng.usize(..9000)),
                );
                let remove = rng.bool();
                let changed = wide.update(key, |properties| {
                    if remove {
                        properties.remove(&name);
                    } else {
                        properties.set(&name, value.as_str());
                    }
                    Ok(())
                });
                let known = model.get_mut(key);
                assert_eq!(changed.await.is_ok(), known.is_some());
                if let Some(known) = known {
                    if remove {
                        drop(known.remove(&name));
                    } else {
                        drop(known.insert(name, value.into()));
                    }
                }
            }
        }
        let read = wide.get(key).await.expect("an answer");
        assert_eq!(read.map(|read| bag(&read)), model.get(key).cloned());
    }
    for pages in [1, 1000] {
        let paged = open(
            &table,
            Arc::new(SmallPageStore::new(pages, table.store().clone())),
        );
        let partition = PartitionKey::new("p").expect("a legal key");
        let all = paged
            .query()
            .partition(partition)
            .all()
            .await
            .expect("entities");
        let found: BTreeMap<_, _> = all
            .iter()
            .map(|e| (e.value.key().clone(), bag(e)))
            .collect();
        assert_eq!(all.len(), model.len());
        assert_eq!(found, model.clone());
    }
}

/// A write that crashes at any request leaves the entity in its old or its new state.
pub(crate) async fn a_crashed_write_takes_effect_or_not(harness: &Harness) {
    let (old, new) = (bag(&numbers(600, 1)), bag(&numbers(300, 2)));
    let mut crashes = 0;
    for point in CrashPoint::ALL {
        for request in 1.. {
            let table = harness.table().await;
            let healthy = open(&table, table.store().clone());
            healthy
                .insert(&numbers(600, 1))
                .await
                .expect("a new entity");
            let faults = FaultInjector::new(0);
            let crashing = open(
                &table,
                Arc::new(Faulty::new(table.store().clone(), faults.clone())),
            );
            faults.crash_at(request, point);
            let answer = crashing.upsert(&numbers(300, 2)).await;
            let found = bag(&healthy
                .get(&key())
                .await
                .expect("an answer")
                .expect("an entity"));
            assert!(found == old || found == new, "{point:?} at {request}");
            assert!(
                answer.is_err() || found == new,
                "{point:?} at {request}: an acknowledged write is lost"
            );
            assert_eq!(rows(&table).await, if found == new { 3 } else { 4 });
            if !faults.is_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert_eq!(crashes, 4);
}

/// Conflicts with other writers are reported for the entity, not for its stored rows.
pub(crate) async fn conflicts_name_the_entity(harness: &Harness) {
    let table = harness.table().await;
    let wide = open(&table, table.store().clone());
    let first = wide.insert(&numbers(365, 1)).await.expect("a new entity");
    let second = wide
        .replace_stored(&first, &numbers(365, 2))
        .await
        .expect("the version that was read");
    let replaced = wide
        .replace_stored(&first, &numbers(365, 3))
        .await
        .expect_err("another writer changed the entity");
    assert!(replaced.is_precondition_failed(), "{replaced}");
    let deleted = wide
        .delete_stored(&first)
        .await
        .expect_err("another writer changed the entity");
    assert!(deleted.is_precondition_failed(), "{deleted}");
    wide.delete_stored(&second)
        .await
        .expect("the version that was read");
    let gone = wide
        .replace_stored(&second, &numbers(365, 3))
        .await
        .expect_err("the table is gone");
    assert!(gone.is_entity_not_found(), "{gone}");
    for error in [replaced, deleted, gone] {
        let said = error.to_string();
        assert!(said.contains("('JFK', '2013')"), "{said}");
        assert!(!said.contains("~~"), "{said}");
    }
}

/// Writes succeed if an index is of another type. An index of entities of any type makes the table refuse each
/// write without a change.
pub(crate) async fn writes_are_refused_over_an_index_of_any_type(harness: &Harness) {
    let table = harness.table().await;
    let wide = open(&table, table.store().clone());
    declare_index_of_alarms(table.store(), table.name()).await;
    wide.insert(&numbers(365, 1))
        .await
        .expect("an index of another type");
    wide.upsert(&numbers(365, 2)).await.expect("the same");
    declare_index_of_any(table.store(), table.name()).await;
    let refused = [
        wide.upsert(&numbers(365, 3)).await.map(drop),
        wide.delete(&key(), IfMatch::Any).await,
        wide.delete_if_exists(&key()).await.map(drop),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let error = refused
            .expect_err("an index of any type refuses the append")
            .to_string();
        assert!(error.contains("'amount."), "write {number}: {error}");
    }
    let left = wide
        .get(&key())
        .await
        .expect("an answer")
        .expect("an entity");
    assert_eq!(bag(&left), bag(&numbers(365, 2)));
}

macro_rules! form {
    ($($field:ident)*) => {
        /// A form of 260 fields.
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        #[entity(wide, type = "Form")]
        struct Form {
            #[partition_key]
            office: String,
            #[row_key]
            number: u32,
            $($field: Option<i32>,)*
            #[etag]
            etag: Option<table_core::model::ETag>,
        }

        impl Form {
            fn empty(office: &str, number: u32) -> Self {
                Self { office: office.to_owned(), number, $($field: None,)* etag: None }
            }
        }
    };
}

form! {
    f000 f001 f002 f003 f004 f005 f006 f007 f008 f009 f010 f011 f012 f013 f014 f015 f016 f017
    f018 f019 f020 f021 f022 f023 f024 f025 f026 f027 f028 f029 f030 f031 f032 f033 f034 f035
    f036 f037 f038 f039 f040 f041 f042 f043 f044 f045 f046 f047 f048 f049 f050 f051 f052 f053
    f054 f055 f056 f057 f058 f059 f060 f061 f062 f063 f064 f065 f066 f067 f068 f069 f070 f071
    f072 f073 f074 f075 f076 f077 f078 f079 f080 f081 f082 f083 f084 f085 f086 f087 f088 f089
    f090 f091 f092 f093 f094 f095 f096 f097 f098 f099 f100 f101 f102 f103 f104 f105 f106 f107
    f108 f109 f110 f111 f112 f113 f114 f115 f116 f117 f118 f119 f120 f121 f122 f123 f124 f125
    f126 f127 f128 f129 f130 f131 f132 f133 f134 f135 f136 f137 f138 f139 f140 f141 f142 f143
    f144 f145 f146 f147 f148 f149 f150 f151 f152 f153 f154 f155 f156 f157 f158 f159 f160 f161
    f162 f163 f164 f165 f166 f167 f168 f169 f170 f171 f172 f173 f174 f175 f176 f177 f178 f179
    f180 f181 f182 f183 f184 f185 f186 f187 f188 f189 f190 f191 f192 f193 f194 f195 f196 f197
    f198 f199 f200 f201 f202 f203 f204 f205 f206 f207 f208 f209 f210 f211 f212 f213 f214 f215
    f216 f217 f218 f219 f220 f221 f222 f223 f224 f225 f226 f227 f228 f229 f230 f231 f232 f233
    f234 f235 f236 f237 f238 f239 f240 f241 f242 f243 f244 f245 f246 f247 f248 f249 f250 f251
    f252 f253 f254 f255 f256 f257 f258 f259
}

/// A struct of 260 fields is written and read whole.
pub(crate) async fn structs_are_read_and_written_whole(harness: &Harness) {
    let table = harness.table().await;
    let forms =
        WideTable::<Form>::new(table.store().clone(), table.name().clone()).expect("a table");
    let mut form = Form {
        f000: Some(1),
        f259: Some(2),
        ..Form::empty("Oslo", 7)
    };
    let written = forms.insert(&form).await.expect("a new form");
    assert!(written.etag.is_some());
    form.f130 = Some(3);
    forms
        .replace_stored(&written, &form)
        .await
        .expect("no other writer");
    let error = forms
        .replace_stored(&written, &form)
        .await
        .expect_err("the entity was changed");
    assert!(error.is_precondition_failed(), "{error}");
    let key = Form::key("Oslo", 7).expect("a legal key");
    let updated = forms.update(&key, |form| {
        form.f000 = None;
        Ok(())
    });
    updated.await.expect("an update");
    let read = forms.get(&key).await.expect("an answer").expect("a form");
    let expected = Form {
        f000: None,
        etag: read.etag.clone(),
        ..form
    };
    assert_eq!(read.value, expected);
    let oslo = forms
        .query()
        .partition(Form::partition("Oslo").expect("a legal key"));
    assert_eq!(oslo.count().await.expect("forms"), 1);
    assert!(
        forms
            .delete_if_exists(&key)
            .await
            .expect("the entity existed")
    );
}
