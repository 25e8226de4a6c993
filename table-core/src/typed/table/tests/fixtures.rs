use crate::adapter::{Metered, RequestMeter};
use crate::memory::MemoryStore;
use crate::model::{ETag, EdmType, Entity, Key, PartitionKey, Properties, ValueRef};
use crate::query::{Filter, Select};
use crate::store::{Error, Result};
use crate::typed::{
    Discriminator, EntityKey, EntityPatch, FromEntity, PartitionOf, PlainTable, PropertySchema,
    Schema, TableEntity,
};
use std::borrow::Cow;

/// Schema version 1, with a property as discriminator and an ETag field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Employee {
    pub(super) department: String,
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) age: Option<i32>,
    pub(super) etag: Option<ETag>,
}

#[derive(Debug, Default)]
pub(super) struct EmployeePatch {
    pub(super) name: Option<String>,
    pub(super) age: Option<i32>,
}

/// Schema version 2, with a RowKey prefix as discriminator and without an ETag field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Badge {
    pub(super) department: String,
    pub(super) id: u32,
    pub(super) color: String,
}

#[derive(Debug, Default)]
pub(super) struct BadgePatch {
    pub(super) color: Option<String>,
}

/// A projection of an employee.
#[derive(Debug, PartialEq)]
pub(super) struct Named {
    pub(super) name: String,
}

const fn property(name: &'static str, edm_type: EdmType, optional: bool) -> PropertySchema {
    PropertySchema {
        name,
        aliases: &[],
        alias_prefix: "",
        edm_type,
        optional,
        encrypted: false,
        large: None,
        split: false,
    }
}

const EMPLOYEE: Schema = Schema {
    rust_name: "Employee",
    type_name: "Employee",
    discriminator: Discriminator::Property(Cow::Borrowed(Schema::TYPE_PROPERTY)),
    version: 1,
    min_reader: 1,
    previous: None,
    has_versions: false,
    partition_key: "{department}",
    row_key: "empid_{id:06}",
    row_key_is_open: false,
    properties: &[
        property("Name", EdmType::String, false),
        property("Age", EdmType::Int32, true),
    ],
    indexes: &[],
    spread: None,
    keeps_rest: false,
    wide: false,
    expiry: None,
};

const BADGE: Schema = Schema {
    rust_name: "Badge",
    type_name: "Badge",
    discriminator: Discriminator::RowPrefix(Cow::Borrowed("badge_")),
    version: 2,
    min_reader: 2,
    previous: None,
    has_versions: true,
    partition_key: "{department}",
    row_key: "badge_{id:06}",
    row_key_is_open: false,
    properties: &[property("Color", EdmType::String, false)],
    indexes: &[],
    spread: None,
    keeps_rest: false,
    wide: false,
    expiry: None,
};

fn text(entity: &Entity, name: &'static str) -> Result<String> {
    match entity.get(name) {
        Some(ValueRef::String(text)) => Ok(text.to_owned()),
        found => Err(Error::decode(
            "test",
            entity.key(),
            name,
            "String",
            format!("{found:?}"),
        )),
    }
}

fn id(entity: &Entity) -> u32 {
    entity
        .key()
        .row()
        .rsplit('_')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

impl FromEntity for Employee {
    fn select() -> Option<Select> {
        Some(Select::new(["Name", "Age", Schema::TYPE_PROPERTY]))
    }

    fn type_filter() -> Option<Filter> {
        EMPLOYEE.discriminator.filter("Employee")
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        Ok(Self {
            department: entity.key().partition().to_owned(),
            id: id(&entity),
            name: text(&entity, "Name")?,
            age: match entity.get("Age") {
                Some(ValueRef::Int32(age)) => Some(age),
                _ => None,
            },
            etag: entity.etag().cloned(),
        })
    }
}

impl TableEntity for Employee {
    type Patch = EmployeePatch;
    const SCHEMA: &'static Schema = &EMPLOYEE;

    fn entity_key(&self) -> Result<EntityKey<Self>> {
        Key::new(&self.department, format!("empid_{:06}", self.id)).map(EntityKey::new)
    }

    fn to_logical(&self) -> Result<Entity> {
        let entity = Entity::from(self.entity_key()?.into_key());
        let entity = entity
            .with(Schema::TYPE_PROPERTY, "Employee")
            .with("Name", self.name.as_str());
        Ok(match self.age {
            Some(age) => entity.with("Age", age),
            None => entity,
        })
    }

    fn etag(&self) -> Option<&ETag> {
        self.etag.as_ref()
    }
}

impl EntityPatch for EmployeePatch {
    type Entity = Employee;

    fn to_properties(&self) -> Result<Properties> {
        let mut properties = Properties::new();
        self.name
            .iter()
            .for_each(|name| properties.set("Name", name.as_str()));
        self.age.iter().for_each(|age| properties.set("Age", *age));
        Ok(properties)
    }
}

impl FromEntity for Badge {
    fn select() -> Option<Select> {
        None
    }

    fn type_filter() -> Option<Filter> {
        BADGE.discriminator.filter("Badge")
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        let department = entity.key().partition().to_owned();
        Ok(Self {
            department,
            id: id(&entity),
            color: text(&entity, "Color")?,
        })
    }
}

impl TableEntity for Badge {
    type Patch = BadgePatch;
    const SCHEMA: &'static Schema = &BADGE;

    fn entity_key(&self) -> Result<EntityKey<Self>> {
        Key::new(&self.department, format!("badge_{:06}", self.id)).map(EntityKey::new)
    }

    fn to_logical(&self) -> Result<Entity> {
        let entity = Entity::from(self.entity_key()?.into_key());
        Ok(entity
            .with("Color", self.color.as_str())
            .with(Schema::VERSION_PROPERTY, 2_i64))
    }

    fn etag(&self) -> Option<&ETag> {
        None
    }
}

impl EntityPatch for BadgePatch {
    type Entity = Badge;

    fn to_properties(&self) -> Result<Properties> {
        let mut properties = Properties::new();
        self.color
            .iter()
            .for_each(|color| properties.set("Color", color.as_str()));
        Ok(properties)
    }
}

impl FromEntity for Named {
    fn select() -> Option<Select> {
        Some(Select::new(["Name"]))
    }

    fn type_filter() -> Option<Filter> {
        Employee::type_filter()
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        text(&entity, "Name").map(|name| Self { name })
    }
}

pub(super) fn employee(id: u32, name: &str) -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id,
        name: name.to_owned(),
        age: None,
        etag: None,
    }
}

pub(super) fn key(id: u32) -> EntityKey<Employee> {
    employee(id, "").entity_key().unwrap()
}

pub(super) fn sales<T>() -> PartitionOf<T> {
    PartitionOf::new(PartitionKey::new("Sales").unwrap())
}

/// A table with employees of these numbers, named `n1`, `n2`, …; the meter is at zero.
pub(super) async fn employees(
    ids: impl IntoIterator<Item = u32>,
) -> (PlainTable<Employee>, RequestMeter) {
    let store = MemoryStore::new();
    let table = PlainTable::<Employee>::new(store.clone(), "Employees").unwrap();
    assert!(table.create_if_missing().await.unwrap());
    for id in ids {
        table
            .insert(&employee(id, &format!("n{id}")))
            .await
            .unwrap();
    }
    let meter = RequestMeter::new();
    (
        PlainTable::new(Metered::new(store, meter.clone()), "Employees").unwrap(),
        meter,
    )
}
