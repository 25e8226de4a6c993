use crate::memory::MemoryStore;
use crate::model::{ETag, Entity, Ticks, ValueRef};
use crate::typed::{FromEntity, Table, TableEntity};

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Employee")]
struct EmployeeV1 {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    name: String,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Employee", version = 2, previous = EmployeeV1)]
struct EmployeeV2 {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    first: String,
    last: String,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Employee", version = 3, previous = EmployeeV2)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    full: String,
    #[etag]
    etag: Option<ETag>,
    #[timestamp]
    written: Option<Ticks>,
}

impl From<EmployeeV1> for EmployeeV2 {
    fn from(EmployeeV1 { department, id, name }: EmployeeV1) -> Self {
        let (first, last) = name.split_once(' ').unwrap_or((&name, ""));
        Self { department, id, first: first.into(), last: last.into() }
    }
}

impl From<EmployeeV2> for Employee {
    fn from(old: EmployeeV2) -> Self {
        // A conversion that changes the key, for the test of that mistake.
        let id = if old.first == "Moved" { old.id + 1 } else { old.id };
        let full = format!("{} {}", old.first, old.last);
        Self { department: old.department, id, full, etag: None, written: None }
    }
}

fn first_version(name: &str) -> Entity {
    let old = EmployeeV1 { department: "Sales".into(), id: 7, name: name.into() };
    let entity = old.to_entity().unwrap();
    assert_eq!(entity.get("EntityVersion"), None);
    entity.with_system(Some(ETag::from_version(9)), Some(Ticks::MAX))
}

#[test]
fn an_old_row_passes_through_every_version_and_keeps_its_etag() {
    let read = Employee::from_entity(first_version("Ken Kwok")).unwrap();
    assert_eq!((read.full.as_str(), read.id), ("Ken Kwok", 7));
    assert_eq!(TableEntity::etag(&read), Some(&ETag::from_version(9)));
    assert_eq!(read.written, Some(Ticks::MAX));
    let written = read.to_entity().unwrap();
    assert_eq!(written.get("EntityVersion"), Some(ValueRef::Int32(3)));
    assert_eq!(Employee::from_entity(written).unwrap().full, "Ken Kwok");
}

#[test]
fn a_newer_row_is_refused() {
    let newer = first_version("Ken Kwok").with("EntityVersion", 4);
    for error in [Employee::from_entity(newer.clone()).map(drop), EmployeeV1::from_entity(newer).map(drop)] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("'EntityVersion'") && error.contains("found 4"), "{error}");
    }
}

#[test]
fn a_conversion_must_keep_the_key() {
    let error = Employee::from_entity(first_version("Moved Away")).unwrap_err().to_string();
    assert!(error.contains("a conversion from the previous version that keeps the key"), "{error}");
}

#[tokio::test]
async fn older_rows_are_upgraded_once() {
    let table = Table::<Employee>::new(MemoryStore::new(), "Employees").unwrap();
    table.create_if_missing().await.unwrap();
    let first = table.view::<EmployeeV1>().unwrap();
    let second = table.view::<EmployeeV2>().unwrap();
    for id in 0..3 {
        first.insert(&EmployeeV1 { department: "Sales".into(), id, name: "Ken Kwok".into() }).await.unwrap();
    }
    let (department, first_name) = ("Sales".to_owned(), "Ann".to_owned());
    second.insert(&EmployeeV2 { department, id: 9, first: first_name, last: "Lee".into() }).await.unwrap();
    let kens = table.query().filter(Employee::FULL.eq("Ken Kwok"));
    assert_eq!(kens.count().await.unwrap(), 0);
    assert_eq!(table.upgrade_all().await.unwrap(), 4);
    assert_eq!(table.upgrade_all().await.unwrap(), 0);
    assert_eq!(kens.count().await.unwrap(), 3);
}
