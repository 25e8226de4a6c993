mod copies;
mod deletes;
mod stores;
mod writes;

use std::sync::Arc;

use table_core::adapter::{FaultInjector, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, Result, TableStore};

/// An in-memory store with a request meter and injected faults.
pub(super) struct Rig {
    pub(super) store: Arc<dyn TableStore>,
    pub(super) meter: RequestMeter,
    pub(super) faults: FaultInjector,
    pub(super) table: TableName,
}

impl Rig {
    /// A store with an empty table.
    pub(super) async fn new() -> Result<Self> {
        let rig = Self::bare();
        rig.store.create_table(&rig.table).await?;
        rig.meter.reset();
        Ok(rig)
    }

    /// A store without a table.
    pub(super) fn bare() -> Self {
        let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));
        let faulty = Faulty::new(MemoryStore::new(), faults.clone());
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(faulty, meter.clone()));
        let table = TableName::new("Readings").expect("a legal name");
        Self {
            store,
            meter,
            faults,
            table,
        }
    }

    pub(super) fn insert(&self, partition: &str, row: usize) -> Result<(TableName, Operation)> {
        Ok((
            self.table.clone(),
            Operation::Insert(reading(partition, row)?),
        ))
    }

    async fn rows(&self) -> Result<Vec<String>> {
        use table_core::store::TableStoreExt as _;
        let rows = self
            .store
            .query_all(&self.table, &table_core::query::Query::new())
            .await?;
        Ok(rows.iter().map(|row| row.key().to_string()).collect())
    }
}

fn reading(partition: &str, row: usize) -> Result<Entity> {
    Ok(Entity::new(partition, format!("{row:06}"))?.with("Celsius", 21.5))
}

/// A server asks by this for the rights that a row needs.
#[tokio::test]
async fn a_checkpoint_is_a_part_of_entities() -> Result<()> {
    use table_core::model::RowKind;
    use table_core::query::Query;
    let rig = Rig::new().await?;
    super::windows::Checkpoint::new(&*rig.store, &rig.table, "job".to_owned())?
        .save(|row| row)
        .await?;
    let rows = rig
        .store
        .query(&rig.table, &Query::new(), None)
        .await?
        .into_page()?
        .items;
    assert_eq!(
        rows.iter()
            .map(|row| row.key().row_kind())
            .collect::<Vec<_>>(),
        [RowKind::Part]
    );
    Ok(())
}
