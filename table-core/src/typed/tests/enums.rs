//! Enums as text and integers, values that a program does not know, and former texts.

use crate::model::property::written;
use crate::model::{
    EdmType, EdmValue, Key, KeyBuilder, KeyParser, KeyPart, KeyPartType, PartFormat, ValueRef,
};
use crate::typed::{FromEntity, Property, TableEntity};

#[derive(Clone, Copy, Debug, PartialEq, Property, KeyPart)]
#[entity(crate = crate, integer)]
enum Level {
    Low = 1,
    High = 10,
}

#[derive(Clone, Debug, PartialEq, Property, KeyPart)]
#[entity(crate = crate, rename_all = "lowercase")]
enum State {
    Open,
    #[entity(rename = "done")]
    Closed,
    #[entity(other)]
    Other(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Property)]
#[entity(crate = crate, rename_all = "lowercase")]
enum Kind {
    #[entity(alias = "staff", alias = "Employee")]
    Employee,
    #[entity(other)]
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Property, KeyPart)]
#[entity(crate = crate, integer)]
#[repr(i32)]
enum Grade {
    First = 1,
    #[entity(other)]
    Other(i32),
}

fn stored<T: Property>(value: &T) -> EdmValue {
    written(|sink| value.write(sink)).unwrap().unwrap()
}

fn key<T: KeyPart>(value: &T) -> String {
    KeyBuilder::new("RowKey", "{v}")
        .part("v", value, PartFormat::PLAIN)
        .unwrap()
        .finish()
}

fn parsed<T: KeyPart>(text: &str) -> crate::Result<T> {
    KeyParser::row("T", "{v}", &Key::new("p", text)?).part("v", PartFormat::PLAIN)
}

#[test]
fn an_enum_is_an_integer() {
    assert_eq!(Level::TYPE, EdmType::Int32);
    assert_eq!(Level::KEY_TYPE, KeyPartType::I32);
    assert_eq!(stored(&Level::High), EdmValue::Int32(10));
    assert_eq!(Level::read(ValueRef::Int32(1)).unwrap(), Level::Low);
    assert_eq!(
        Level::read(ValueRef::Int64(10)).unwrap(),
        Level::High,
        "another client's width"
    );
    let error = Level::read(ValueRef::Int32(2)).unwrap_err().to_string();
    assert!(
        error.starts_with("expected one of 1, 10, found 2") && error.contains("#[entity(other)]"),
        "{error}"
    );
    assert!(Level::read(ValueRef::Int64(1 << 32)).is_err());
    assert!(Level::read(ValueRef::String("1")).is_err());
    assert_eq!(key(&Level::High), key(&10_i32));
    assert_eq!(parsed::<Level>(&key(&1_i32)).unwrap(), Level::Low);
    assert!(parsed::<Level>(&key(&2_i32)).is_err());
}

#[test]
fn an_unknown_value_is_kept() {
    assert_eq!(
        State::read(ValueRef::String("done")).unwrap(),
        State::Closed
    );
    let later = State::read(ValueRef::String("paused")).unwrap();
    assert_eq!(later, State::Other("paused".into()));
    assert_eq!(stored(&later), "paused".into());
    assert_eq!(key(&later), "paused");
    assert_eq!(parsed::<State>("paused").unwrap(), later);
    assert_eq!(Grade::read(ValueRef::Int32(7)).unwrap(), Grade::Other(7));
    assert_eq!(stored(&Grade::Other(7)), EdmValue::Int32(7));
    assert_eq!(
        parsed::<Grade>(&key(&Grade::Other(-3))).unwrap(),
        Grade::Other(-3)
    );
    assert_eq!(Grade::read(ValueRef::Int32(1)).unwrap(), Grade::First);
    assert!(
        State::read(ValueRef::Int32(1)).is_err(),
        "another type is no unknown value"
    );
}

/// A variant without the value can be read. A write would lose the value.
#[test]
fn a_variant_without_the_value_is_not_written() {
    assert_eq!(
        Kind::read(ValueRef::String("robot")).unwrap(),
        Kind::Unknown
    );
    let error = written(|sink| Kind::Unknown.write(sink))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Kind::Unknown") && error.contains("Other(String)"),
        "{error}"
    );
}

#[test]
fn former_texts_are_read() {
    for text in ["employee", "staff", "Employee"] {
        assert_eq!(Kind::read(ValueRef::String(text)).unwrap(), Kind::Employee);
    }
    assert_eq!(stored(&Kind::Employee), "employee".into());
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, partition_key = "tasks", row_key = "{state}_{id}")]
struct Task {
    state: State,
    id: u32,
    level: Level,
    kind: Option<Kind>,
}

#[test]
fn an_entity_has_enums_in_key_and_properties() {
    let task = Task {
        state: State::Other("paused".into()),
        id: 1,
        level: Level::High,
        kind: None,
    };
    let entity = task.to_entity().unwrap();
    assert_eq!(entity.key().row(), "paused_0000000001");
    assert_eq!(Task::from_entity(entity).unwrap(), task);
    let filter = Task::LEVEL.ge(Level::Low).into_filter().unwrap();
    assert_eq!(filter.to_string(), "level ge 1");
    assert!(
        Task::KIND.eq(Kind::Unknown).into_filter().is_err(),
        "the unknown value has no text to compare"
    );
}
