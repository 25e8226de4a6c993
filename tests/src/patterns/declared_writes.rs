//! Declared indexes: writes that take the stored value as the old value, and merges.

use std::sync::Arc;

use crate::{open_table, open_table_with};
use futures_util::TryStreamExt;
use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::Table;
use table_patterns::index::{
    Index, IndexOptions, IndexQuery, Payload, Placement, ScrubMode, Shape, Trust,
};
use table_patterns::journal::Clearing;

use super::company::{Company, Employee, employee, key, with_badge, with_email};
use crate::Harness;

async fn assert_in_step<T: TableEntity>(table: &Table<T>, indexes: &[&str]) {
    for index in indexes {
        let report = table
            .entities()
            .await
            .expect("an open table")
            .scrub(index, ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(report.dangling, 0, "{index}: {report:?}");
        assert_eq!(report.missing, 0, "{index}: {report:?}");
        assert_eq!(report.taken_keys, 0, "{index}: {report:?}");
    }
}

/// A program changes a copy of the stored value. The stored value decides which entries are removed.
pub(crate) async fn the_stored_value_decides_which_entries_are_removed(h: &Harness) {
    let company = Company::open(h).await;
    let ken = Employee {
        badge: Some(7),
        ..with_email(1, "ken@x")
    };
    company.insert_all([ken]).await;
    let read = company.read(1).await;
    assert_eq!(read.last_name.as_str(), "Kwok");
    assert_eq!(read.key().row(), "empid_000001");
    let mut new = read.clone().into_inner();
    (new.last_name, new.email, new.badge) = ("Lee".to_owned(), Some("lee@x".to_owned()), Some(8));
    company
        .employees
        .replace_stored(&read, &new)
        .await
        .expect("no other writer");
    assert!(company.ids_by_surname("Kwok").await.is_empty());
    assert_eq!(company.ids_by_surname("Lee").await, [1]);
    assert_eq!(company.id_by_badge(7).await, None);
    assert_eq!(company.id_by_badge(8).await, Some(1));
    let old_email = company
        .employees
        .by(Employee::by_email("Sales").email("ken@x"))
        .get()
        .await;
    assert_eq!(old_email.expect("no entity is found"), None);
    assert_in_step(&company.employees, &["email", "surname", "badge"]).await;
}

/// A type without some properties of its rows.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Note", rename_all = "PascalCase")]
#[index(title, row_key = "title_{title}_{id:04}")]
struct Note {
    #[partition_key]
    book: String,
    #[row_key(format = "note_{:04}")]
    id: u32,
    title: String,
}

/// Properties that the type does not declare can have entries, too. These entries follow the entity.
pub(crate) async fn entries_of_undeclared_properties_follow_the_entity(h: &Harness) {
    let by_tag = |placement, partition: &str| {
        Index::keyed(partition, placement, partition, "tag_{Tag}_{RowKey}").expect("a template")
    };
    let beside = Index::keyed("beside", Placement::SamePartition, "", "tag_{Tag}_{RowKey}");
    let more = vec![
        beside.expect("a template"),
        by_tag(Placement::OtherPartition, "tags"),
    ];
    let (store, table) = (h.store().clone(), h.unused_name());
    let notes = open_table_with::<Note>(store, table, more, IndexOptions::default()).await;
    let notes = notes.expect("a new table");
    let note = |id| Note {
        book: "b".to_owned(),
        id,
        title: "t".to_owned(),
    };
    for id in 1..=2 {
        let tagged = note(id).to_entity().expect("an entity").with("Tag", "red");
        notes
            .entities()
            .await
            .expect("an open table")
            .insert(tagged)
            .await
            .expect("a new note");
    }
    let tagged = async |index: &str, partition: &str| {
        let query = IndexQuery::partition(partition).prefix("tag_red_");
        notes
            .entities()
            .await
            .expect("an open table")
            .all(index, &query, Trust::Entry)
            .await
            .expect("entries")
            .len()
    };
    assert_eq!(tagged("beside", "b").await, 2);
    assert_eq!(tagged("tags", "tags").await, 2);
    let key = |id: u32| Note::key("b", id).expect("a legal key");
    let read = notes.get_existing_stored(key(1)).await.expect("the note");
    assert_eq!(read.entity().get("Tag"), Some(ValueRef::String("red")));
    // `replace_stored` keeps the property, as a change of what was read; `replace_if` removes it.
    let new = Note {
        title: "u".to_owned(),
        ..note(1)
    };
    notes
        .replace_stored(&read, &new)
        .await
        .expect("no other writer");
    assert_eq!(
        (tagged("beside", "b").await, tagged("tags", "tags").await),
        (2, 2)
    );
    notes
        .replace_if(&new, IfMatch::Any)
        .await
        .expect("the note");
    notes
        .delete_stored(&notes.get_existing_stored(key(2)).await.expect("the note"))
        .await
        .expect("a removal");
    assert_eq!(tagged("beside", "b").await, 0);
    assert_eq!(tagged("tags", "tags").await, 0);
    assert_in_step(&notes, &["title", "beside", "tags"]).await;
}

/// Several edits of one entity need one read.
pub(crate) async fn several_edits_need_one_read(h: &Harness) {
    let company = Company::open(h).await;
    company.insert_all([with_email(1, "a@x")]).await;
    let mut ken = company.read(1).await;
    for address in ["b@x", "c@x"] {
        let before = ken.etag().clone();
        let set = |e: &mut Employee| {
            e.email = Some(address.to_owned());
            Ok(())
        };
        let (_, requests) = company
            .cost(company.employees.update_stored(&mut ken, set))
            .await;
        assert_eq!(requests, 1);
        assert_eq!(ken.email.as_deref(), Some(address));
        assert_ne!(*ken.etag(), before);
    }
    assert_eq!(ken, company.read(1).await);
    let stale = ken.clone();
    let fire = |e: &mut Employee| {
        e.email = None;
        Ok(())
    };
    company
        .employees
        .update(key(1), fire)
        .await
        .expect("an update");
    let refused = company
        .employees
        .update_stored(&mut ken, fire)
        .await
        .unwrap_err();
    assert!(refused.is_precondition_failed(), "{refused}");
    assert_eq!(ken, stale, "the stored entity");
    let nothing = |_: &mut Employee| Err(table_core::store::Error::application("no"));
    assert!(
        company
            .employees
            .update_stored(&mut ken, nothing)
            .await
            .is_err()
    );
    assert_in_step(&company.employees, &["email", "surname"]).await;
}

/// A lookup or query with `stored` reads the entity itself, whatever its entry holds.
pub(crate) async fn stored_values_of_lookups_and_queries_can_be_replaced(h: &Harness) {
    let company = Company::open(h).await;
    company
        .insert_all([with_email(1, "ken@x"), with_badge(2, 7), employee(3, "Lee")])
        .await;
    let of = &company.employees;
    // The entry holds all properties of the entity, but not its version.
    let by_email = || of.by(Employee::by_email("Sales").email("ken@x"));
    let (ken, requests) = company.cost(by_email().stored().get()).await;
    let ken = ken.expect("the entity");
    assert_eq!(ken.id, 1);
    assert_eq!(requests, 2);
    assert_eq!(ken, company.read(1).await);
    of.replace_stored(
        &ken,
        &Employee {
            email: None,
            ..(*ken).clone()
        },
    )
    .await
    .expect("no other writer");
    assert!(
        by_email()
            .stored()
            .get()
            .await
            .expect("no entity is found")
            .is_none()
    );
    // A lookup follows references in any case.
    let (kwoks, requests) = company
        .cost(of.by(Employee::by_surname("Kwok")).stored().all())
        .await;
    assert_eq!(kwoks.len(), 2);
    assert_eq!(requests, 3);
    for kwok in kwoks {
        of.delete_stored(&kwok).await.expect("no other writer");
    }
    of.insert(&employee(4, "Lee"))
        .await
        .expect("a new employee");
    let sales = || {
        of.query()
            .partition(Employee::partition("Sales").expect("a legal key"))
    };
    let all = of.stored(sales()).all().await.expect("two");
    assert_eq!(all.iter().map(|e| e.id).collect::<Vec<_>>(), [3, 4]);
    let streamed: Vec<_> = of
        .stored(sales())
        .stream()
        .try_collect()
        .await
        .expect("two");
    assert_eq!(streamed, all);
    assert_eq!(
        of.stored(sales()).first().await.expect("one").as_ref(),
        all.first()
    );
    let page = of
        .stored(sales().page_size(1))
        .page(None)
        .await
        .expect("one");
    assert_eq!(page.items.as_slice(), &all[..1]);
    assert!(page.continuation.is_some());
    let gone = of.get(key(1)).await.expect("a read");
    assert!(gone.is_none());
    assert!(
        of.get_existing(key(1))
            .await
            .unwrap_err()
            .is_entity_not_found()
    );
    assert_in_step(of, &["email", "surname", "badge"]).await;
}

/// The patch has one field, which no index holds: the entries are references.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Sparse",
    rename_all = "PascalCase",
    row_key = "flight_{number:04}"
)]
#[index(plane, row_key = "plane_{plane}_{number:04}")]
struct Sparse {
    #[partition_key]
    carrier: String,
    number: u32,
    plane: Option<String>,
    delay: i32,
}

/// A patch of this type cannot change an indexed value, so a merge reads no entries. The merge reads the type
/// and the schema version of the row, and writes.
pub(crate) async fn a_merge_without_indexed_values_reads_no_entries(h: &Harness) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let flights = open_table::<Sparse>(
        store,
        h.unused_name(),
        IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
    )
    .await;
    let flights = flights.expect("a new table");
    let flight = Sparse {
        carrier: "UA".to_owned(),
        number: 1,
        plane: Some("N1".to_owned()),
        delay: 0,
    };
    flights.insert(&flight).await.expect("a new flight");
    let before = meter.total();
    let key = Sparse::key("UA", 1u32).unwrap();
    flights
        .merge(&key, &Sparse::patch().delay(9), IfMatch::Any)
        .await
        .expect("a merge");
    assert_eq!(
        meter.total() - before,
        2,
        "the row's schema version, the merge"
    );
    let found = flights
        .by(Sparse::by_plane("UA").plane("N1"))
        .first()
        .await
        .expect("an entry");
    assert_eq!(found, Some(Sparse { delay: 9, ..flight }));
}

/// A patch can change a value of an undeclared index. The merge then reads the entity and updates the entries.
pub(crate) async fn a_merge_keeps_undeclared_indexes_in_step(h: &Harness) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let delays =
        Index::keyed("delays", Placement::SamePartition, "", "delays_{Plane}").expect("a template");
    let delays = delays.with_shape(Shape::summary(["Delay"]));
    let copy = Index::keyed(
        "copy",
        Placement::SamePartition,
        "",
        "copy_{Delay:04}_{RowKey}",
    );
    let more = vec![
        delays,
        copy.expect("a template").with_payload(Payload::Full),
    ];
    let flights =
        open_table_with::<Sparse>(store, h.unused_name(), more, IndexOptions::default()).await;
    let flights = flights.expect("a new table");
    let flight = Sparse {
        carrier: "UA".to_owned(),
        number: 1,
        plane: Some("N1".to_owned()),
        delay: 0,
    };
    let written = flights.insert(&flight).await.expect("a new flight");
    let first = written.etag.clone().expect("a version");
    let key = || Sparse::key("UA", 1u32).expect("a legal key");

    let before = meter.total();
    let patch = Sparse::patch().delay(5);
    let merged = flights
        .merge(key(), &patch, &first)
        .await
        .expect("no other writer");
    assert_eq!(
        meter.total() - before,
        3,
        "the entity, the summary, the group"
    );
    let sum = Key::new("UA", "delays_N1").expect("a legal key");
    let summary = flights
        .entities()
        .await
        .expect("an open table")
        .summary("delays", &sum)
        .await
        .expect("a summary");
    assert_eq!(summary.count, 1);
    assert_eq!(summary.sums["Delay"], 5);
    let late = IndexQuery::partition("UA").prefix("copy_0005_");
    let found = flights
        .entities()
        .await
        .expect("an open table")
        .all("copy", &late, Trust::Entry)
        .await
        .expect("entries");
    assert_eq!(
        found.iter().map(|e| e.get("Delay")).collect::<Vec<_>>(),
        [Some(ValueRef::Int32(5))]
    );

    assert!(merged.etag.as_ref().is_some_and(|etag| *etag != first));
    let stale = flights.merge(key(), &patch, &first).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");
    let missing = flights
        .merge(Sparse::key("UA", 9u32).unwrap(), &patch, IfMatch::Any)
        .await
        .unwrap_err();
    assert!(missing.is_entity_not_found(), "{missing}");
    assert!(
        flights
            .merge(key(), &Sparse::patch(), IfMatch::Any)
            .await
            .is_err(),
        "nothing to merge"
    );
}
