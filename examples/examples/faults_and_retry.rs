//! What a program sees when the response to a write is lost: an *ambiguous* error; or, with write ids, a retry that reads the entity and
//! proves that the write took effect.
//!
//! Cost of the proof: 1 request per entity, after a lost response only.

use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, Faulty, RetryPolicy, Retrying};
use table_patterns::prelude::*;

#[derive(Clone, Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Order {
    #[partition_key]
    customer: String,
    #[row_key]
    number: u32,
    cents: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let faults = FaultInjector::new(1);
    let memory = MemoryStore::new();
    let order = Order {
        customer: "alice".to_owned(),
        number: 1,
        cents: 4_200,
    };

    // Without a retry, the error is ambiguous: the order may exist. It does.
    let orders =
        Database::new(Faulty::new(memory.clone(), faults.clone())).table::<Order>("Orders")?;
    orders.declare().await?;
    faults.script([Some(Fault::LoseAnswer)]);
    let error = orders.insert(&order).await.unwrap_err();
    assert!(error.is_ambiguous());
    assert!(orders.get(order.entity_key()?).await?.is_some());

    // Without write ids, a repeated insert would find the order that it has inserted itself, and report that it exists already. With
    // write ids, the retry reads which write created the entity, and reports success. (No pause between attempts: for this example
    // only.)
    let policy = RetryPolicy::default()
        .with_delays(Duration::ZERO, Duration::ZERO)
        .with_write_ids();
    let retrying = Retrying::new(Faulty::new(memory, faults.clone()), policy);
    let orders = Database::new(retrying).table::<Order>("Orders")?;
    faults.script([Some(Fault::LoseAnswer)]);
    orders
        .insert(&Order {
            number: 2,
            ..order.clone()
        })
        .await?;

    // A real conflict is still a conflict.
    let error = orders.insert(&order).await.unwrap_err();
    assert!(error.is_already_exists());

    // The retry waits for a busy service, three times here.
    faults.script([Some(Fault::Throttle { retry_after: None }); 3]);
    orders.insert(&Order { number: 3, ..order }).await?;
    assert_eq!(
        faults.injected().len(),
        5,
        "two lost responses, and three responses of a busy service"
    );
    Ok(())
}
