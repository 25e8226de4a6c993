//! Generated code must not depend on the names in scope.

#![no_implicit_prelude]
#![allow(dead_code, non_camel_case_types)]

extern crate std;

use std::prelude::v1::{Clone, derive, test};
use std::{assert, assert_eq};

struct Result;
struct Option;
struct String;
struct Vec;
struct Some;
struct None;
struct Ok;
struct Err;
trait Into {}
trait Default {}
mod core {}

type Text = std::string::String;

#[derive(Clone, ::table_core::typed::Property, ::table_core::model::KeyPart)]
enum Kind {
    Ok,
    Err,
}

#[derive(Clone, ::table_core::typed::PropertyGroup)]
struct Group {
    inner: i32,
    #[entity(default)]
    other: i64,
}

#[derive(Clone, ::table_core::typed::TableEntity)]
#[entity(type = "Thing", version = 2, previous = Old, partition_key = "{kind}", row_key = "{r#type:04}_{name}")]
#[index(value, row_key = "value_{value}_{r#type:04}_{name}", payload = fields(list))]
#[index(
    r#type,
    table = "Types",
    partition_key = "{r#type:04}",
    row_key = "type",
    unique = "table"
)]
struct Thing {
    kind: Kind,
    r#type: u32,
    name: Text,
    value: std::option::Option<Kind>,
    #[entity(json)]
    list: std::vec::Vec<i32>,
    #[entity(skip)]
    skipped: i32,
    #[entity(flatten)]
    group: Group,
    #[encrypt]
    secret: Text,
    #[entity(rest)]
    rest: ::table_core::model::Properties,
    #[etag]
    etag: std::option::Option<::table_core::model::ETag>,
    #[timestamp]
    timestamp: std::option::Option<::table_core::model::Ticks>,
}

#[derive(::table_core::typed::TableEntity)]
#[entity(type = "Thing", partition_key = "{kind}", row_key = "{type:04}_{name}")]
struct Old {
    kind: Kind,
    r#type: u32,
    name: Text,
}

impl std::convert::From<Old> for Thing {
    fn from(old: Old) -> Thing {
        Thing {
            kind: old.kind,
            r#type: old.r#type,
            name: old.name,
            value: std::option::Option::None,
            list: std::vec::Vec::new(),
            skipped: 0,
            group: Group { inner: 0, other: 0 },
            secret: Text::new(),
            rest: ::table_core::model::Properties::new(),
            etag: std::option::Option::None,
            timestamp: std::option::Option::None,
        }
    }
}

#[derive(::table_core::typed::TableEntity)]
#[entity(projection_of = Thing)]
struct Part {
    #[row_key]
    r#type: u32,
    value: std::option::Option<Kind>,
}

#[derive(::table_core::typed::EntityResolver)]
enum Row {
    Thing(Thing),
    #[resolver(other)]
    Other(::table_core::model::Entity),
}

#[test]
fn generated_code_depends_on_no_imports() {
    let key = std::result::Result::unwrap(Thing::key(Kind::Err, 7, "x_y"));
    assert_eq!(key.key().row(), "0007_x_y");
    let row = std::result::Result::unwrap(::table_core::model::Entity::new("Ok", "other"));
    let row = <Row as ::table_core::typed::FromEntity>::from_entity(row);
    assert!(std::matches!(row, std::result::Result::Ok(Row::Other(_))));
}
