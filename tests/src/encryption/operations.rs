//! Writes of encrypted properties.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::model::{EdmValue, Entity, IfMatch, Ticks, ValueRef};
use table_core::query::Query;
use table_core::store::Operation;
use table_encryption::EncryptedStore;
use uuid::Uuid;

use super::{HEADER, TableViews, ken, key, keys, text};
use crate::Harness;
use crate::conformance::assert_same;

fn every_type() -> Vec<(&'static str, EdmValue)> {
    vec![
        ("Binary", vec![0_u8, 255].into()),
        ("Empty", Vec::<u8>::new().into()),
        ("Boolean", true.into()),
        (
            "DateTime",
            EdmValue::DateTime(Ticks::new(634_925_952_000_000_001).expect("a moment")),
        ),
        ("Double", f64::NEG_INFINITY.into()),
        ("NegativeZero", (-0.0).into()),
        ("Guid", Uuid::from_u128(0x1234_5678_9abc).into()),
        ("Int32", i32::MIN.into()),
        ("Int64", i64::MAX.into()),
        ("String", "ñandú \u{1F600} '".into()),
        ("EmptyString", "".into()),
    ]
}

/// Encrypted properties are read back with the same types and values, and with their marks.
pub(crate) async fn every_type_is_read_back_with_its_mark(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let mut entity = Entity::from(key("p", "r"));
    for (name, value) in every_type() {
        entity.properties_mut().set_encrypted(name, value);
    }
    table.clear.insert(entity.clone()).await;
    assert_same(
        table.clear.existing(entity.key()).await.properties(),
        entity.properties(),
    );
    let stored = table.raw.existing(entity.key()).await;
    assert_eq!(stored.properties().len(), every_type().len() + 1);
    assert!(
        stored
            .properties()
            .iter()
            .all(|p| matches!(p.value(), ValueRef::Binary(_)))
    );
}

/// Stored rows contain neither the values nor their encodings.
pub(crate) async fn stored_rows_contain_no_plaintext(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let secret = "a text that is long enough not to occur by chance";
    table
        .clear
        .insert(ken().with_encrypted("Text", secret))
        .await;
    for property in table.raw.existing(ken().key()).await.properties() {
        let bytes = match property.value() {
            ValueRef::Binary(bytes) => bytes.to_vec(),
            other => format!("{other:?}").into_bytes(),
        };
        for part in [secret, "760519"] {
            assert!(
                !bytes.windows(part.len()).any(|w| w == part.as_bytes()),
                "{}",
                property.name()
            );
        }
    }
}

/// Insert, InsertOrReplace, InsertOrMerge and replace encrypt. An entity that is read and written back is
/// encrypted again.
pub(crate) async fn every_write_encrypts(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let mut seen = Vec::new();
    for operation in [
        Operation::Insert(ken()),
        Operation::InsertOrReplace(ken()),
        Operation::InsertOrMerge(ken()),
        Operation::Replace(ken(), IfMatch::Any),
        Operation::Merge(ken(), IfMatch::Any),
    ] {
        table.clear.put(operation).await;
        assert_same(
            table.clear.existing(ken().key()).await.properties(),
            ken().properties(),
        );
        seen.push(
            table
                .raw
                .existing(ken().key())
                .await
                .get("NationalId")
                .map(|v| v.to_owned()),
        );
    }
    let read = table.clear.existing(ken().key()).await;
    let version = read.etag().expect("a version").into();
    table.clear.put(Operation::Replace(read, version)).await;
    assert_same(
        table.clear.existing(ken().key()).await.properties(),
        ken().properties(),
    );
    assert!(seen.iter().all(|v| matches!(v, Some(EdmValue::Binary(_)))));
    assert!(seen.windows(2).all(|pair| pair[0] != pair[1]));
}

/// A merge keeps other properties, encrypted or not. Plaintext over an encrypted property is refused.
pub(crate) async fn merges_keep_properties_that_are_not_named(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    let patch = |e: Entity| Operation::Merge(e, IfMatch::Any);
    let bare = || Entity::from(ken().key().clone());
    table
        .clear
        .put(patch(bare().with_encrypted("Salary", 130.0)))
        .await;
    table.clear.put(patch(bare().with("Age", 42))).await;
    table
        .clear
        .put(Operation::InsertOrMerge(
            bare().with("City", "Bern").with_encrypted("Iban", "CH93"),
        ))
        .await;
    let expected = ken()
        .with_encrypted("Salary", 130.0)
        .with("Age", 42)
        .with("City", "Bern");
    let expected = expected.with_encrypted("Iban", "CH93");
    assert_same(
        table.clear.existing(ken().key()).await.properties(),
        expected.properties(),
    );
    let uncovers = table
        .clear
        .write(patch(bare().with("Iban", "CH93")))
        .await
        .expect_err("plaintext over ciphertext");
    assert!(uncovers.to_string().contains("Iban"), "{uncovers}");
    let missing = table.clear.write(Operation::Merge(
        Entity::from(key("Sales", "0")).with("Age", 1),
        IfMatch::Any,
    ));
    assert!(missing.await.expect_err("no entity").is_entity_not_found());
}

/// A merge that marks a property adds a header to the entity.
pub(crate) async fn merges_encrypt_former_plaintext(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table
        .clear
        .insert(
            Entity::from(key("p", "r"))
                .with("Name", "Ken")
                .with("Age", 41),
        )
        .await;
    assert!(
        table
            .raw
            .existing(&key("p", "r"))
            .await
            .get(HEADER)
            .is_none()
    );
    let patch = Entity::from(key("p", "r")).with_encrypted("Name", "Ken Sánchez");
    table.clear.put(Operation::Merge(patch, IfMatch::Any)).await;
    let read = table.clear.existing(&key("p", "r")).await;
    assert_eq!(read.get("Name"), text("Ken Sánchez"));
    assert_eq!(read.get("Age"), Some(ValueRef::Int32(41)));
    assert!(matches!(
        table.raw.existing(&key("p", "r")).await.get("Name"),
        Some(ValueRef::Binary(_))
    ));
}

/// One group has merges of existing and of missing entities, and all other operations.
pub(crate) async fn groups_mix_all_operations(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let at = |row: &str| Entity::from(key("Sales", row)).with_encrypted("Secret", row);
    for row in ["merge", "replace", "delete", "upsert"] {
        table.clear.insert(at(row).with_encrypted("Other", 1)).await;
    }
    let group = vec![
        Operation::Insert(at("insert")),
        Operation::Merge(at("merge").with_encrypted("Secret", "new"), IfMatch::Any),
        Operation::Replace(at("replace"), IfMatch::Any),
        Operation::Delete(key("Sales", "delete"), IfMatch::Any),
        Operation::InsertOrMerge(at("upsert").with_encrypted("Secret", "new")),
        Operation::InsertOrMerge(at("missing")),
        Operation::InsertOrReplace(at("replaced")),
    ];
    assert_eq!(
        table
            .clear
            .transact("Sales", group)
            .await
            .expect("a group")
            .len(),
        7
    );
    let all = table.clear.all(&Query::new()).await;
    let rows: Vec<_> = all
        .iter()
        .map(|e| (e.key().row(), e.properties().len(), e.get("Secret")))
        .collect();
    let expected = [
        ("insert", 1, text("insert")),
        ("merge", 2, text("new")),
        ("missing", 1, text("missing")),
        ("replace", 1, text("replace")),
        ("replaced", 1, text("replaced")),
        ("upsert", 2, text("new")),
    ];
    assert_eq!(rows, expected);
}

/// One impossible operation makes the whole group fail.
pub(crate) async fn groups_fail_as_a_whole(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    let other = Entity::from(key("Sales", "224")).with_encrypted("Secret", 1);
    let stale = Operation::Merge(ken(), IfMatch::Exactly("W/\"other\"".into()));
    let error = table
        .clear
        .transact("Sales", vec![Operation::Insert(other.clone()), stale])
        .await
        .expect_err("stale");
    assert!(error.is_precondition_failed(), "{error}");
    assert_eq!(error.failed_index(), Some(1), "{error}");
    let again = vec![Operation::Insert(other.clone()), Operation::Insert(ken())];
    let error = table
        .clear
        .transact("Sales", again)
        .await
        .expect_err("the entity exists");
    assert!(error.is_already_exists(), "{error}");
    assert!(table.clear.get(other.key()).await.is_none());
}

/// Text of three-byte characters grows by encryption beyond the limit of a Binary value.
pub(crate) async fn growth_is_refused_before_it_is_sent(harness: &Harness) {
    let table = harness.table().await;
    let meter = RequestMeter::new();
    let metered = Metered::new(Arc::clone(table.store()), meter.clone());
    let store = EncryptedStore::new(metered, keys()).expect("sound keys");
    let wide = Entity::from(key("p", "r")).with_encrypted("Wide", "日".repeat(22_000));
    let write = |entity: Entity| {
        table_core::store::TableStore::write(&store, table.name(), Operation::Insert(entity))
    };
    let error = write(wide).await.expect_err("66,000 bytes");
    assert!(error.is_limit_exceeded(), "{error}");
    assert!(error.to_string().contains("as encrypted"), "{error}");
    let many = (0..252).fold(Entity::from(key("p", "r")), |e, n| {
        e.with_encrypted(&format!("P{n}"), 1)
    });
    let error = write(many).await.expect_err("253 properties");
    assert!(error.is_limit_exceeded(), "{error}");
    assert_eq!(meter.total(), 0);
    write(Entity::from(key("p", "r")).with_encrypted("Wide", "日".repeat(21_000)))
        .await
        .expect("63,000 bytes");
}

/// Equal values have different ciphertexts in two properties and in two entities.
pub(crate) async fn equal_values_have_different_ciphertexts(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let twins = Entity::from(key("p", "r"))
        .with_encrypted("A", "same text")
        .with_encrypted("B", "same text");
    table.clear.insert(twins.clone()).await;
    table
        .clear
        .insert(twins.clone().with_key(key("p", "s")))
        .await;
    let mut seen = Vec::new();
    for row in ["r", "s"] {
        let stored = table.raw.existing(&key("p", row)).await;
        seen.extend(["A", "B"].map(|name| format!("{:?}", stored.get(name))));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4);
}
