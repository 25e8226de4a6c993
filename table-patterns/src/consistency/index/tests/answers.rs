//! Stores whose answers are wrong: repeated continuation tokens, rows without ETags, and rows that cannot be decrypted.

use std::sync::Arc;

use crate::index::tests::open_table;
use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use table_core::forward_to_store;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::prelude::*;
use table_core::query::{Continuation, Query, ReadablePage, Select, UnreadableEntity};
use table_core::store::{Error, ErrorKind, Operation, Result, TableStore};

use super::world::by_city;
use crate::index::{Index, IndexOptions, IndexQuery, IndexedEntities};
use crate::index::{Placement, ScrubMode, Shape, Trust};
use crate::journal::Clearing;
use crate::tests::AlwaysFirstPage;

fn table() -> TableName {
    TableName::new("People").unwrap()
}

fn person(id: usize, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", format!("{id:05}"))?.with("City", city))
}

async fn open(store: Arc<dyn TableStore>, indexes: Vec<Index>) -> Result<IndexedEntities> {
    let options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    IndexedEntities::open(store, table(), indexes, options).await
}

/// The rows of a page of the memory store.
const PAGE: usize = 1_000;
/// More than a page.
const PEOPLE: usize = 1_100;

/// A table of more than a page, written before the index was declared.
async fn filled() -> Result<MemoryStore> {
    let store = MemoryStore::new();
    store.create_table(&table()).await?;
    for id in 0..PEOPLE {
        store
            .write(&table(), Operation::Insert(person(id, "oslo")?))
            .await?;
    }
    Ok(store)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Service(_)), "{error}");
    assert!(
        error.to_string().contains("repeated continuation"),
        "{error}"
    );
}

#[tokio::test]
async fn a_repeated_continuation_token_ends_builds_and_scrubs() -> Result<()> {
    for shape in [Shape::Row, Shape::LIST, Shape::summary::<&str>([])] {
        let store = filled().await?;
        let index = || match shape {
            Shape::Row => {
                Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}")
            }
            _ => Ok(by_city(Placement::SamePartition, shape.clone())),
        };
        let hostile = open(
            AlwaysFirstPage::around(Arc::new(store.clone()), PAGE),
            vec![index()?],
        )
        .await?;
        // A count of a partition uses the pages of the store's own stream, which checks the tokens.
        refused(hostile.build("city")?.run().await);
        open(Arc::new(store.clone()), vec![index()?])
            .await?
            .build("city")?
            .run()
            .await?;
        hostile.refresh().await?;
        refused(hostile.scrub("city", ScrubMode::Report).await);
        if shape == Shape::Row {
            // A drop deletes the entries that it reads, so each first page is another one.
            hostile.drop_index("city").await?;
            let rows = store.query_all(&table(), &Query::new()).await?;
            assert_eq!(
                rows.iter().filter(|row| !row.key().is_system()).count(),
                PEOPLE,
                "entities without entries"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_repeated_continuation_token_ends_lookups() -> Result<()> {
    let store = filled().await?;
    let index = || Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}");
    open(Arc::new(store.clone()), vec![index()?])
        .await?
        .build("city")?
        .run()
        .await?;
    let hostile = open(
        AlwaysFirstPage::around(Arc::new(store), PAGE),
        vec![index()?],
    )
    .await?;
    let query = IndexQuery::partition("p").prefix("city_").top(100);
    refused(hostile.all("city", &query, Trust::Entity).await);
    let partitions = ["p".to_owned()];
    refused(
        hostile
            .all_merged("city", &partitions, &query, Trust::Entity)
            .await,
    );
    Ok(())
}

/// A store that returns rows without their ETags.
#[derive(Debug)]
struct WithoutETags(MemoryStore);

fn without_etag(entity: Entity) -> Entity {
    // The manifest has rows of its own, whose checks are not the subject here.
    if entity.key().is_system() {
        return entity;
    }
    let (key, properties) = entity.into_parts();
    Entity::from_parts(key, properties)
}

#[async_trait]
impl TableStore for WithoutETags {
    forward_to_store!(self => self.0;
        profile, create_table, delete_table, list_tables, write, transact, context);

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        Ok(self.0.get(table, key, select).await?.map(without_etag))
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let found = self.0.query(table, query, from).await?;
        Ok(found.map(without_etag))
    }
}

/// A row without an ETag is not written in any version: that could overwrite the change of another writer.
#[tokio::test]
async fn rows_without_etags_are_not_written() -> Result<()> {
    let indexes =
        || [Shape::Row, Shape::LIST].map(|shape| by_city(Placement::SamePartition, shape));
    for index in indexes() {
        let store = MemoryStore::new();
        store.create_table(&table()).await?;
        let people = open(Arc::new(store.clone()), vec![index.clone()]).await?;
        people.insert(person(1, "oslo")?).await?;
        people.insert(person(2, "rome")?).await?;
        // The entries of the first entity dangle.
        store
            .write(
                &table(),
                Operation::Delete(person(1, "oslo")?.key().clone(), IfMatch::Any),
            )
            .await?;
        let people = open(Arc::new(WithoutETags(store.clone())), vec![index.clone()]).await?;
        let before = rows(&store).await?;
        let is_refused = |error: Error| {
            assert!(
                error.to_string().contains("without an ETag"),
                "{index:?}: {error}"
            );
        };
        is_refused(people.scrub("city", ScrubMode::Repair).await.unwrap_err());
        if index.shape().is_shared() {
            is_refused(people.insert(person(3, "rome")?).await.unwrap_err());
        }
        is_refused(people.drop_index("city").await.unwrap_err());
        assert_eq!(rows(&store).await?, before, "{index:?}");
    }
    Ok(())
}

async fn rows(store: &MemoryStore) -> Result<Vec<Entity>> {
    let all = store.query_all(&table(), &Query::new()).await?;
    Ok(all
        .into_iter()
        .filter(|row| !row.key().is_system())
        .collect())
}

/// A store that cannot decrypt the rows with these RowKeys.
#[derive(Debug)]
struct WithoutKeys(MemoryStore, &'static [&'static str]);

#[async_trait]
impl TableStore for WithoutKeys {
    forward_to_store!(self => self.0;
        profile, create_table, delete_table, list_tables, get, write, transact, context);

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let mut page = self.0.query(table, query, from).await?.into_page()?;
        let is_unreadable = |row: &mut Entity| self.1.contains(&row.key().row());
        let unreadable = page.items.extract_if(.., is_unreadable);
        let of_row = |row: Entity| {
            let error = Error::decode("row", row.key(), "List0", "a value", "ciphertext");
            UnreadableEntity {
                key: row.key().clone(),
                error,
            }
        };
        let unreadable = unreadable.map(of_row).collect();
        Ok(ReadablePage { page, unreadable })
    }
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Member", rename_all = "PascalCase")]
#[index(team, row_key = "team_{team}", shape = list)]
struct Member {
    #[partition_key]
    club: String,
    #[row_key(format = "{:02}")]
    id: u32,
    team: String,
}

/// Each list that cannot be read is listed once, although a page that ends within a list is read again from there.
#[tokio::test]
async fn an_unreadable_list_is_listed_once() -> Result<()> {
    let store = MemoryStore::new();
    let options = IndexOptions::local;
    let members = open_table::<Member>(store.clone(), "People", options()).await?;
    for id in 0..20 {
        let team = ["a", "b", "c", "d"][id as usize % 4].to_owned();
        members
            .insert(&Member {
                club: "p".to_owned(),
                id,
                team,
            })
            .await?;
    }
    let hidden = WithoutKeys(store, &["team_b", "team_d"]);
    let members = open_table::<Member>(hidden, "People", options()).await?;
    for limit in [1, 2, 5, 6, 7, 10] {
        let lookup = members.by(Member::by_team("p")).limit(limit);
        let (mut read, mut unreadable, mut from) = (Vec::new(), Vec::new(), None);
        loop {
            let page = lookup.readable_page(from.as_ref()).await?;
            read.extend(page.page.items.iter().map(|member| member.id));
            unreadable.extend(page.unreadable.iter().map(|row| row.key.row().to_owned()));
            from = page.page.continuation;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(read, [0, 4, 8, 12, 16, 2, 6, 10, 14, 18], "limit {limit}");
        assert_eq!(unreadable, ["team_b", "team_d"], "limit {limit}");
        let rows: Vec<_> = members
            .by(Member::by_team("p"))
            .limit(7)
            .stream_readable()
            .try_collect()
            .await?;
        assert_eq!(rows.len(), 7 + 1);
    }
    Ok(())
}
