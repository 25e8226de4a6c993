use crate::manifest::{IndexDefinition, IndexKeys, KeyTemplate, Placement, Shape, can_collide};
use crate::model::Entity;
use crate::store::Result;

fn index(row: &str) -> IndexDefinition {
    IndexDefinition::keyed("i", Placement::SamePartition, None, row.parse().unwrap())
}

fn refused(template: &str, reason: &str) {
    let error = template.parse::<KeyTemplate>().unwrap_err().to_string();
    assert!(error.contains(reason), "{template}: {error}");
}

#[test]
fn templates_print_as_they_are_written() -> Result<()> {
    for text in [
        "",
        "all",
        "{{braces}}_{Name}",
        "{PartitionKey}_{RowKey}",
        "{@id:u32:06}_{Email:text:lower:prefix(3)}",
        "{Email:text:lower#16}",
        "{Tags[]:text}_{At:time:date}_{At:time:hour}_{At:time:desc}",
        "{Grid:custom(grid square,3)}{Own:custom(its own)}",
    ] {
        let template: KeyTemplate = text.parse()?;
        let printed = template.to_string();
        assert_eq!(printed.parse::<KeyTemplate>()?, template, "{text}");
        if !text.contains("Key}") {
            assert_eq!(printed, text);
        }
    }
    Ok(())
}

#[test]
fn templates_that_give_no_valid_key_are_refused() {
    refused("{Age", "not closed");
    refused("Age}", "without '{'");
    refused("{}", "not a name");
    refused("{A b}", "not a name");
    refused("{Age:6}", "not a word");
    refused("{Age:021}", "not a word");
    refused("{Age:03:04}", "not a word");
    refused("{Name:upper}", "not a word");
    refused("{Name:lower:text}", "not a word");
    refused("{Name:prefix(x)}", "prefix(3)");
    refused("{Name:prefix(0)}", "at least 1");
    refused("{Age#0}", "shards");
    refused("{Age#1001}", "shards");
    refused("{Name}{Age}", "no fixed width");
    refused("{Name}0", "separator");
    refused("{Name}é", "ASCII");
    refused("{Age:u32:lower}", "need text");
    refused("{Name:text:date}", "need a time");
    refused("{Name:text:desc}", "descending");
    refused("{At:time:date:desc}", "descending");
    refused("{Age:desc:lower}", "must be the last");
    refused("{Age:i32:06}", "unsigned");
    refused("{Name:text:06}", "unsigned");
    refused("{RowKey[]}", "only a property can be a list");
    refused("{Tags[]}_{Others[]}", "two lists");
    let two = IndexDefinition {
        keys: IndexKeys::Templates {
            partition_key: Some("{Tags[]}".parse().unwrap()),
            row_key: "{Others[]}".parse().unwrap(),
        },
        ..index("x")
    };
    assert!(
        two.validate()
            .unwrap_err()
            .to_string()
            .contains("two lists")
    );
    let unknown = index("{@id:u32}").validate().unwrap_err().to_string();
    assert!(unknown.contains("in no key template"), "{unknown}");
}

/// A client that may write entities would write the rows of a manifest by them.
#[test]
fn templates_of_system_rows_are_refused() {
    for (partition, row) in [
        (Some("~~manifest"), "type~{Name}"),
        (Some("~~{Name}"), "1"),
        (None, "~~{Name}"),
        (None, "~{Name}"),
    ] {
        let partition = partition.map(|text| text.parse().unwrap());
        let index = IndexDefinition::keyed(
            "i",
            Placement::OtherPartition,
            partition,
            row.parse().unwrap(),
        );
        let error = index.validate().unwrap_err().to_string();
        assert!(error.contains("start with '~~'"), "{row}: {error}");
    }
    for row in ["~", "~a_{Name}", "{Name}"] {
        IndexDefinition::keyed("i", Placement::SamePartition, None, row.parse().unwrap())
            .validate()
            .unwrap();
    }
}

#[test]
fn values_that_do_not_fit_the_template_are_refused() {
    let entity = Entity::new("p", "r")
        .unwrap()
        .with("Age", -7)
        .with("Name", "Ken")
        .with("Bytes", vec![1u8])
        .with("Tags", "[1,null]")
        .with("Nan", f64::NAN)
        .with_encrypted("Secret", "s3cr3t");
    let refused = |template: &str, why: &str| {
        let error = index(template).entry_keys(&entity).unwrap_err().to_string();
        assert!(error.contains(why), "{template}: {error}");
        assert!(!error.contains("s3cr3t"), "{template}: {error}");
    };
    refused("{Age:u32}", "range of u32");
    refused("{Age:03}", "not negative");
    refused("{Age:lower}", "for `lower`");
    refused("{Age:date}", "for `date`");
    refused("{Age#4}", "for a shard");
    refused("{Name:desc}", "for `desc`");
    refused("{Name:03}", "for a width");
    refused("{Name:u32}", "Edm.Int64");
    refused("{Bytes}", "Edm.Binary");
    refused("{Name[]}", "JSON");
    refused("{Tags[]}", "null");
    refused("{Nan}", "a number");
    refused("{Secret}_{RowKey}", "blind index");
    refused("{Secret#16}{RowKey}", "blind index");
    refused("{Name:custom(own)}", "own");
    let opaque = IndexDefinition::opaque("i", Placement::SamePartition, "1");
    assert!(opaque.is_opaque());
    assert!(
        opaque
            .entry_keys(&entity)
            .unwrap_err()
            .to_string()
            .contains("opaque")
    );
    assert!(
        index("{Missing}_{RowKey}")
            .entry_keys(&entity)
            .unwrap()
            .is_empty()
    );
    assert!(
        index("{Missing[]}_{RowKey}")
            .entry_keys(&entity)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn entities_that_do_not_match_the_condition_have_no_entries() -> Result<()> {
    let with = |filter: &'static str| IndexDefinition {
        condition: Some(filter.into()),
        ..index("open_{RowKey}")
    };
    let entity = |status: &str| {
        Entity::new("p", "r")
            .unwrap()
            .with("Status", status)
            .with_encrypted("Pin", "1")
    };
    let open = with("Status eq 'open'");
    assert_eq!(open.entry_keys(&entity("open"))?.len(), 1);
    assert!(open.entry_keys(&entity("closed"))?.is_empty());
    assert_eq!(open.properties_read()?, ["Status"]);
    for (filter, why) in [
        ("Status eq", "condition"),
        ("Timestamp gt datetime'2020-01-01T00:00:00Z'", "Timestamp"),
    ] {
        let error = with(filter).validate().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert!(
        with("Pin eq '1'")
            .entry_keys(&entity("open"))
            .unwrap_err()
            .to_string()
            .contains("encrypted")
    );
    Ok(())
}

#[test]
fn definitions_survive_a_round_trip_through_json() -> Result<()> {
    let city = IndexDefinition {
        condition: Some("Age gt 3".into()),
        shape: Shape::LIST,
        ..index("city_{City:text:lower}")
    };
    let read = IndexDefinition::from_json(&city.to_json())?;
    assert_eq!(read, city);
    assert_eq!(read.fingerprint(), city.fingerprint());
    // The JSON is a stored format: fingerprints depend on it.
    assert_eq!(
        index("city_{City:lower}_{RowKey}").to_json(),
        r#"{"name":"i","entity":{"name":"","discriminator":"none"},"placement":"same_partition","keys":{"templates":{"row_key":"city_{City:lower}_{RowKey:text}"}},"payload":"reference","shape":"row","uniqueness":"no"}"#
    );
    assert_ne!(
        index("a_{City}").fingerprint(),
        index("b_{City}").fingerprint()
    );
    assert!(IndexDefinition::from_json("{}").is_err());
    Ok(())
}

#[test]
fn templates_that_differ_in_text_or_length_do_not_collide() {
    let collide = |a: &str, b: &str| can_collide(&index(a), &index(b));
    assert!(!collide("email_{E}", "name_{N}"));
    assert!(!collide("{E:lower}_a", "{E}_b"));
    assert!(!collide("{A:u32}", "{A:u64}"));
    assert!(!collide("x{A:u8}y", "x{A:u16}y"));
    assert!(collide("a_{E}", "a_b_{E}"));
    assert!(collide("{E}", "name_{N}"));
    assert!(collide("{A:u32}", "{B:i32}"));
    let in_table = |table: &str, row: &str| IndexDefinition {
        placement: Placement::OtherTable(table.try_into().unwrap()),
        ..index(row)
    };
    assert!(!can_collide(
        &in_table("One", "a_{E}"),
        &in_table("Two", "a_{E}")
    ));
    assert!(can_collide(
        &in_table("One", "a_{E}"),
        &in_table("one", "a_{E}")
    ));
}

proptest::proptest! {
    /// If two templates give the same key, `can_collide` returns `true`.
    #[test]
    fn no_collision_is_denied(
        a in "[ab]{0,2}\\{X\\}([_-][ab]{0,2}(\\{N:(u8|u16)\\})?)?",
        b in "[ab]{0,2}\\{Y\\}([_-][ab]{0,2}(\\{N:(u8|u16)\\})?)?",
        x in "[ab_-]{0,4}", y in "[ab_-]{0,4}", n in 0u8..3,
    ) {
        let entity = Entity::new("p", "r").unwrap().with("X", x).with("Y", y).with("N", i32::from(n));
        let (a, b) = (index(&a), index(&b));
        if a.entry_keys(&entity).unwrap() == b.entry_keys(&entity).unwrap() {
            proptest::prop_assert!(can_collide(&a, &b));
        }
    }
}
