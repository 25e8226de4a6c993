//! A store that returns rows without their ETags: no pattern then writes with the condition "any version".

use std::sync::Arc;

use async_trait::async_trait;
use table_core::forward_to_store;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, PartitionKey, Properties, TableName};
use table_core::query::{Continuation, Filter, Query, ReadablePage, Select};
use table_core::store::{Error, Operation, Result, TableStore, TableStoreExt as _};
use table_core::typed::RowPrefix;

use crate::Database;
use crate::bulk::{BulkOptions, Unchanged, delete_where};
use crate::compound::Compound;
use crate::heterogeneous::modify;
use crate::series::{DataSeries, Hours};
use crate::wide::WideEntities;

#[derive(Debug)]
struct WithoutETags(Arc<MemoryStore>);

fn without_etag(entity: Entity) -> Entity {
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

#[tokio::test]
async fn a_row_without_an_etag_is_not_written_in_any_version() -> Result<()> {
    let (inner, name) = (Arc::new(MemoryStore::new()), TableName::new("Rows")?);
    inner.create_table(&name).await?;
    let key = Key::new("p", "r")?;
    let row = Entity::from(key.clone()).with("H01", 1);
    inner.write(&name, Operation::Insert(row)).await?;
    WideEntities::new(inner.clone(), name.clone())
        .insert(&Entity::new("p", "w")?.with("A", 1))
        .await?;
    let before = inner.query_all(&name, &Query::new()).await?;

    let store: Arc<dyn TableStore> = Arc::new(WithoutETags(inner.clone()));
    let table = Database::new(store.clone()).view::<Entity>(name.clone())?;
    let refused = |error: Error| assert!(error.to_string().contains("without an ETag"), "{error}");
    let set = |_: &Entity| Ok(Properties::from_iter([("H01", 2)]));
    refused(modify(&table, &key, set).await.unwrap_err());
    let all = Compound::<Entity>::under(
        &table,
        PartitionKey::new("p")?,
        RowPrefix::<Entity>::escaped("r"),
    )?;
    refused(all.delete().await.unwrap_err());
    let hours = DataSeries::<Hours, i32>::new(store.clone(), name.clone(), Hours)?;
    refused(hours.add(&key, 1, 1).await.unwrap_err());
    refused(hours.clear(&key, 1).await.unwrap_err());
    let wides = WideEntities::new(store.clone(), name.clone());
    let wide = Key::new("p", "w")?;
    refused(wides.update(&wide, |_| Ok(())).await.unwrap_err());
    refused(wides.delete_if_exists(&wide).await.unwrap_err());
    let required = Unchanged::Required;
    let deleted = delete_where(
        store,
        &name,
        Filter::eq("H01", 1),
        required,
        BulkOptions::default(),
    )
    .await;
    refused(deleted.unwrap_err());
    assert_eq!(inner.query_all(&name, &Query::new()).await?, before);
    Ok(())
}
