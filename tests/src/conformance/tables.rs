//! Tables: create, delete, list.

use std::time::Duration;

use table_core::model::TableName;
use table_core::query::{Continuation, Query};
use table_core::store::{ErrorKind, Result, TableStore, TableStoreExt};
use uuid::Uuid;

use super::table::{entity, key, refused};
use super::{Deviation, Harness, TestTable};

/// A created table is empty and can be written.
pub(crate) async fn a_new_table_is_empty(h: &Harness) {
    let table = h.table().await;
    assert!(table.all(&Query::new()).await.is_empty());
    table.insert(entity("p", "r")).await;
}

/// A second table of the same name is refused, and the first table keeps its entities.
pub(crate) async fn a_second_table_of_the_same_name_is_refused(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r")).await;
    let error = refused(h.store().create_table(table.name()).await);
    assert!(
        matches!(error.kind(), ErrorKind::TableAlreadyExists { .. }),
        "{error}"
    );
    assert!(error.to_string().contains(table.name().as_str()), "{error}");
    assert!(table.get(&key("p", "r")).await.is_some());
    assert!(
        !h.store()
            .create_table_if_missing(table.name())
            .await
            .expect("an existing table")
    );
}

/// The profile says whether names that differ by case are one table or two.
pub(crate) async fn names_ignore_case_if_the_profile_says_so(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r")).await;
    let other_case = TableName::new(table.name().to_lowercase()).expect("a legal name");
    h.clean_up(&other_case);
    let lower = TestTable::new(h.store().clone(), other_case.clone());
    if h.profile().case_sensitive_tables {
        h.store()
            .create_table(&other_case)
            .await
            .expect("another table");
        assert!(lower.get(&key("p", "r")).await.is_none());
        return;
    }
    let error = refused(h.store().create_table(&other_case).await);
    assert!(
        matches!(error.kind(), ErrorKind::TableAlreadyExists { .. }),
        "{error}"
    );
    if !h.deviates(Deviation::TableNameCase) {
        assert!(lower.get(&key("p", "r")).await.is_some());
    }
}

/// A listing returns the table name in the case of its creation.
pub(crate) async fn listings_keep_the_case_of_names(h: &Harness) {
    let table = h.table().await;
    let listed = h
        .store()
        .all_tables(Some(table.name().as_str()))
        .await
        .expect("a listing");
    assert_eq!(listed, [table.name().clone()]);
}

/// A deleted table loses its entities: a new table of the same name is empty.
pub(crate) async fn a_deleted_table_loses_its_entities(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r")).await;
    h.store()
        .delete_table(table.name())
        .await
        .expect("a delete");
    let error = refused(h.store().get(table.name(), &key("p", "r"), None).await);
    assert!(error.is_table_not_found(), "{error}");
    create_again(h, table.name())
        .await
        .expect("the name is free again");
    assert!(table.all(&Query::new()).await.is_empty());
}

/// The deletion of a table leaves all other tables, whatever prefix their names share.
pub(crate) async fn a_deletion_leaves_other_tables(h: &Harness) {
    let stem = h.unused_name();
    let longer = TableName::new(format!("{stem}x")).expect("a legal name");
    h.clean_up(&longer);
    for name in [&stem, &longer] {
        h.store().create_table(name).await.expect("a new table");
        TestTable::new(h.store().clone(), name.clone())
            .insert(entity("p", "r"))
            .await;
    }
    h.store().delete_table(&stem).await.expect("a delete");
    assert_eq!(
        TestTable::new(h.store().clone(), longer)
            .keys(&Query::new())
            .await,
        [key("p", "r")]
    );
}

/// A missing table cannot be deleted.
pub(crate) async fn a_missing_table_cannot_be_deleted(h: &Harness) {
    let missing = h.unused_name();
    let error = refused(h.store().delete_table(&missing).await);
    assert!(error.is_table_not_found(), "{error}");
    assert!(error.to_string().contains(missing.as_str()), "{error}");
    assert!(
        !h.store()
            .delete_table_if_exists(&missing)
            .await
            .expect("the table is missing")
    );
}

/// A prefix selects the tables whose names start with it, sorted, and no others.
pub(crate) async fn a_prefix_selects_tables(h: &Harness) {
    let prefix = unique_prefix();
    let names = make_tables(h, &prefix, ["a", "ab", "b", "B1", "c"]).await;
    let wanted = format!("{prefix}a");
    let listed = h
        .store()
        .all_tables(Some(&wanted))
        .await
        .expect("a listing");
    assert_eq!(listed, names[..2]);
    let mut all = h
        .store()
        .all_tables(Some(&prefix))
        .await
        .expect("a listing");
    all.sort();
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(all, expected);
    let nothing = h
        .store()
        .all_tables(Some(&format!("{prefix}zz")))
        .await
        .expect("a listing");
    assert!(nothing.is_empty());
    let everything = h.store().all_tables(None).await.expect("a listing");
    assert!(names.iter().all(|name| everything.contains(name)));
}

/// A long listing returns each table once in several pages. A continuation token of a listing can be stored,
/// and belongs to its prefix.
pub(crate) async fn a_long_listing_has_pages(h: &Harness) {
    let prefix = unique_prefix();
    let count = h.scale().tables;
    let names = make_tables(h, &prefix, (0..count).map(|n| format!("{n:05}"))).await;
    let mut listed = Vec::new();
    let mut from: Option<Continuation> = None;
    loop {
        let page = h
            .store()
            .list_tables(Some(&prefix), from.as_ref())
            .await
            .expect("a page of tables");
        assert!(page.items.len() <= h.profile().page_size);
        listed.extend(page.items);
        let Some(continuation) = page.continuation else {
            break;
        };
        let error = refused(
            h.store()
                .list_tables(Some("Other"), Some(&continuation))
                .await,
        );
        assert!(
            matches!(error.kind(), ErrorKind::InvalidContinuation(_)),
            "{error}"
        );
        from = Some(
            continuation
                .to_string()
                .parse()
                .expect("a stored continuation"),
        );
    }
    assert_eq!(listed, names);
}

fn unique_prefix() -> String {
    format!("L{}", Uuid::new_v4().simple())
}

async fn make_tables<S: AsRef<str>>(
    h: &Harness,
    prefix: &str,
    suffixes: impl IntoIterator<Item = S>,
) -> Vec<TableName> {
    let mut names = Vec::new();
    for suffix in suffixes {
        let name = TableName::new(format!("{prefix}{}", suffix.as_ref())).expect("a legal name");
        h.store().create_table(&name).await.expect("a new table");
        h.clean_up(&name);
        names.push(name);
    }
    names
}

/// The service delays the reuse of the name of a deleted table.
async fn create_again(h: &Harness, name: &TableName) -> Result<()> {
    for _ in 0..120 {
        match h.store().create_table(name).await {
            Err(e) if matches!(e.kind(), ErrorKind::TableBeingDeleted { .. }) => {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            other => return other,
        }
    }
    h.store().create_table(name).await
}
