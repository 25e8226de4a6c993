//! Values in several properties.

use crate::limits::{BINARY_BYTES, STRING_UNITS};
use crate::memory::MemoryStore;
use crate::model::{Entity, IfMatch, Properties, ValueRef};
use crate::store::Operation;
use crate::typed::{FromEntity, PlainTable, SchemaDiff, TableEntity};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, rename_all = "PascalCase", partition_key = "all", row_key = "{id}")]
struct Report {
    id: u32,
    title: String,
    #[entity(split)]
    body: String,
    #[entity(split, alias = "Photo")]
    picture: Option<Vec<u8>>,
    #[entity(split, json, default)]
    tags: Vec<String>,
}

/// The same type of a program before its texts became long.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, rename_all = "PascalCase", partition_key = "all", row_key = "{id}")]
struct Earlier {
    id: u32,
    title: String,
    body: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, rename_all = "PascalCase", partition_key = "all", row_key = "{id}")]
struct Secret {
    id: u32,
    #[encrypt]
    #[entity(split)]
    body: String,
    #[entity(rest)]
    rest: Properties,
}

fn report(body: usize, picture: Option<usize>) -> Report {
    let picture = picture.map(|bytes| vec![7; bytes]);
    Report {
        id: 1,
        title: "t".into(),
        body: "b".repeat(body),
        picture,
        tags: vec!["x".into()],
    }
}

fn names(entity: &Entity) -> Vec<String> {
    entity
        .properties()
        .iter()
        .map(|property| property.name().to_owned())
        .collect()
}

#[test]
fn a_value_that_fits_is_one_property() {
    let report = report(STRING_UNITS, Some(BINARY_BYTES));
    let entity = report.to_entity().unwrap();
    assert_eq!(names(&entity), ["Title", "Body", "Picture", "Tags"]);
    assert_eq!(Report::from_entity(entity).unwrap(), report);
}

#[test]
fn a_longer_value_is_in_parts() {
    let mut report = report(2 * STRING_UNITS + 1, Some(BINARY_BYTES + 1));
    report.tags = (0..20_000).map(|n| n.to_string()).collect();
    let entity = report.to_entity().unwrap();
    let expected = [
        "Title",
        "Body_Parts",
        "Body_Part1",
        "Body_Part2",
        "Body_Part3",
        "Picture_Parts",
        "Picture_Part1",
        "Picture_Part2",
        "Tags_Parts",
        "Tags_Part1",
        "Tags_Part2",
        "Tags_Part3",
        "Tags_Part4",
        "Tags_Part5",
    ];
    assert_eq!(names(&entity), expected);
    assert_eq!(entity.get("Body_Parts"), Some(ValueRef::Int32(3)));
    assert_eq!(entity.get("Body_Part3"), Some(ValueRef::String("b")));
    assert_eq!(entity.get("Picture_Part2"), Some(ValueRef::Binary(&[7])));
    // Parts have numbers, so that their order does not matter.
    let mut reversed: Vec<_> = entity.properties().iter().collect();
    reversed.reverse();
    let mut other = Properties::new();
    reversed
        .iter()
        .for_each(|p| other.push(p.name(), p.value(), p.is_encrypted()));
    assert_eq!(
        Report::from_entity(Entity::from_parts(entity.key().clone(), other)).unwrap(),
        report
    );
    assert_eq!(Report::from_entity(entity).unwrap(), report);
}

/// A character of two UTF-16 units and four bytes of UTF-8 is in one part, wherever the bound of a part lies.
#[test]
fn long_characters_are_not_cut() {
    for before in 0..3 {
        let mut report = report(0, None);
        report.body = "a".repeat(before) + &"\u{1F4C4}".repeat(STRING_UNITS);
        let entity = report.to_entity().unwrap();
        let parts = entity
            .properties()
            .iter()
            .filter(|part| part.name().starts_with("Body_Part") && part.name() != "Body_Parts");
        for part in parts {
            let ValueRef::String(text) = part.value() else {
                panic!("{before}: {}", part.name())
            };
            assert!(
                text.encode_utf16().count() <= STRING_UNITS,
                "{before}: {}",
                part.name()
            );
        }
        assert_eq!(Report::from_entity(entity).unwrap(), report, "{before}");
    }
}

#[test]
fn absent_values_and_former_names_are_read() {
    let row = Entity::new("all", "0000000001")
        .unwrap()
        .with("Title", "t")
        .with("Body", "");
    let read = Report::from_entity(row.clone()).unwrap();
    assert_eq!(
        (read.body.as_str(), read.picture, read.tags.len()),
        ("", None, 0)
    );
    let former = row
        .with("Photo_Parts", 2)
        .with("Photo_Part1", vec![1])
        .with("Photo_Part2", vec![2]);
    let read = Report::from_entity(former.clone()).unwrap();
    assert_eq!(read.picture, Some(vec![1, 2]));
    let mut new = read.to_entity().unwrap();
    Report::SCHEMA
        .keep_unknown(&former.with("Shoe", 43), &mut new)
        .unwrap();
    assert_eq!(
        names(&new),
        ["Title", "Body", "Picture", "Tags", "Shoe"],
        "the former parts are gone"
    );
    let error = Report::from_entity(Entity::new("all", "0000000001").unwrap().with("Title", "t"))
        .unwrap_err();
    assert!(error.to_string().contains("'Body'"), "{error}");
}

#[test]
fn missing_and_damaged_parts_are_errors() {
    let whole = report(2 * STRING_UNITS + 1, None).to_entity().unwrap();
    let error = |change: &dyn Fn(&mut Properties)| {
        let mut row = whole.clone();
        change(row.properties_mut());
        Report::from_entity(row).unwrap_err().to_string()
    };
    let without = |name: &'static str| {
        error(&move |p: &mut Properties| {
            p.remove(name);
        })
    };
    let missing = without("Body_Part2");
    assert!(
        missing.contains("'Body_Part2'") && missing.contains("part 2 of 3"),
        "{missing}"
    );
    let uncounted = without("Body_Parts");
    assert!(
        uncounted.contains("'Body_Parts'") && uncounted.contains("the number of parts"),
        "{uncounted}"
    );
    for (name, value) in [("Body_Part2", 1), ("Body_Parts", 0)] {
        let wrong = error(&move |p: &mut Properties| p.set(name, value));
        assert!(wrong.contains(name), "{wrong}");
    }
    let twice = error(&|p: &mut Properties| p.set("Body", "short"));
    assert!(
        twice.contains("one property or 'Body_Parts'") && twice.contains("another program"),
        "{twice}"
    );
}

#[test]
fn parts_of_a_marked_value_are_marked() {
    let body = "s".repeat(BINARY_BYTES + 1);
    let secret = Secret {
        id: 1,
        body: body.clone(),
        rest: Properties::new(),
    };
    let entity = secret.to_entity().unwrap();
    assert_eq!(
        names(&entity),
        ["Body_Parts", "Body_Part1", "Body_Part2", "Body_Part3"]
    );
    assert!(
        entity
            .properties()
            .iter()
            .all(|property| property.is_encrypted())
    );
    let read = Secret::from_entity(entity.clone()).unwrap();
    assert_eq!(read.rest, secret.rest, "no part is in the rest");
    assert!(read.body == secret.body);
    for name in ["Body_Parts", "Body_Part2"] {
        let mut row = entity.clone();
        let value = row.get(name).unwrap().to_owned();
        row.properties_mut().remove(name);
        let error = Secret::from_entity(row.with(name, value))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(name) && error.contains("not encrypted") && !error.contains("sss"),
            "{error}"
        );
    }
    let rest = [("Body_Part9", 1)].into_iter().collect();
    assert!(
        Secret { rest, ..secret }
            .to_entity()
            .unwrap_err()
            .to_string()
            .contains("Body_Part9")
    );
}

#[tokio::test]
async fn writes_that_shorten_a_value_leave_no_parts() {
    let table = PlainTable::<Report>::new(MemoryStore::new(), "Reports").unwrap();
    table.create_if_missing().await.unwrap();
    let key = || Report::key(1).unwrap();
    let long = report(3 * STRING_UNITS, Some(3 * BINARY_BYTES));
    let short = report(3, None);
    let stored = async || {
        table
            .store()
            .get(table.name(), key().key(), None)
            .await
            .unwrap()
            .unwrap()
    };
    table.insert_or_merge(&long).await.unwrap();
    table.insert_or_merge(&short).await.unwrap();
    let merged = names(&stored().await);
    let expected = [
        "Title",
        "Picture_Parts",
        "Picture_Part1",
        "Picture_Part2",
        "Picture_Part3",
        "Tags",
        "Body",
    ];
    for name in expected {
        assert!(merged.iter().any(|found| found == name), "{merged:?}");
    }
    assert_eq!(merged.len(), expected.len(), "{merged:?}");
    assert_eq!(
        table.get_existing(key()).await.unwrap(),
        Report {
            picture: long.picture.clone(),
            ..short.clone()
        }
    );

    table.upsert(&long).await.unwrap();
    let mut group = table.group(Report::partition().unwrap());
    group
        .insert_or_merge(&Report {
            picture: Some(vec![1]),
            ..short.clone()
        })
        .unwrap();
    group
        .insert_or_merge(&Report {
            id: 2,
            ..long.clone()
        })
        .unwrap();
    group.commit().await.unwrap();
    assert!(
        names(&stored().await)
            .iter()
            .all(|name| !name.contains("_Part"))
    );
    assert_eq!(
        table.get_existing(key()).await.unwrap().picture,
        Some(vec![1])
    );
    assert_eq!(
        table
            .get_existing(Report::key(2).unwrap())
            .await
            .unwrap()
            .body,
        long.body
    );

    table.upsert(&long).await.unwrap();
    table
        .update(key(), |report| {
            report.body = "new".into();
            report.picture = None;
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(names(&stored().await), ["Title", "Body", "Tags"]);
    // A patch has the other fields only.
    table
        .merge(key(), &Report::patch().title("other"), IfMatch::Any)
        .await
        .unwrap();
    assert_eq!(table.get_existing(key()).await.unwrap().body, "new");
}

#[tokio::test]
async fn a_program_without_parts_fails_and_keeps_them() {
    let table = PlainTable::<Report>::new(MemoryStore::new(), "Reports").unwrap();
    table.create_if_missing().await.unwrap();
    table.insert(&report(STRING_UNITS + 1, None)).await.unwrap();
    let earlier = table.view::<Earlier>().unwrap();
    let error = earlier
        .get(Earlier::key(1).unwrap())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("#[entity(split)]"), "{error}");
    // A merge of the whole property by such a program is no silent loss of the parts.
    earlier
        .merge(
            Earlier::key(1).unwrap(),
            &Earlier::patch().body("short"),
            IfMatch::Any,
        )
        .await
        .unwrap();
    let page = table.query().readable_page(None).await.unwrap();
    assert_eq!((page.page.items.len(), page.unreadable.len()), (0, 1));
    table.upsert(&report(5, None)).await.unwrap();
    assert_eq!(
        table.get_existing(Report::key(1).unwrap()).await.unwrap(),
        report(5, None)
    );
}

#[tokio::test]
async fn a_schema_diff_counts_values_in_parts() {
    let table = PlainTable::<Report>::new(MemoryStore::new(), "Reports").unwrap();
    table.create_if_missing().await.unwrap();
    table.insert(&report(STRING_UNITS + 1, None)).await.unwrap();
    table
        .insert(&Report {
            id: 2,
            ..report(1, None)
        })
        .await
        .unwrap();
    let damaged = Entity::new("all", "0000000003")
        .unwrap()
        .with("Title", "t")
        .with("Body_Parts", 2);
    table
        .store()
        .write(table.name(), Operation::Insert(damaged))
        .await
        .unwrap();
    let rows = PlainTable::<Entity>::new(std::sync::Arc::clone(table.store()), "Reports").unwrap();
    let diff = SchemaDiff::of::<Report>(&rows).await.unwrap();
    let body = &diff.properties["Body"];
    assert_eq!(
        (
            body.found.values().sum::<u64>(),
            body.absent,
            body.under_alias
        ),
        (3, 0, 0)
    );
    assert!(
        diff.properties.keys().all(|name| !name.contains("_Part")),
        "{:?}",
        diff.properties.keys()
    );
    assert_eq!(diff.unreadable, 1);
}
