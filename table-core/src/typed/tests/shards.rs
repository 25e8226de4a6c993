//! Indexes with hashed shards and with lists of a chosen layout.

use crate::manifest::{Overflow, Shape};
use crate::model::Shards;
use crate::store::Result;
use crate::typed::{EntriesOf, IndexEntries, OneEntry, TableEntity};

#[derive(Clone, Debug, TableEntity)]
#[entity(crate = crate, type = "Employee")]
#[index(
    name,
    partition_key = "name_{name#16}",
    row_key = "by_{name}_{hired:04}_{department}_{id:06}"
)]
#[index(
    login,
    partition_key = "{region}_{login#4}",
    row_key = "{login}",
    unique = "table"
)]
#[index(city, row_key = "city_{city}", shape = list(bytes = 4096, overflow = blob))]
#[index(street, row_key = "street_{city}", shape = list(overflow = entities))]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    name: String,
    region: String,
    login: Option<String>,
    city: String,
    hired: u32,
}

fn ken(login: Option<&str>) -> Employee {
    let text = |text: &str| text.to_owned();
    let (department, name, region, city) = (text("Sales"), text("Kwok"), text("eu"), text("oslo"));
    Employee {
        department,
        id: 7,
        name,
        region,
        login: login.map(str::to_owned),
        city,
        hired: 2013,
    }
}

fn entries(entries: impl EntriesOf<Employee>) -> (String, String) {
    let found: IndexEntries<Employee> = entries.into_entries().unwrap();
    (found.partition().to_string(), found.rows().to_string())
}

fn one(named: impl EntriesOf<Employee, Kind = OneEntry>) -> (String, String) {
    entries(named)
}

#[test]
fn keys_have_the_shard_of_the_value() -> Result<()> {
    let key = ken(None).index_keys(0)?.remove(0);
    assert_eq!(key.partition(), Shards::new(16)?.partition("name_", "Kwok"));
    assert_eq!(key.row(), "by_Kwok_2013_Sales_000007");
    assert!(ken(None).index_keys(1)?.is_empty());
    let key = ken(Some("ken")).index_keys(1)?.remove(0);
    assert_eq!(key.partition(), &*Shards::new(4)?.partition("eu_", "ken"));
    assert_eq!(key.row(), "ken");
    Ok(())
}

#[test]
fn lookups_know_the_value_of_the_shard() -> Result<()> {
    let shard = Shards::new(16)?.partition("name_", "Kwok");
    let (partition, rows) = entries(Employee::by_name("Kwok"));
    assert_eq!(partition, shard);
    assert!(rows.contains("by_Kwok_"), "{rows}");
    let (partition, rows) = entries(
        Employee::by_name("Kwok")
            .hired(2013u32)
            .department("Sales")
            .id(7u32),
    );
    assert_eq!(partition, shard);
    assert!(rows.contains("by_Kwok_2013_Sales_000007"), "{rows}");
    let (partition, rows) = one(Employee::by_login("eu", "ken"));
    assert_eq!(partition, Shards::new(4)?.partition("eu_", "ken"));
    assert!(rows.contains("ken"), "{rows}");
    Ok(())
}

#[test]
fn all_shards_are_named_in_order() -> Result<()> {
    assert_eq!(
        Employee::name_shards()?,
        Shards::new(16)?.partitions("name_")
    );
    assert_eq!(
        Employee::login_shards("eu")?,
        ["eu_0", "eu_1", "eu_2", "eu_3"]
    );
    Ok(())
}

#[test]
fn schemas_say_how_lists_are_laid_out() {
    let [name, _, city, street] = Employee::SCHEMA.indexes else {
        panic!("four indexes")
    };
    assert_eq!(
        name.partition_key().unwrap().to_string(),
        "name_{name:text#16}"
    );
    assert_eq!(name.shape, Shape::Row);
    assert_eq!(
        city.shape,
        Shape::List {
            bytes: 4096,
            overflow: Overflow::Blob
        }
    );
    assert_eq!(street.shape, Shape::LIST);
}
