//! Reads of a service without order, between whose pages others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use table_core::forward_to_store;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, PartitionKey, TableName, ValueRef};
use table_core::query::{Continuation, Query, ReadablePage};
use table_core::store::{ErrorKind, KeyOrder, Result, ServiceProfile, TableStore};

use super::{WideEntities, WideQuery};
use crate::tests::AlwaysFirstPage;

/// A service that answers in an order of its own: the head comes after the chunks at the first read, before them at the second,
/// and each time another writer is in between.
#[derive(Debug)]
struct Shuffled {
    store: Arc<MemoryStore>,
    profile: ServiceProfile,
    reads: AtomicUsize,
}

impl Shuffled {
    async fn write_between(&self, table: &TableName, key: &Key, value: i32) -> Result<()> {
        let wide = WideEntities::new(
            Arc::clone(&self.store) as Arc<dyn TableStore>,
            table.clone(),
        );
        let change = |properties: &mut table_core::model::Properties| {
            properties.set("P", value);
            Ok(())
        };
        wide.update(key, change).await.map(drop)
    }
}

fn is_head(row: &Entity) -> bool {
    row.key().row().ends_with("000")
}

#[async_trait]
impl TableStore for Shuffled {
    forward_to_store!(self => self.store;
        create_table, delete_table, list_tables, get, write, transact, context);

    fn profile(&self) -> &ServiceProfile {
        &self.profile
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let read = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let mut early = self.store.query(table, query, from).await?.into_page()?;
        if read > 2 {
            return Ok(early.into());
        }
        self.write_between(table, &year()?, read as i32).await?;
        let mut late = self.store.query(table, query, from).await?.into_page()?;
        early.items.retain(|row| is_head(row) == (read == 2));
        late.items.retain(|row| is_head(row) == (read == 1));
        early.items.append(&mut late.items);
        Ok(early.into())
    }
}

fn year() -> Result<Key> {
    Key::new("JFK", "2013")
}

async fn shuffled(order: KeyOrder) -> Result<(WideEntities, Arc<Shuffled>)> {
    let store = Arc::new(MemoryStore::new());
    let table: TableName = "Wide".parse()?;
    store.create_table(&table).await?;
    let wide = WideEntities::new(Arc::clone(&store) as Arc<dyn TableStore>, table.clone());
    wide.insert(&Entity::from(year()?).with("P", 0)).await?;
    let mut profile = store.profile().clone();
    profile.order = order;
    let shuffled = Arc::new(Shuffled {
        store,
        profile,
        reads: AtomicUsize::new(0),
    });
    Ok((
        WideEntities::new(Arc::clone(&shuffled) as Arc<dyn TableStore>, table),
        shuffled,
    ))
}

/// Two torn reads under one head prove damage only where the head is read first.
#[tokio::test(start_paused = true)]
async fn writers_between_pages_are_no_damage_where_heads_do_not_come_first() -> Result<()> {
    let (wide, store) = shuffled(KeyOrder::Unsorted).await?;
    let read = wide.get(&year()?).await?.expect("an entity");
    assert_eq!(read.get("P"), Some(ValueRef::Int32(2)));
    assert_eq!(store.reads.load(Ordering::SeqCst), 3);
    let (wide, _) = shuffled(KeyOrder::Sorted).await?;
    let error = wide.get(&year()?).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Storage(_)), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_repeated_continuation_token_ends_a_query_with_an_error() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let table: TableName = "Wide".parse()?;
    store.create_table(&table).await?;
    let wide = WideEntities::new(Arc::clone(&store), table.clone());
    for year in ["2013", "2014"] {
        wide.insert(&Entity::new("JFK", year)?.with("P", 0)).await?;
    }
    for rows in [0, 1] {
        let wide = WideEntities::new(
            AlwaysFirstPage::around(Arc::clone(&store), rows),
            table.clone(),
        );
        let query = WideQuery::<Entity>::new(wide).partition(PartitionKey::new("JFK")?);
        let error = query.stream().try_collect::<Vec<_>>().await.unwrap_err();
        assert!(
            error.to_string().contains("repeated continuation"),
            "{rows}: {error}"
        );
    }
    Ok(())
}

/// A server asks by this for the rights that a row needs.
#[test]
fn the_rows_of_a_wide_entity_are_parts_of_it() -> Result<()> {
    for row in ["short".to_owned(), "long".repeat(127)] {
        let prefix = super::rows::prefix(&Key::new("p", row)?, &ServiceProfile::AZURE_TABLES);
        let key = Key::new("p", format!("{prefix}000"))?;
        assert_eq!(key.row_kind(), table_core::model::RowKind::Part, "{key}");
    }
    Ok(())
}
