//! An index spread over shards by a hash, so that no partition is hot. A lookup knows the shard of its value;
//! a range reads all shards concurrently and merges them in order.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::store::{Result, TableStore};
use table_patterns::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement, Shards, Trust,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let table = TableName::new("Employees")?;
    store.create_table(&table).await?;
    // A composite key: the shard of the address, then the address and the employee's key.
    let by_email = Index::keyed(
        "email",
        Placement::OtherPartition,
        "email_{Email#8}",
        "{Email}|{PartitionKey}|{RowKey}",
    )?;
    let indexes = vec![by_email.with_payload(Payload::Full)];
    let employees = IndexedEntities::open(store, table, indexes, IndexOptions::local()).await?;
    for id in 0..40 {
        let employee = Entity::new("Sales", format!("empid_{id:06}"))?;
        employees.insert(employee.with("Email", format!("{:02}@contoso.com", 40 - id))).await?;
    }

    let shards = Shards::new(8)?;
    employees.flush().await; // what follows the answers of the writes is not counted below
    let before = meter.total();
    let shard = shards.partition("email_", "17@contoso.com");
    let key = Key::new(&shard, "17@contoso.com|Sales|empid_000023")?;
    assert!(employees.find("email", &key, Trust::Entry).await?.is_some());
    let start = IndexQuery::partition(shard).prefix("17@contoso.com|");
    assert_eq!(employees.all("email", &start, Trust::Entry).await?.len(), 1);
    assert_eq!(meter.total() - before, 2, "the shard is known");

    let before = meter.total();
    let some = IndexQuery::partition("").range("10", "20");
    let found = employees.all_merged("email", &shards.partitions("email_"), &some, Trust::Entry).await?;
    let emails: Vec<_> = found.iter().filter_map(|e| e.get("Email")).collect();
    assert_eq!((emails.len(), emails[0]), (10, ValueRef::String("10@contoso.com")));
    assert!(found.iter().map(|e| e.key().row()).is_sorted_by(|a, b| a > b), "in the order of the addresses");
    assert_eq!(meter.total() - before, 8, "a request for each shard");
    Ok(())
}
