use crate::memory::MemoryStore;
use crate::model::{ETag, Entity, Properties, Ticks, ValueRef};
use crate::typed::{FromEntity, PlainTable, TableEntity};

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
    fn from(
        EmployeeV1 {
            department,
            id,
            name,
        }: EmployeeV1,
    ) -> Self {
        let (first, last) = name.split_once(' ').unwrap_or((&name, ""));
        Self {
            department,
            id,
            first: first.into(),
            last: last.into(),
        }
    }
}

impl From<EmployeeV2> for Employee {
    fn from(old: EmployeeV2) -> Self {
        // A conversion that changes the key, for the test of that mistake.
        let id = if old.first == "Moved" {
            old.id + 1
        } else {
            old.id
        };
        let full = format!("{} {}", old.first, old.last);
        Self {
            department: old.department,
            id,
            full,
            etag: None,
            written: None,
        }
    }
}

fn first_version(name: &str) -> Entity {
    let old = EmployeeV1 {
        department: "Sales".into(),
        id: 7,
        name: name.into(),
    };
    let entity = old.to_entity().unwrap();
    assert_eq!(entity.get("EntityVersion"), None);
    entity.with_system(Some(ETag::from_version(9)), Some(Ticks::MAX))
}

#[test]
fn an_old_row_passes_through_every_version_and_keeps_its_etag() {
    let read = Employee::from_entity(first_version("Ken Kwok")).unwrap();
    assert_eq!(read.full.as_str(), "Ken Kwok");
    assert_eq!(read.id, 7);
    assert_eq!(TableEntity::etag(&read), Some(&ETag::from_version(9)));
    assert_eq!(read.written, Some(Ticks::MAX));
    let written = read.to_entity().unwrap();
    assert_eq!(written.get("EntityVersion"), Some(ValueRef::Int32(3)));
    assert_eq!(Employee::from_entity(written).unwrap().full, "Ken Kwok");
}

#[test]
fn a_newer_row_is_refused() {
    let newer = first_version("Ken Kwok").with("EntityVersion", 4);
    for error in [
        Employee::from_entity(newer.clone()).map(drop),
        EmployeeV1::from_entity(newer).map(drop),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("'EntityVersion'") && error.contains("found 4"),
            "{error}"
        );
    }
}

#[test]
fn a_conversion_must_keep_the_key() {
    let error = Employee::from_entity(first_version("Moved Away"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a conversion from the previous version that keeps the key"),
        "{error}"
    );
}

#[tokio::test]
async fn older_rows_are_upgraded_once() {
    let table = PlainTable::<Employee>::new(MemoryStore::new(), "Employees").unwrap();
    table.create_if_missing().await.unwrap();
    let first = table.view::<EmployeeV1>().unwrap();
    let second = table.view::<EmployeeV2>().unwrap();
    for id in 0..3 {
        first
            .insert(&EmployeeV1 {
                department: "Sales".into(),
                id,
                name: "Ken Kwok".into(),
            })
            .await
            .unwrap();
    }
    let (department, first_name) = ("Sales".to_owned(), "Ann".to_owned());
    second
        .insert(&EmployeeV2 {
            department,
            id: 9,
            first: first_name,
            last: "Lee".into(),
        })
        .await
        .unwrap();
    let kens = table.query().filter(Employee::FULL.eq("Ken Kwok"));
    assert_eq!(kens.count().await.unwrap(), 0);
    assert_eq!(table.upgrade_all().await.unwrap(), 4);
    assert_eq!(table.upgrade_all().await.unwrap(), 0);
    assert_eq!(kens.count().await.unwrap(), 3);
}

/// Rows of it are read by programs of version 2: it only adds `title`.
#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Employee", version = 4, min_reader = 2, previous = EmployeeV2)]
struct Titled {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    first: String,
    last: String,
    title: Option<String>,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, projection_of = EmployeeV2)]
struct First {
    first: String,
}

#[derive(Debug, TableEntity)]
#[entity(crate = crate, type = "Employee", version = 2, previous = EmployeeV1)]
struct Keeping {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(rest)]
    rest: Properties,
}

impl From<EmployeeV1> for Keeping {
    fn from(EmployeeV1 { department, id, .. }: EmployeeV1) -> Self {
        Self {
            department,
            id,
            rest: Properties::new(),
        }
    }
}

impl From<EmployeeV2> for Titled {
    fn from(
        EmployeeV2 {
            department,
            id,
            first,
            last,
        }: EmployeeV2,
    ) -> Self {
        Self {
            department,
            id,
            first,
            last,
            title: None,
        }
    }
}

fn titled() -> Titled {
    let (first, last) = ("Ken".into(), "Kwok".into());
    Titled {
        department: "Sales".into(),
        id: 7,
        first,
        last,
        title: Some("Dr".into()),
    }
}

#[test]
fn a_later_row_names_the_earliest_version_that_reads_it() {
    let row = titled().to_entity().unwrap();
    assert_eq!(row.get("EntityVersion"), Some(ValueRef::Int32(4)));
    assert_eq!(row.get("EntityReader"), Some(ValueRef::Int32(2)));
    assert_eq!(Titled::from_entity(row.clone()).unwrap(), titled());
    let second = EmployeeV2::from_entity(row.clone()).unwrap();
    assert_eq!(second.first.as_str(), "Ken");
    assert_eq!(second.last.as_str(), "Kwok");
    assert_eq!(First::from_entity(row.clone()).unwrap().first, "Ken");
    // Version 3 is between the two, so it reads the row as its own and misses a property.
    let error = Employee::from_entity(row.clone()).unwrap_err().to_string();
    assert!(error.contains("'full'"), "{error}");
    // Version 1 is earlier than the earliest reader.
    let error = EmployeeV1::from_entity(row.clone())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("at most version 1, the latest version that this program can read, found 4"),
        "{error}"
    );
    // A field for all other properties does not contain the version properties.
    let rest = Keeping::from_entity(row).unwrap().rest;
    assert_eq!(
        rest.iter().map(|p| p.name().to_owned()).collect::<Vec<_>>(),
        ["first", "last", "title"]
    );
}

#[test]
fn the_reader_is_stored_only_if_it_is_an_earlier_version() {
    #[derive(TableEntity)]
    #[entity(crate = crate, type = "Employee", version = 4, min_reader = 4, previous = EmployeeV2)]
    struct Own {
        #[partition_key]
        department: String,
        #[row_key]
        id: u32,
    }
    impl From<EmployeeV2> for Own {
        fn from(EmployeeV2 { department, id, .. }: EmployeeV2) -> Self {
            Self { department, id }
        }
    }
    let own = Own {
        department: "Sales".into(),
        id: 7,
    };
    assert_eq!(own.to_entity().unwrap().get("EntityReader"), None);
    assert_eq!(Own::SCHEMA.min_reader, 4);
    assert_eq!(Titled::SCHEMA.min_reader, 2);
    assert_eq!(EmployeeV1::SCHEMA.min_reader, 1);
}

#[test]
fn a_row_that_a_conversion_made_loses_its_reader() {
    // A later definition of the type does not say any more that version 2 reads its rows.
    let mut old = titled().to_entity().unwrap();
    old.properties_mut().set("EntityVersion", 2);
    old.properties_mut().set("Unknown", 7);
    let mut new = Employee::from_entity(old.clone())
        .unwrap()
        .to_entity()
        .unwrap();
    Employee::SCHEMA.keep_unknown(&old, &mut new).unwrap();
    assert_eq!(new.get("EntityReader"), None);
    assert_eq!(new.get("EntityVersion"), Some(ValueRef::Int32(3)));
    assert_eq!(new.get("Unknown"), Some(ValueRef::Int32(7)));
}
