//! A store without order, as Cosmos DB is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::query::Page;
use table_core::store::{GroupTransaction, KeyOrder, Result, ServiceProfile, Written};

use crate::index::{Index, IndexOptions, IndexQuery, IndexedEntities, IndexedTable, Placement, Trust};

/// Answers each page in reverse, of so many rows, and counts the pages of whole tables.
#[derive(Debug)]
struct Unsorted {
    store: MemoryStore,
    profile: ServiceProfile,
    page: usize,
    scanned: AtomicUsize,
}

impl Unsorted {
    fn in_pages_of(page: usize) -> Arc<Self> {
        let store = MemoryStore::new();
        let mut profile = store.profile().clone();
        profile.order = KeyOrder::Unsorted;
        Arc::new(Self { store, profile, page, scanned: AtomicUsize::new(0) })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for Unsorted {
    fn profile(&self) -> &ServiceProfile {
        &self.profile
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.store.create_table(table).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.store.delete_table(table).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.store.list_tables(prefix, from).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        self.store.get(table, key, select).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let mut query = query.clone();
        self.scanned.fetch_add(usize::from(query.filter.is_none()), Ordering::Relaxed);
        query.top = query.top.into_iter().chain([self.page]).min();
        let mut page = self.store.query(table, &query, from).await?;
        page.items.reverse();
        Ok(page)
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.store.write(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.store.transact(table, group).await
    }
}

#[derive(Debug, TableEntity)]
#[entity(type = "Person", rename_all = "PascalCase")]
#[index(name, partition_key = "names", row_key = "{name}_{city}_{id}")]
struct Person {
    #[partition_key]
    city: String,
    #[row_key(format = "person_{}")]
    id: u32,
    name: String,
}

/// The first of no order is any: a lookup refuses to pick it, or reads them all.
#[tokio::test(start_paused = true)]
async fn that_is_missing_is_refused_or_made_by_the_client() -> Result<()> {
    let store: Arc<dyn TableStore> = Unsorted::in_pages_of(3);
    let people = IndexedTable::<Person>::open(store, "People", IndexOptions::local()).await?;
    for (id, name) in ["eva", "ann", "dan", "bob", "cyd", "fay", "gus"].into_iter().enumerate() {
        people.insert(&Person { city: "oslo".to_owned(), id: id as u32, name: name.to_owned() }).await?;
    }
    let all = || people.by(Person::by_name());
    for refused in [all().first().await.map(drop), all().limit(2).all().await.map(drop)] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Unsupported { .. }), "{refused}");
        assert!(refused.to_string().contains("sorted_on_client"), "{refused}");
    }
    let names = |people: Vec<Person>| people.into_iter().map(|p| p.name).collect::<Vec<_>>();
    assert_eq!(all().limit(2).count().await?, 2, "a number has no order");
    assert_eq!(all().sorted_on_client().first().await?.map(|p| p.name).as_deref(), Some("ann"));
    assert_eq!(names(all().sorted_on_client().limit(3).all().await?), ["ann", "bob", "cyd"]);
    assert!(names(all().sorted_on_client().all().await?).is_sorted());
    assert_eq!(names(all().all().await?).len(), 7);

    let entities = people.entities();
    let (parts, query) = (["names".to_owned()], IndexQuery::partition(""));
    let refused = entities.all_merged("name", &parts, &query, Trust::Entry).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Unsupported { .. }), "{refused}");
    let query = query.sorted_on_client();
    let found: Vec<_> = entities.merged("name", &parts, &query, Trust::Entry).try_collect().await?;
    let found = found.into_iter().map(Person::from_entity).collect::<Result<Vec<_>>>()?;
    assert_eq!(names(found), ["ann", "bob", "cyd", "dan", "eva", "fay", "gus"]);
    Ok(())
}

/// A window of a build is read twice, and no more of the table.
#[tokio::test(start_paused = true)]
async fn that_is_missing_costs_a_build_no_further_pages() -> Result<()> {
    let store = Unsorted::in_pages_of(20);
    let table = TableName::new("People")?;
    store.create_table(&table).await?;
    for id in 0..400 {
        let large =
            Entity::new("p", format!("{id:04}"))?.with("City", "oslo").with("Face", vec![0u8; 60_000]);
        store.write(&table, Operation::Insert(large)).await?;
    }
    let cities = TableName::new("Cities")?;
    store.create_table(&cities).await?;
    let by_city = Index::keyed("city", Placement::OtherTable(cities), "{City}", "{RowKey}")?;
    let options = IndexOptions::local();
    let people = IndexedEntities::open(store.clone(), table, vec![by_city], options).await?;
    assert_eq!(people.build("city")?.run().await?.entries, 400);
    // Two windows in 14 and 6 pages of entities, and the catalog's page.
    assert_eq!(store.scanned.load(Ordering::Relaxed), 2 * 20 + 1);
    Ok(())
}
