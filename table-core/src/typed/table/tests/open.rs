use std::sync::Arc;

use super::*;
use crate::memory::MemoryStore;
use crate::model::{Entity, TableName};
use crate::query::{Filter, Select};
use crate::store::{ErrorKind, Result, ServiceProfile, TableStore};
use crate::typed::{FromEntity, PlainTable, Requirements};

#[derive(Debug)]
struct Secretive;

impl FromEntity for Secretive {
    fn select() -> Option<Select> {
        None
    }

    fn type_filter() -> Option<Filter> {
        None
    }

    fn requirements() -> Requirements {
        Requirements {
            encrypted: vec!["NationalId"],
            ..Requirements::default()
        }
    }

    fn from_entity(_: Entity) -> Result<Self> {
        Ok(Self)
    }
}

#[test]
fn a_type_with_encrypted_properties_needs_a_store_that_encrypts() {
    let error = PlainTable::<Secretive>::new(MemoryStore::new(), "People").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }));
    assert!(
        error.to_string().contains("'NationalId' in 'People'"),
        "{error}"
    );

    let plain = PlainTable::<Entity>::new(MemoryStore::new(), "People").unwrap();
    assert!(plain.view::<Secretive>().is_err());

    let encrypting = MemoryStore::with_profile(ServiceProfile::LOCAL.with_encryption());
    assert!(PlainTable::<Secretive>::new(encrypting, "People").is_ok());
}

#[test]
fn names_are_checked() {
    let error = PlainTable::<Employee>::new(MemoryStore::new(), "no-dashes").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidName { .. }));
    assert!(
        PlainTable::<Employee>::new(MemoryStore::new(), TableName::new("Employees").unwrap())
            .is_ok()
    );
}

#[test]
fn a_shared_store_is_not_wrapped_again() {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let table = PlainTable::<Employee>::new(Arc::clone(&store), "Employees").unwrap();
    assert!(Arc::ptr_eq(&store, table.store()));
    assert!(Arc::ptr_eq(&store, table.view::<Badge>().unwrap().store()));
}

#[tokio::test]
async fn creating_twice_costs_a_request_each() {
    let (table, meter) = employees([]).await;
    assert!(!table.create_if_missing().await.unwrap());
    assert!(!table.create_if_missing().await.unwrap());
    assert_eq!(meter.total(), 2);
}

#[tokio::test]
async fn deleting_twice_costs_a_request_each() {
    let (table, meter) = employees([1]).await;
    assert!(table.delete_table_if_exists().await.unwrap());
    assert!(!table.delete_table_if_exists().await.unwrap());
    assert_eq!(meter.total(), 2);
}
