//! Derived code causes no warnings, and is correct if names and types come from macros.

#![deny(warnings)]
#![allow(dead_code)]

use table_core::typed::{EntityResolver, Property, PropertyGroup, TableEntity};

#[derive(Debug, PartialEq, PropertyGroup)]
struct Address {
    city: String,
    #[deprecated = "the post does not use it"]
    district: Option<String>,
}

#[derive(Debug, PartialEq, Property, table_core::model::KeyPart)]
enum State {
    Open,
    #[deprecated = "nothing is closed any more"]
    Closed,
}

#[derive(TableEntity)]
#[entity(
    type = "Person",
    partition_key = "{country}",
    row_key = "{state}_{number}"
)]
#[index(telex, row_key = "telex_{telex}_{state}_{number}", payload = fields(fax))]
struct Person {
    country: String,
    state: State,
    #[deprecated]
    number: u32,
    #[deprecated]
    telex: Option<String>,
    #[deprecated]
    fax: Option<String>,
    #[deprecated]
    #[entity(default)]
    pager: String,
    #[deprecated]
    #[entity(flatten)]
    home: Address,
    #[deprecated]
    #[etag]
    etag: Option<table_core::model::ETag>,
    #[deprecated]
    #[entity(skip)]
    age: u32,
}

#[derive(TableEntity)]
#[entity(projection_of = Person)]
struct Number {
    #[deprecated]
    telex: Option<String>,
}

#[deprecated]
#[derive(TableEntity)]
#[entity(type = "Company")]
struct Company {
    #[partition_key]
    country: String,
    #[row_key]
    number: u32,
}

#[derive(EntityResolver)]
#[allow(deprecated)]
enum Row {
    #[deprecated]
    Person(Person),
    Company(Company),
}

/// All identifiers are macro parameters.
macro_rules! entity {
    ($(#[$attr:meta])* $name:ident { $($(#[$of:meta])* $field:ident: $ty:ty,)* }) => {
        #[derive(TableEntity)]
        $(#[$attr])*
        struct $name {
            $($(#[$of])* $field: $ty,)*
        }
    };
}

entity! {
    #[entity(type = "Plane", partition_key = "{maker}", row_key = "{number:04}")]
    #[index(owner, row_key = "owner_{owner}_{number:04}", payload = fields(seats))]
    #[index(shard, partition_key = "{owner#4}_{maker}", row_key = "{owner}_{number:04}")]
    Plane {
        maker: String,
        number: u32,
        owner: Option<String>,
        seats: i32,
        #[entity(json)]
        crew: Vec<String>,
        #[entity(default)]
        doors: i32,
        #[etag]
        etag: Option<table_core::model::ETag>,
        #[timestamp]
        timestamp: Option<table_core::model::Ticks>,
        #[entity(flatten)]
        home: Address,
        #[entity(rest)]
        rest: table_core::model::Properties,
    }
}

/// The templates are macro parameters, the fields are not.
macro_rules! city {
    ($name:ident, $row:literal, $entry:literal, $partition:literal) => {
        #[derive(TableEntity)]
        #[entity(type = "City", partition_key = "{country}", row_key = $row)]
        #[index(city, row_key = $entry)]
        #[index(mayor, partition_key = $partition, row_key = $entry, unique = "table")]
        struct $name {
            country: String,
            city: String,
            mayor: Option<String>,
        }
    };
}

city!(City, "city_{city}", "{city}_{country}", "{city#4}_{mayor}");

/// The template is written here; a field and the types are macro parameters.
macro_rules! kept {
    ($name:ident, $patch:ident, $field:ident, $key:ty, $value:ty, $codec:ty) => {
        #[derive(TableEntity)]
        #[entity(type = "Kept", row_key = "kept_{city}")]
        #[index(city, row_key = "city_{city}")]
        struct $name {
            #[partition_key]
            $field: $key,
            city: $key,
            value: $value,
            #[entity(with = $codec)]
            text: $value,
        }
    };
}

kept!(
    Kept,
    KeptPatch,
    city_of,
    String,
    i64,
    table_core::typed::Plain
);

/// A later version, a projection and a resolver of types that are macro parameters.
macro_rules! related {
    ($new:ident, $old:ty, $part:ident, $row:ident) => {
        #[derive(TableEntity)]
        #[entity(type = "Old", version = 2, previous = $old)]
        struct $new {
            #[partition_key]
            a: String,
            #[row_key]
            b: u32,
            #[etag]
            etag: Option<table_core::model::ETag>,
        }

        impl From<$old> for $new {
            fn from(old: $old) -> Self {
                Self {
                    a: old.a,
                    b: old.b,
                    etag: None,
                }
            }
        }

        #[derive(TableEntity)]
        #[entity(projection_of = $old)]
        struct $part {
            #[row_key]
            b: u32,
            c: Option<i32>,
        }

        #[derive(EntityResolver)]
        enum $row {
            Plane(Plane),
            Old($old),
            #[resolver(other)]
            Other(table_core::model::Entity),
        }
    };
}

#[derive(TableEntity)]
#[entity(type = "Old")]
struct Old {
    #[partition_key]
    a: String,
    #[row_key]
    b: u32,
    c: Option<i32>,
}

related!(New, Old, Part, AnyRow);

#[test]
fn keys_and_entries_come_from_the_fields() {
    let oslo = City {
        country: "no".into(),
        city: "oslo".into(),
        mayor: Some("anne".into()),
    };
    assert_eq!(oslo.entity_key().unwrap().key().row(), "city_oslo");
    assert_eq!(oslo.index_keys(0).unwrap()[0].row(), "oslo_no");
    let key = Plane::key("Airbus", 7u32).unwrap();
    assert_eq!(key.key().partition(), "Airbus");
    assert_eq!(key.key().row(), "0007");
    let _ = (
        Plane::by_owner("Airbus").owner("UA").number(7u32),
        Plane::by_shard("UA", "Airbus"),
    );
    let _ = (
        Plane::shard_shards("Airbus"),
        Plane::patch().doors(3),
        Plane::row_prefix().number(7u32),
    );
    let kept = Kept {
        city_of: "p".into(),
        city: "r".into(),
        value: 1,
        text: 2,
    };
    let read =
        <Kept as table_core::typed::FromEntity>::from_entity(kept.to_entity().unwrap()).unwrap();
    assert_eq!(read.value, 1);
    assert_eq!(read.text, 2);
}
