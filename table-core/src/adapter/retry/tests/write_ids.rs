use super::rig::{Rig, entity, group, key, table};
use crate::adapter::{Fault, RetryPolicy, WRITE_ID_PROPERTY};
use crate::model::{Entity, IfMatch};
use crate::query::{Query, Select};
use crate::store::{Operation, OperationKind, TableStore};

async fn rig() -> Rig {
    Rig::new(RetryPolicy::default().with_write_ids()).await
}

fn wide(properties: usize) -> Entity {
    (0..properties).fold(Entity::from(key("new")), |e, i| e.with(&format!("P{i}"), 0))
}

#[tokio::test(start_paused = true)]
async fn ids_are_new_for_each_write_and_hidden() {
    let rig = rig().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        rig.store
            .write(&table(), Operation::InsertOrReplace(entity("new", "ours")))
            .await
            .unwrap();
        ids.push(
            rig.read("new")
                .await
                .unwrap()
                .get(WRITE_ID_PROPERTY)
                .unwrap()
                .to_owned(),
        );
    }
    assert_ne!(ids[0], ids[1]);

    let read = rig
        .store
        .get(&table(), &key("new"), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.properties(), entity("new", "ours").properties());
    let page = rig
        .store
        .query(&table(), &Query::new(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert!(
        page.items
            .iter()
            .all(|e| e.get(WRITE_ID_PROPERTY).is_none())
    );
    let select = Select::new(["By", WRITE_ID_PROPERTY]);
    let read = rig
        .store
        .get(&table(), &key("new"), Some(&select))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.properties(), entity("new", "ours").properties());
}

#[tokio::test(start_paused = true)]
async fn a_successful_write_costs_one_request() {
    let rig = rig().await;
    rig.store
        .write(&table(), Operation::Insert(entity("new", "ours")))
        .await
        .unwrap();
    let writes = [
        Operation::InsertOrReplace(entity("new", "ours")),
        Operation::Delete(key("old"), IfMatch::Any),
    ];
    rig.store.transact(&table(), group(writes)).await.unwrap();
    assert_eq!(rig.meter.total(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_costs_one_read_per_entity() {
    let rig = rig().await;
    rig.script(&[Fault::LoseAnswer]);
    rig.store
        .write(&table(), Operation::Insert(entity("a", "ours")))
        .await
        .unwrap();
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Get), 1);
    rig.meter.reset();
    rig.script(&[Fault::LoseAnswer]);
    let rows = ["b", "c", "d"].map(|row| Operation::Insert(entity(row, "ours")));
    let written = rig.store.transact(&table(), group(rows)).await.unwrap();
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Get), 3);
    assert_eq!(rig.meter.total(), 4);
    for (row, written) in ["b", "c", "d"].iter().zip(written) {
        assert_eq!(rig.read(row).await.unwrap().etag(), written.etag.as_ref());
    }
}

#[tokio::test(start_paused = true)]
async fn one_entity_proves_its_group() {
    let rig = rig().await;
    rig.script(&[Fault::LoseAnswer]);
    rig.intrude(2, vec![Operation::InsertOrReplace(entity("a", "theirs"))]);
    let rows = ["a", "b"].map(|row| Operation::Insert(entity(row, "ours")));
    let written = rig.store.transact(&table(), group(rows)).await.unwrap();
    assert_eq!(written[0].etag, None);
    assert_eq!(
        rig.read("b").await.unwrap().etag(),
        written[1].etag.as_ref()
    );
}

#[tokio::test(start_paused = true)]
async fn equal_content_is_no_proof() {
    let rig = rig().await;
    rig.script(&[Fault::LoseRequest]);
    rig.intrude(2, vec![Operation::Insert(entity("new", "ours"))]);
    let error = rig
        .store
        .write(&table(), Operation::Insert(entity("new", "ours")))
        .await
        .unwrap_err();
    assert!(error.is_ambiguous());
}

#[tokio::test(start_paused = true)]
async fn a_plain_conflict_stays_a_conflict() {
    let rig = rig().await;
    let error = rig
        .store
        .write(&table(), Operation::Insert(entity("old", "ours")))
        .await
        .unwrap_err();
    assert!(error.is_already_exists() && !error.is_ambiguous());
    rig.script(&[Fault::FailBefore]);
    let error = rig
        .store
        .write(&table(), Operation::Insert(entity("old", "ours")))
        .await
        .unwrap_err();
    assert!(error.is_already_exists() && !error.is_ambiguous());
}

#[tokio::test(start_paused = true)]
async fn the_id_counts_in_the_limits() {
    let rig = rig().await;
    let (with, without) = (rig.store.profile(), rig.data.profile());
    assert_eq!(with.custom_properties, 251);
    assert_eq!(
        without.entity_bytes - with.entity_bytes,
        8 + 2 * WRITE_ID_PROPERTY.len() + 16
    );
    assert_eq!(without.group_bytes - with.group_bytes, 100 * 83);
    rig.store
        .write(&table(), Operation::Insert(wide(251)))
        .await
        .unwrap();
    rig.meter.reset();
    let error = rig
        .store
        .write(&table(), Operation::InsertOrReplace(wide(252)))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "properties of ('Sales', 'new'): at most 251 allowed, got 252"
    );
    let error = rig
        .store
        .transact(&table(), group([Operation::Insert(wide(252))]))
        .await
        .unwrap_err();
    assert_eq!(error.failed_index(), Some(0));
    assert_eq!(rig.meter.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_id_set_by_the_caller_is_replaced() {
    let rig = rig().await;
    rig.store
        .write(&table(), Operation::Insert(entity("new", "ours")))
        .await
        .unwrap();
    let copied = rig.read("new").await.unwrap();
    rig.store
        .write(&table(), Operation::InsertOrReplace(copied.clone()))
        .await
        .unwrap();
    let stored = rig.read("new").await.unwrap();
    assert_ne!(stored.get(WRITE_ID_PROPERTY), copied.get(WRITE_ID_PROPERTY));
}
