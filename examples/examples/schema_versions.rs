//! Schema versions: entities of the old version are read and written as the new type; a migration (`upgrade`) converts all of them.
//!
//! Cost: reads and writes none more. The plan of a migration costs 1 request per page; the migration 1 more per older entity.

use std::sync::{Arc, Mutex};

use table_core::typed::UpgradeReport;
use table_patterns::prelude::*;

/// The old version.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Customer", rename_all = "PascalCase")]
struct CustomerV1 {
    #[partition_key]
    country: String,
    #[row_key]
    number: u32,
    full_name: String,
}

/// The new version: the name has two parts.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Customer", version = 2, previous = CustomerV1, rename_all = "PascalCase")]
struct Customer {
    #[partition_key]
    country: String,
    #[row_key]
    number: u32,
    first_name: String,
    last_name: String,
    #[etag]
    etag: Option<ETag>,
}

impl From<CustomerV1> for Customer {
    fn from(
        CustomerV1 {
            country,
            number,
            full_name,
        }: CustomerV1,
    ) -> Self {
        // A name without a space becomes the last name.
        let (first, last) = full_name.split_once(' ').unwrap_or(("", &full_name));
        Self {
            country,
            number,
            first_name: first.to_owned(),
            last_name: last.to_owned(),
            etag: None,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let db = Database::new(MemoryStore::new());
    let customers = db.table::<Customer>("Customers")?;
    let old_program = db.table::<CustomerV1>("Customers")?;
    customers.declare().await?;

    let stored = CustomerV1 {
        country: "UK".to_owned(),
        number: 1,
        full_name: "Ada Lovelace".to_owned(),
    };
    old_program.insert(&stored).await?;

    // The old row is read as its own type and converted. Its ETag is kept.
    let mut ada = customers.get_existing(Customer::key("UK", 1)?).await?;
    assert_eq!(ada.first_name, "Ada");
    assert_eq!(ada.last_name, "Lovelace");

    // The written row has the new version. An old program that reads it gets an error.
    ada.last_name = "King".to_owned();
    customers.replace(&ada).await?;
    let error = old_program
        .get(CustomerV1::key("UK", 1)?)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("EntityVersion"), "{error}");

    // Entities that no program writes stay in the old version until a migration converts them. `plan` reads and converts every entity in
    // memory and writes nothing.
    for number in 2..=1_500 {
        let stored = CustomerV1 {
            country: "UK".to_owned(),
            number,
            full_name: "Grace Hopper".to_owned(),
        };
        old_program.insert(&stored).await?;
    }
    let plan = customers.upgrade().plan().await?;
    assert_eq!(plan.older(), 1_499, "{plan:?}");
    assert_eq!(plan.failed, 0, "{plan:?}");

    // After each page the program saves the cursor, for example to a file. If the program is stopped, the next run continues there.
    let saved_cursor = Arc::new(Mutex::new(None));
    let writer = Arc::clone(&saved_cursor);
    let save = move |so_far: &UpgradeReport| {
        if let Some(cursor) = &so_far.cursor {
            *writer.lock().expect("no panic while locked") = Some(cursor.to_string());
        }
    };
    let report = customers.upgrade().on_progress(save).run().await?;
    assert_eq!(report.upgraded, 1_499, "{report:?}");
    assert_eq!(report.failed, 0, "{report:?}");
    // A page has 1,000 entities, and the last saved cursor is the one after the first page.
    let cursor = saved_cursor
        .lock()
        .expect("no panic while locked")
        .take()
        .expect("more than one page");
    let rest = customers.upgrade().resume(cursor.parse()?).run().await?;
    assert_eq!(
        rest.rows, 500,
        "the first 1,000 entities are not read again"
    );
    assert_eq!(rest.upgraded, 0);
    Ok(())
}
