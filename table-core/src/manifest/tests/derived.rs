//! Definitions of derived types, evaluated on what the types store.

use chrono::{DateTime, NaiveDate, Utc};
use proptest::prelude::*;
use uuid::Uuid;

use crate::manifest::IndexDefinition;
use crate::model::{Entity, Key, KeyPart, Reverse, Ticks};
use crate::store::Result;
use crate::typed::{Property, TableEntity};

#[derive(Clone, Copy, Debug, PartialEq, KeyPart, Property)]
#[entity(crate = crate, rename_all = "kebab-case")]
enum Kind {
    NewHire,
    Old,
}

#[derive(Clone, Debug, PartialEq, KeyPart, Property)]
#[entity(crate = crate)]
struct Code(u16);

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Employee", rename_all = "PascalCase", partition_key = "{department}_{day}_{older}",
         row_key = "empid_{id:06}_{code}_{id:06}")]
#[index(email, row_key = "email_{email}", unique = "partition")]
#[index(
    all,
    partition_key = "{kind}_{score}_{at}",
    row_key = "{age:04}{height}{active}{badge}{big}_{name}_{department}_{day}{older}{id}{code}"
)]
#[index(
    keys,
    partition_key = "k_{older}{day}",
    row_key = "{department}_{id}{code:06}"
)]
#[index(
    shard,
    partition_key = "s_{name#16}",
    row_key = "{name}_{department}_{day}{older}{id}{code}"
)]
#[index(city, table = "Cities", partition_key = "{city}", row_key = "all", shape = list)]
#[index(
    lower,
    partition_key = "l_{name:lower#16}",
    row_key = "{name:lower}_{department}_{day}{older}{id}{code}"
)]
#[index(start, row_key = "start_{name:lower:prefix(3)}_{id}{code}")]
#[index(
    days,
    partition_key = "d_{at:date}",
    row_key = "{at:desc}{at:hour}{score:desc}{age:desc:05}_{department}_{day}{older}{id}{code}"
)]
#[index(
    tag,
    row_key = "tag_{tags[]:lower}_{id}{code}",
    where = "Name ge 'm' and (Height gt 0 or Active)"
)]
#[index(
    number,
    partition_key = "n_{numbers[]}",
    row_key = "{department}_{day}{older}{id}{code}"
)]
struct Employee {
    department: String,
    day: NaiveDate,
    older: Reverse<Ticks>,
    id: u32,
    code: Code,
    email: Option<String>,
    kind: Kind,
    score: f64,
    at: DateTime<Utc>,
    age: u32,
    height: i16,
    active: bool,
    badge: Uuid,
    big: i64,
    name: String,
    city: Option<String>,
    #[entity(json)]
    tags: Vec<String>,
    #[entity(json)]
    numbers: Option<Vec<u16>>,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,6}", "[A-Za-z_~/#ÄΣ]{0,8}"]
}

prop_compose! {
    fn employee()(
        department in text(), days in 0i32..700_000, ticks in 0..=Ticks::MAX.get(), id in 0u32..1_000_000, code in any::<u16>(),
        email in proptest::option::of(text()), kind in any::<bool>(),
        score in any::<f64>().prop_filter("NaN has no key", |v| !v.is_nan()), at in 0..=Ticks::MAX.get(),
        (age, height, active, badge) in (0u32..10_000, any::<i16>(), any::<bool>(), any::<u128>()),
        (big, name, city) in (any::<i64>(), text(), proptest::option::of(text())),
        (tags, numbers) in (
            proptest::collection::vec(text(), 0..5),
            proptest::option::of(proptest::collection::vec(any::<u16>(), 0..5)),
        ),
    ) -> Employee {
        Employee {
            department, id, email, score, age, height, active, big, name, city, tags, numbers,
            day: NaiveDate::from_num_days_from_ce_opt(days + 1).unwrap(),
            older: Reverse(Ticks::new(ticks).unwrap()),
            code: Code(code),
            kind: if kind { Kind::NewHire } else { Kind::Old },
            at: Ticks::new(at).unwrap().to_datetime(),
            badge: Uuid::from_u128(badge),
        }
    }
}

/// The keys by the derived code and by each definition, after it was written as JSON and read back.
fn check<T: TableEntity>(value: &T) -> Result<()> {
    let entity = value.to_entity()?;
    for (n, definition) in T::SCHEMA.indexes.iter().enumerate() {
        assert!(!definition.is_opaque(), "{definition:?}");
        let definition = IndexDefinition::from_json(&definition.to_json())?;
        // `index_keys` ignores the condition, which compares stored properties.
        let admitted = definition.evaluator()?.admits(&entity)?;
        let derived = if admitted {
            value.index_keys(n)?
        } else {
            Vec::new()
        };
        assert_eq!(
            definition.entry_keys(&entity)?,
            derived,
            "{}",
            definition.name
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn definitions_give_the_keys_of_derived_code(employee in employee()) {
        check(&employee)?;
    }
}

#[test]
fn rows_of_other_types_have_no_entry() -> Result<()> {
    let other = Entity::new("p", "r")?
        .with("EntityType", "Order")
        .with("Email", "x");
    for definition in Employee::SCHEMA.indexes {
        assert!(definition.entry_keys(&other)?.is_empty());
    }
    Ok(())
}

/// A key that is none of the type's is an error, as it is where the entity is read.
#[test]
fn an_unreadable_key_is_refused() {
    let stray = Entity::new("p", "r")
        .unwrap()
        .with("EntityType", "Employee");
    let keys = &Employee::SCHEMA.indexes[2];
    let error = keys.entry_keys(&stray).unwrap_err().to_string();
    assert!(error.contains("PartitionKey"), "{error}");
}

#[derive(Debug, TableEntity)]
#[entity(crate = crate, rename_all = "PascalCase")]
#[index(kind, table = "Kinds", partition_key = "{kind}", row_key = "{id}")]
struct Thing {
    #[partition_key]
    id: String,
    #[row_key]
    kind: String,
}

/// An entry of the same table must not be where an entity can be: both ways say so.
#[test]
fn the_key_of_an_entity_is_none_of_an_entry() -> Result<()> {
    let mut definition = Thing::SCHEMA.indexes[0].clone();
    let thing = Thing {
        id: "a".into(),
        kind: "b".into(),
    };
    assert_eq!(
        definition.entry_keys(&thing.to_entity()?)?,
        [Key::new("b", "a")?]
    );
    definition.placement = crate::manifest::Placement::OtherPartition;
    let error = definition
        .entry_keys(&thing.to_entity()?)
        .unwrap_err()
        .to_string();
    assert!(error.contains("an entity could have"), "{error}");
    Ok(())
}
