//! A type that changed: old rows are read as the new type, and written as the new type; a migration converts all of them.

use std::sync::{Arc, Mutex};

use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::typed::UpgradeReport;

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
    for number in 2..=1_500 {
        let stored = CustomerV1 { country: "UK".to_owned(), number, full_name: "Grace Hopper".to_owned() };
        old_program.insert(&stored).await?;
    }
    let plan = customers.upgrade().plan().await?;
    assert_eq!((plan.older(), plan.failed), (1_499, 0), "{plan:?}");

    // After each page the place is saved as text: a program that is stopped goes on there.
    let saved = Arc::new(Mutex::new(None));
    let places = Arc::clone(&saved);
    let save = move |so_far: &UpgradeReport| {
        if let Some(place) = &so_far.cursor {
            *places.lock().unwrap() = Some(place.to_string());
        }
    };
    let report = customers.upgrade().on_progress(save).run().await?;
    assert_eq!((report.upgraded, report.failed), (1_499, 0), "{report:?}");
    let place = saved.lock().unwrap().take().expect("more than one page");
    let rest = customers.upgrade().resume(place.parse()?).run().await?;
    assert_eq!((rest.rows, rest.upgraded), (500, 0), "the first 1,000 rows are not read again");
    Ok(())
}
