//! Rules of the store and index entries: no entry contains a value in plaintext that a rule encrypts, also if
//! the writer sets no marks.

use std::fmt::Debug;
use std::sync::Arc;

use crate::open_table;
use futures_util::stream;
use table_core::model::{Entity, Key, TableName, ValueRef, entry_id};
use table_core::prelude::*;
use table_core::query::Query;
use table_core::store::{BulkSummary, ErrorKind, TableStore};
use table_patterns::Database;
use table_patterns::index::{
    BulkInsert, Entry, Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement,
    ScrubMode, Shape, Trust,
};
use table_patterns::journal::Clearing;

use super::tampering_store::TamperingStore;
use super::{Builder, TableViews, assert_hidden, key, keys, text};
use crate::{Harness, TestTable};

const SECRET: &str = "secret";
/// A number of ten digits: keys have random hexadecimal ids, in which six digits occur by chance.
const NUMBER: i32 = 1_760_519_234;
const NUMBER_TEXT: &str = "1760519234";

/// Returns a person without marks.
fn person(row: &str) -> Entity {
    Entity::from(key("Sales", row))
        .with("Secret", format!("{SECRET}-{row}"))
        .with("City", "Bern")
        .with("Number", NUMBER)
}

/// A table with a rule for `Secret` and `Number`, a table of entries without rules, and the rows that were sent
/// to both.
struct RuledTables {
    people: TableViews,
    entries: TableViews,
    sent: Arc<TamperingStore>,
}

impl RuledTables {
    async fn new(
        harness: &Harness,
        rules: impl FnOnce(Builder, &TableName, &TableName) -> Builder,
    ) -> Self {
        let (people, entries) = (harness.table().await, harness.table().await);
        let sent = TamperingStore::wrap(people.store());
        let raw = TestTable::new(
            Arc::clone(&sent) as Arc<dyn TableStore>,
            people.name().clone(),
        );
        let people = TableViews::over(raw, keys(), |b, t| rules(b, t, entries.name()));
        let clear = TestTable::new(Arc::clone(people.clear.store()), entries.name().clone());
        let entries = TableViews {
            raw: entries,
            clear,
            store: Arc::clone(&people.store),
        };
        Self {
            people,
            entries,
            sent,
        }
    }

    async fn by_name(harness: &Harness) -> Self {
        Self::new(harness, |b, people, _| {
            b.encrypt(people, ["Secret", "Number"])
        })
        .await
    }

    async fn open(&self, index: Index) -> table_core::Result<IndexedEntities> {
        let store = Arc::clone(&self.people.store) as Arc<dyn TableStore>;
        let options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
        IndexedEntities::open(store, self.people.raw.name().clone(), vec![index], options).await
    }

    /// Asserts that no sent row contains a secret value, in a property or in a key.
    fn assert_nothing_shown(&self) {
        self.sent.assert_never_sent(&[SECRET, NUMBER_TEXT]);
    }

    /// Asserts that opening an index wrote the only rows.
    async fn assert_nothing_written(&self) {
        for table in [&self.people, &self.entries] {
            let rows = table.raw.keys(&Query::new()).await;
            assert!(rows.iter().all(Key::is_system), "{rows:?}");
        }
    }
}

/// Returns an index by city.
fn by_city(placement: Placement, payload: Payload) -> Index {
    let partition = if placement == Placement::SamePartition {
        ""
    } else {
        "Cities"
    };
    let index =
        Index::keyed("city", placement, partition, "city_{City}_{RowKey}").expect("templates");
    index.with_payload(payload)
}

fn lookup(partition: &str) -> IndexQuery {
    IndexQuery::partition(partition)
        .prefix("city_Bern_")
        .sorted_on_client()
}

fn refused<T: Debug>(result: table_core::Result<T>, because: &str) {
    let error = result.expect_err("it would be shown");
    assert!(error.to_string().contains(because), "{error}");
    assert!(!error.to_string().contains(SECRET), "{error}");
    assert!(!error.is_ambiguous());
}

/// Full and partial payloads, in the partition, in another partition, in another table, unique and not unique:
/// after an insert, a change, a bulk insert, and a build over existing entities.
pub(crate) async fn payloads_are_encrypted_in_every_placement(harness: &Harness) {
    let fields = Payload::fields(["Secret", "Number"]);
    for payload in [Payload::Full, fields] {
        for (place, unique) in [(0, false), (1, false), (2, false), (1, true), (2, true)] {
            let table = RuledTables::by_name(harness).await;
            let other = Placement::OtherTable(table.entries.raw.name().clone());
            let placement = [Placement::SamePartition, Placement::OtherPartition, other]
                .into_iter()
                .nth(place);
            let index = by_city(placement.expect("a place"), payload.clone());
            let people = table
                .open(if unique {
                    index.unique_within_table()
                } else {
                    index
                })
                .await;
            let people = people.expect("an index");
            people.insert(person("1")).await.expect("an insert");
            let rest = stream::iter([person("2"), person("3")].map(Ok));
            let inserted = BulkSummary::of(people.insert_all(rest, BulkInsert::default())).await;
            assert_eq!(
                inserted
                    .and_then(BulkSummary::into_result)
                    .expect("a bulk insert"),
                2
            );
            let read = people
                .get_existing(&key("Sales", "2"))
                .await
                .expect("an entity");
            people
                .replace(&read, person("2").with("Secret", "secret-new"))
                .await
                .expect("a change");

            let query = lookup(if place == 0 { "Sales" } else { "Cities" });
            for trust in [Trust::Entry, Trust::Entity] {
                let found = people.all("city", &query, trust).await.expect("a lookup");
                let secrets: Vec<_> = found
                    .iter()
                    .map(|e| e.properties().find("Secret").expect("a secret"))
                    .collect();
                assert_eq!(secrets.len(), 3, "{place}");
                assert!(secrets.iter().all(|p| p.is_encrypted()), "{place}");
                assert_eq!(secrets[1].value(), ValueRef::String("secret-new"));
            }
            people
                .rebuild("city")
                .await
                .expect("an index")
                .run()
                .await
                .expect("a build");
            let read = people
                .get_existing(&key("Sales", "3"))
                .await
                .expect("an entity");
            people.delete(&read).await.expect("a delete");
            assert_eq!(
                people
                    .all("city", &query, Trust::Entry)
                    .await
                    .expect("a lookup")
                    .len(),
                2
            );
            table.assert_nothing_shown();
        }
    }
}

/// The index writes a reservation before the store checks the entity. If the store refuses the entity, the
/// reservation has shown no value.
pub(crate) async fn reservations_contain_no_plaintext(harness: &Harness) {
    let table = RuledTables::new(harness, |b, _, _| b).await;
    let index = by_city(
        Placement::OtherTable(table.entries.raw.name().clone()),
        Payload::Full,
    );
    let people = table
        .open(index.unique_within_table())
        .await
        .expect("an index");
    table
        .people
        .clear
        .insert(Entity::from(key("Sales", "0")).with_encrypted("Secret", "met"))
        .await;
    refused(
        people.insert(person("1").with("Number", 1)).await,
        "'Secret'",
    );
    table.assert_nothing_shown();
    assert_eq!(table.people.raw.get(&key("Sales", "1")).await, None);
}

/// Copies have other property names, which no rule contains.
pub(crate) async fn copies_are_encrypted_under_their_names(harness: &Harness) {
    for other_table in [false, true] {
        let table = RuledTables::by_name(harness).await;
        let (target, placement) = match other_table {
            true => (
                &table.entries,
                Placement::OtherTable(table.entries.raw.name().clone()),
            ),
            false => (&table.people, Placement::OtherPartition),
        };
        let boss = Entity::from(key("Bosses", "boss")).with("Title", "CEO");
        let fields = ["Secret", "City"].map(str::to_owned).to_vec();
        let at = boss.key().clone();
        let index = Index::new("copy", placement, "1", move |e| {
            Ok((e.key().partition() == "Sales").then(|| at.clone()))
        });
        let people = table
            .open(index.with_shape(Shape::copy("Ken", fields)))
            .await;
        target.clear.insert(boss.clone()).await;
        people
            .expect("an index")
            .insert(person("1"))
            .await
            .expect("an insert");
        let read = target.clear.existing(boss.key()).await;
        let copy = read.properties().find("KenSecret").expect("a copy");
        assert!(copy.is_encrypted());
        assert_eq!(copy.value(), ValueRef::String("secret-1"));
        assert_eq!(read.get("KenCity"), text("Bern"));
        assert_eq!(read.get("Title"), text("CEO"));
        table.assert_nothing_shown();
    }
}

fn keyed(row: &str) -> Index {
    Index::keyed("i", Placement::OtherPartition, "entries", row).expect("a template")
}

fn summed(name: &str) -> Index {
    let index =
        Index::keyed("sum", Placement::SamePartition, "", "sum_{City}").expect("a template");
    index.with_shape(Shape::summary([name.to_owned()]))
}

/// Index keys and sums are plaintext. An index over a property of a rule is refused when it is opened.
pub(crate) async fn keys_and_sums_over_rules_are_refused(harness: &Harness) {
    let table = RuledTables::by_name(harness).await;
    for row in [
        "{Secret}_{RowKey}",
        "{City}_{Secret#16}_{RowKey}",
        "{Number:08}_{RowKey}",
    ] {
        refused(table.open(keyed(row)).await, "blind index");
    }
    refused(table.open(summed("Number")).await, "'Number'");
    assert_eq!(table.people.raw.all(&Query::new()).await, []);
}

/// Without a rule, the first marked entity is refused before anything is written.
pub(crate) async fn keys_and_sums_over_marks_are_refused(harness: &Harness) {
    for (index, name) in [
        (keyed("{Secret}_{RowKey}"), "Secret"),
        (keyed("{City}_{Secret#16}_{RowKey}"), "Secret"),
        (summed("Number"), "Number"),
    ] {
        let table = RuledTables::new(harness, |b, _, _| b).await;
        let people = table.open(index).await.expect("no rule");
        let mut marked = person("1");
        for name in ["Secret", "Number"] {
            let value = marked.get(name).expect("a value").to_owned();
            marked.properties_mut().set_encrypted(name, value);
        }
        refused(people.insert(marked.clone()).await, name);
        refused(people.upsert(marked.clone()).await, name);
        let bulk = people.insert_all(stream::iter([Ok(marked)]), BulkInsert::default());
        refused(
            BulkSummary::of(bulk)
                .await
                .and_then(BulkSummary::into_result),
            name,
        );
        table.assert_nothing_written().await;
        table.assert_nothing_shown();
    }
}

/// A rule by row: entries in the same table have the marks of their entities, whatever the rule says of the
/// entries' keys.
pub(crate) async fn local_entries_have_the_rules_of_their_entity(harness: &Harness) {
    let table = RuledTables::new(harness, |b, people, _| employees(b, people)).await;
    let people = table
        .open(by_city(Placement::OtherPartition, Payload::Full))
        .await
        .expect("an index");
    people
        .insert(person("emp1").with("Number", 1))
        .await
        .expect("an insert");
    people
        .insert(person("guest1").with("Secret", "none").with("Number", 1))
        .await
        .expect("an insert");
    table.assert_nothing_shown();
    let guest = table
        .people
        .raw
        .existing(&key("Cities", "city_Bern_guest1"))
        .await;
    assert_eq!(guest.get("Secret"), text("none"));
}

/// Entries in another table need a rule of their own. Otherwise the store could refuse an entry after the write
/// of its entity.
pub(crate) async fn rules_by_row_need_a_rule_for_remote_entries(harness: &Harness) {
    let elsewhere = |table: &RuledTables| {
        by_city(
            Placement::OtherTable(table.entries.raw.name().clone()),
            Payload::Full,
        )
    };
    let table = RuledTables::new(harness, |b, people, _| employees(b, people)).await;
    refused(
        table.open(elsewhere(&table)).await,
        table.entries.raw.name().as_str(),
    );
    let rules = |b: Builder, people: &TableName, entries: &TableName| {
        employees(b, people).encrypt(entries, ["Secret"])
    };
    let table = RuledTables::new(harness, rules).await;
    let people = table.open(elsewhere(&table)).await.expect("an index");
    people
        .insert(person("emp1").with("Number", 1))
        .await
        .expect("an insert");
    people
        .insert(person("guest1").with("Secret", "none").with("Number", 1))
        .await
        .expect("an insert");
    table.assert_nothing_shown();
    assert_hidden(&table.entries, &["none"]).await;
}

fn employees(builder: Builder, table: &TableName) -> Builder {
    builder.encrypt_where(table, ["Secret"], |_, row: &str, _| row.starts_with("emp"))
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Person", rename_all = "PascalCase")]
#[index(city, table = "Unused", partition_key = "city_{city}", row_key = "{department}_{row}", payload = full)]
struct Person {
    #[partition_key]
    department: String,
    #[row_key]
    row: String,
    city: String,
    secret: String,
}

/// A type without the mark could not read its own rows: its table is refused when it is opened.
pub(crate) async fn types_without_the_mark_are_refused(harness: &Harness) {
    let RuledTables { people, .. } = RuledTables::by_name(harness).await;
    let (store, name) = (
        Arc::clone(&people.store) as Arc<dyn TableStore>,
        people.raw.name().clone(),
    );
    refused(
        Database::new(Arc::clone(&store)).table::<Person>(name.clone()),
        "`#[encrypt]`",
    );
    refused(
        open_table::<Person>(
            store,
            name,
            IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
        )
        .await,
        "`#[encrypt]`",
    );
    assert_eq!(people.raw.all(&Query::new()).await, []);
}

/// Plaintext entries from before the rule: the migration of the table names the tables of entries. With
/// `accept_plaintext` these entries are readable until a scrub rewrites them.
pub(crate) async fn plaintext_entries_are_migrated(harness: &Harness) {
    let (raw, entries) = (harness.table().await, harness.table().await);
    let index = || by_city(Placement::OtherTable(entries.name().clone()), Payload::Full);
    let open = async |store: Arc<dyn TableStore>| {
        let opened = IndexedEntities::open(
            store,
            raw.name().clone(),
            vec![index()],
            IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
        );
        opened.await.expect("an index")
    };
    let before = open(Arc::clone(raw.store())).await;
    for row in ["1", "2", "3"] {
        before.insert(person(row)).await.expect("an insert");
    }
    let rule = |b: Builder, t: &TableName| b.encrypt(t, ["Secret", "Number"]);
    let migrating = TableViews::over(raw.clone(), keys(), |b, t| {
        rule(b, t)
            .accept_plaintext(t)
            .accept_plaintext(entries.name())
    });
    let done = migrating
        .store
        .migration(raw.name())
        .run()
        .await
        .expect("a migration");
    assert_eq!(done.changed, 3);
    assert_eq!(done.skipped, 0);
    assert_eq!(
        done.index_tables.iter().collect::<Vec<_>>(),
        [entries.name()]
    );
    assert_hidden(&migrating, &[SECRET, NUMBER_TEXT]).await;

    let people = open(Arc::clone(&migrating.store) as Arc<dyn TableStore>).await;
    let found = people
        .all("city", &lookup("Cities"), Trust::Entry)
        .await
        .expect("a lookup");
    assert_eq!(found.len(), 3);
    let report = people
        .scrub("city", ScrubMode::Repair)
        .await
        .expect("a scrub");
    assert_eq!(report.missing, 3);
    assert_eq!(report.dangling, 0);
    let strict = TableViews::over(raw.clone(), keys(), rule);
    let seen = TableViews {
        raw: entries.clone(),
        clear: entries.clone(),
        store: Arc::clone(&strict.store),
    };
    assert_hidden(&seen, &[SECRET, NUMBER_TEXT]).await;
    let people = open(Arc::clone(&strict.store) as Arc<dyn TableStore>).await;
    let found = people
        .all("city", &lookup("Cities"), Trust::Entry)
        .await
        .expect("a lookup");
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|e| {
        e.properties()
            .find("Secret")
            .is_some_and(|p| p.is_encrypted())
    }));
}

/// The same for copies, whose properties have other names.
pub(crate) async fn plaintext_copies_are_scrubbed(harness: &Harness) {
    let raw = harness.table().await;
    let index = || {
        let at = Key::new("Bosses", "boss");
        let index = Index::new("copy", Placement::OtherPartition, "1", move |e| {
            (e.key().partition() == "Sales")
                .then(|| at.clone())
                .transpose()
        });
        index.with_shape(Shape::copy("Ken", ["Secret"]))
    };
    let open = async |store: Arc<dyn TableStore>| {
        let opened = IndexedEntities::open(
            store,
            raw.name().clone(),
            vec![index()],
            IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
        );
        opened.await.expect("an index")
    };
    let before = open(Arc::clone(raw.store())).await;
    raw.insert(Entity::from(key("Bosses", "boss")).with("Title", "CEO"))
        .await;
    before.insert(person("1")).await.expect("an insert");
    let migrating = TableViews::over(raw.clone(), keys(), |b, t| {
        b.encrypt(t, ["Secret", "Number"]).accept_plaintext(t)
    });
    assert_eq!(
        migrating
            .store
            .migration(raw.name())
            .run()
            .await
            .expect("a migration")
            .changed,
        1
    );
    let people = open(Arc::clone(&migrating.store) as Arc<dyn TableStore>).await;
    people
        .scrub("copy", ScrubMode::Repair)
        .await
        .expect("a scrub");
    assert_hidden(&migrating, &[SECRET, NUMBER_TEXT]).await;
}

/// Two indexes from before the rule, one with the value in its keys and one with its sum: they are refused when
/// opened, and can be dropped with all their rows.
pub(crate) async fn indexes_that_contain_plaintext_can_be_dropped(harness: &Harness) {
    let raw = harness.table().await;
    let indexes = || {
        vec![
            keyed("{Secret}_{RowKey}").with_payload(Payload::Full),
            summed("Number"),
        ]
    };
    let before = IndexedEntities::open(
        Arc::clone(raw.store()),
        raw.name().clone(),
        indexes(),
        IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
    );
    let before = before.await.expect("indexes");
    before.insert(person("1")).await.expect("an insert");
    let migrating = TableViews::over(raw.clone(), keys(), |b, t| {
        b.encrypt(t, ["Secret", "Number"]).accept_plaintext(t)
    });
    let (store, name) = (
        Arc::clone(&migrating.store) as Arc<dyn TableStore>,
        raw.name().clone(),
    );
    let options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
    let opened =
        IndexedEntities::open(Arc::clone(&store), name.clone(), indexes(), options.clone()).await;
    refused(opened, "docs/encryption.md");
    let upkeep = IndexedEntities::open_for_upkeep(store, name, options)
        .await
        .expect("a manifest");
    let mut declared = upkeep.declared().await.expect("the indexes");
    declared.sort_by(|a, b| a.name.cmp(&b.name));
    for index in &declared {
        upkeep.drop_index(&index.id()).await.expect("a drop");
    }
    assert_eq!(
        declared
            .into_iter()
            .map(|index| index.name)
            .collect::<Vec<_>>(),
        ["i", "sum"]
    );
    assert_eq!(
        migrating
            .store
            .migration(raw.name())
            .run()
            .await
            .expect("a migration")
            .changed,
        1
    );
    assert_hidden(&migrating, &[SECRET, NUMBER_TEXT]).await;
}

/// The store learns the encrypted names of entries: planted plaintext in their table is refused.
pub(crate) async fn planted_entries_are_refused(harness: &Harness) {
    let table = RuledTables::by_name(harness).await;
    let index = by_city(
        Placement::OtherTable(table.entries.raw.name().clone()),
        Payload::Full,
    );
    let id = index.id().to_owned();
    let people = table.open(index).await.expect("an index");
    let planted = Entity::from(key("Cities", "city_Bern_9"))
        .with(Entry::INDEX, entry_id(&id, Some(people.table())))
        .with(Entry::OWNER_PARTITION, "Sales")
        .with(Entry::OWNER_ROW, "9")
        .with("Secret", "planted");
    table.entries.raw.insert(planted.clone()).await;
    let error = people
        .find("city", planted.key(), Trust::Entry)
        .await
        .expect_err("plaintext");
    assert!(matches!(error.kind(), ErrorKind::Encryption(_)), "{error}");
    let error = people
        .all("city", &lookup("Cities"), Trust::Entity)
        .await
        .expect_err("plaintext");
    assert!(matches!(error.kind(), ErrorKind::Encryption(_)), "{error}");
}

/// A feed and a manifest work beside rules for properties that are named as theirs. Every other row is encrypted, also under a key that no
/// typed entity has.
pub(crate) async fn rows_of_manifests_and_feeds_are_in_plaintext(harness: &Harness) {
    #[derive(Clone, Debug, PartialEq, TableEntity)]
    #[entity(type = "Order", rename_all = "PascalCase", feed)]
    struct Order {
        #[partition_key]
        customer: String,
        #[row_key]
        number: u32,
        #[encrypt]
        kind: String,
    }
    let names = [
        "Name", "State", "Next", "Feed", "Kind", "Type", "Row", "Done", "Consumer",
    ];
    let table = TableViews::with(harness, |b, t| b.encrypt(t, names)).await;
    let orders = Database::new(Arc::clone(&table.store) as Arc<dyn TableStore>)
        .table::<Order>(table.raw.name().clone())
        .expect("a table");
    let order = |number| Order {
        customer: "ann".to_owned(),
        number,
        kind: "secret".to_owned(),
    };
    orders.insert(&order(1)).await.expect("an order");
    orders.insert(&order(2)).await.expect("an order");
    let ann = Order::partition("ann").expect("a legal key");
    let changes = orders.changes().after(ann.partition_key(), 0).await;
    assert_eq!(changes.expect("changes").len(), 2);
    let found = orders.query().all().await.expect("orders");
    assert_eq!(found, [order(1), order(2)]);

    for row in ["~~mine", "~~changesx"] {
        let mine = Entity::from(key("ann", row)).with("Kind", "secret");
        table.clear.insert(mine.clone()).await;
        let stored = table.raw.existing(mine.key()).await;
        assert_ne!(stored.get("Kind"), mine.get("Kind"), "{row}");
    }
}
