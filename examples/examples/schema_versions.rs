//! A type that changed: old rows are read as the new type, and written as the new type; a migration converts all of them.

use std::sync::{Arc, Mutex};

use table_core::memory::MemoryStore;
use table_core::prelude::*;

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
    fn from(CustomerV1 { country, number, full_name }: CustomerV1) -> Self {
        let (first, last) = full_name.split_once(' ').unwrap_or(("", &full_name));
        Self { country, number, first_name: first.to_owned(), last_name: last.to_owned(), etag: None }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let customers = Table::<Customer>::new(MemoryStore::new(), "Customers")?;
    let old_program = customers.view::<CustomerV1>()?;
    customers.create_if_missing().await?;

    let stored = CustomerV1 { country: "UK".to_owned(), number: 1, full_name: "Ada Lovelace".to_owned() };
    old_program.insert(&stored).await?;

    // The old row is read as its own type and converted. Its ETag is kept.
    let mut ada = customers.get_existing(Customer::key("UK", 1)?).await?;
    assert_eq!(ada.first_name.as_str(), "Ada");
    assert_eq!(ada.last_name.as_str(), "Lovelace");

    // The written row has the new version. An old program that reads it gets an error.
    ada.last_name = "King".to_owned();
    customers.replace(&ada).await?;
    let error = old_program.get(CustomerV1::key("UK", 1)?).await.unwrap_err();
    assert!(error.to_string().contains("EntityVersion"), "{error}");

    // A migration converts the rows that nobody writes. A plan reads and converts, and writes nothing.
    for number in 2..=5 {
        let stored = CustomerV1 { country: "UK".to_owned(), number, full_name: "Grace Hopper".to_owned() };
        old_program.insert(&stored).await?;
    }
    let plan = customers.upgrade().plan().await?;
    assert_eq!((plan.older(), plan.failed), (4, 0), "{plan:?}");

    // The place of the last page can be saved as text: a program that was stopped goes on there.
    let place = Arc::new(Mutex::new(None));
    let saved = Arc::clone(&place);
    let save =
        move |so_far: &table_core::typed::UpgradeReport| saved.lock().unwrap().clone_from(&so_far.cursor);
    let report = customers.upgrade().on_progress(save).run().await?;
    assert_eq!((report.upgraded, report.failed), (4, 0), "{report:?}");
    let last = place.lock().unwrap().take(); // `None`: the migration has ended
    assert!(last.is_none());
    let again = match last {
        Some(place) => customers.upgrade().resume(place),
        None => customers.upgrade(),
    };
    assert_eq!(again.run().await?.upgraded, 0, "nothing is left");
    Ok(())
}
