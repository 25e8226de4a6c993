use crate::model::{EdmType, Entity, KeyPart, ValueRef};
use crate::query::Filter;
use crate::typed::{FromEntity, Property, RowPrefix, TableEntity};

#[derive(Clone, Copy, Debug, PartialEq, Property, KeyPart)]
#[entity(crate = crate, rename_all = "kebab-case")]
enum Kind {
    FullTime,
    PartTime,
    #[entity(rename = "a/b")]
    Other,
}

#[derive(Clone, Debug, PartialEq, Property, KeyPart)]
#[entity(crate = crate)]
struct Email(String);

#[derive(Clone, Debug, PartialEq, Property, KeyPart)]
#[entity(crate = crate)]
struct Id {
    inner: u32,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(crate = crate, partition_key = "{kind}", row_key = "{id:06}_{email}")]
struct Account {
    kind: Kind,
    id: Id,
    email: Email,
    last_kind: Option<Kind>,
    alias: Email,
    boss: Option<Id>,
}

fn account() -> Account {
    Account {
        kind: Kind::Other,
        id: Id { inner: 7 },
        email: Email("a_b@c".into()),
        last_kind: Some(Kind::FullTime),
        alias: Email("ab@c".into()),
        boss: None,
    }
}

#[test]
fn enums_and_newtypes_are_properties_and_key_parts() {
    let entity = account().to_entity().unwrap();
    assert_eq!(entity.key().to_string(), "('a~2Fb', '000007_a_b@c')");
    assert_eq!(entity.get("last_kind"), Some(ValueRef::String("full-time")));
    assert_eq!(entity.get("alias"), Some(ValueRef::String("ab@c")));
    assert_eq!(Account::from_entity(entity).unwrap(), account());
    assert_eq!(Id::TYPE, EdmType::Int64);
    assert_eq!(Id::WIDTH, Some(10));
    assert_eq!(Kind::WIDTH, None);
}

#[test]
fn an_unknown_text_is_an_error_that_lists_the_known() {
    let error = Kind::read(ValueRef::String("intern"))
        .unwrap_err()
        .to_string();
    let known = r#"expected one of full-time, part-time, a/b, found "intern""#;
    let remedy = "(a later program may have written it; a variant with `#[entity(other)]` accepts such values)";
    assert_eq!(error, format!("{known} {remedy}"));
    let key = Entity::new("intern", "000007_x").unwrap();
    let error = Account::from_entity(key).unwrap_err().to_string();
    assert!(
        error.contains("one of full-time, part-time, a/b for kind as in \"{kind}\""),
        "{error}"
    );
}

#[test]
fn newtypes_compare_like_their_values() {
    let filter = Account::LAST_KIND
        .eq(Kind::PartTime)
        .and(Account::BOSS.eq(Id { inner: 1 }));
    let boss = Filter::eq("boss", 1i64).or(Filter::eq("boss", 1));
    let expected = Filter::eq("last_kind", "part-time").and(boss);
    assert_eq!(filter.into_filter().unwrap(), expected);
    let prefix: RowPrefix<Account> = Account::row_prefix()
        .id(Id { inner: 7 })
        .email_starting("a_")
        .into();
    assert_eq!(prefix.into_text().unwrap(), "000007_a_");
}
