//! Changes by an attacker with write access to the table, which readers refuse.

use table_core::model::{Entity, ValueRef};
use table_core::store::{ErrorKind, TableStore};
use table_encryption::{Keys, LegacyV1};

use super::{HEADER, TableViews, kek, ken, key, keys, text};
use crate::Harness;

/// Returns the error of a get of the row, and asserts that a scan returns the same error.
async fn refused(table: &TableViews, row: &Entity) -> String {
    let error = table
        .store
        .get(table.raw.name(), row.key(), None)
        .await
        .expect_err("the operation must be refused");
    assert!(matches!(error.kind(), ErrorKind::Encryption(_)), "{error}");
    let scan = table
        .store
        .query(table.raw.name(), &Default::default(), None)
        .await
        .expect_err("a scan too");
    assert_eq!(scan.to_string(), error.to_string());
    error.to_string()
}

fn take(from: &Entity, name: &str) -> Vec<u8> {
    let Some(ValueRef::Binary(bytes)) = from.get(name) else {
        panic!("no bytes in {name}")
    };
    bytes.to_vec()
}

/// Writes two encrypted entities and returns their stored rows.
async fn two(table: &TableViews) -> (Entity, Entity) {
    let other = ken().with_key(key("Sales", "224"));
    table.clear.insert(ken()).await;
    table.clear.insert(other.clone()).await;
    (
        table.raw.existing(ken().key()).await,
        table.raw.existing(other.key()).await,
    )
}

/// Ciphertexts exchanged between two properties, and between two entities.
pub(crate) async fn exchanged_ciphertexts_are_refused(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let (mine, other) = two(&table).await;
    let within = mine
        .clone()
        .with("NationalId", take(&mine, "Salary"))
        .with("Salary", take(&mine, "NationalId"));
    let across = mine.clone().with("NationalId", take(&other, "NationalId"));
    for changed in [within, across] {
        table.store_raw(changed.clone()).await;
        refused(&table, &changed).await;
    }
}

/// A row moved to another RowKey, another partition or another table.
pub(crate) async fn moved_entities_are_refused(harness: &Harness) {
    let (table, elsewhere) = (
        TableViews::new(harness).await,
        TableViews::new(harness).await,
    );
    let (mine, _) = two(&table).await;
    elsewhere.store_raw(mine.clone()).await;
    refused(&elsewhere, &mine).await;
    for place in [key("Sales", "225"), key("Marketing", "223")] {
        let moved = mine.clone().with_key(place.clone());
        table.store_raw(moved.clone()).await;
        refused(&table, &moved).await;
        table
            .raw
            .write(table_core::store::Operation::Delete(
                place,
                table_core::model::IfMatch::Any,
            ))
            .await
            .expect("a delete");
    }
}

/// A property that the header lists is missing.
pub(crate) async fn stripped_properties_are_refused(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let (mine, _) = two(&table).await;
    for name in ["NationalId", "Salary"] {
        let mut stripped = mine.clone();
        stripped.properties_mut().remove(name);
        table.store_raw(stripped.clone()).await;
        refused(&table, &stripped).await;
    }
}

/// An entity without its header looks unencrypted. Rules and required marks detect it.
pub(crate) async fn stripped_entities_are_refused_where_required(harness: &Harness) {
    let table = TableViews::with(harness, |b, t| b.require_encryption(t)).await;
    let (mine, _) = two(&table).await;
    let mut headless = mine.clone();
    headless.properties_mut().remove(HEADER);
    let mut bare = headless.clone();
    ["NationalId", "Salary"]
        .iter()
        .for_each(|name| assert!(bare.properties_mut().remove(name)));
    for stripped in [headless, bare] {
        table.store_raw(stripped.clone()).await;
        assert!(
            refused(&table, &stripped)
                .await
                .contains("is not encrypted")
        );
    }
    let open = ken().with_key(key("Sales", "225"));
    let nothing_secret = Entity::from(open.key().clone()).with("Age", 1);
    table.clear.insert(nothing_secret).await;
    assert!(table.raw.existing(open.key()).await.get(HEADER).is_some());
}

/// A ciphertext or a header of an earlier write of the same entity.
pub(crate) async fn earlier_properties_are_refused(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let (older, _) = two(&table).await;
    table
        .clear
        .put(table_core::store::Operation::InsertOrReplace(
            ken().with_encrypted("Salary", 1.0),
        ))
        .await;
    let newer = table.raw.existing(ken().key()).await;
    for name in ["Salary", "NationalId", HEADER] {
        let replayed = newer.clone().with(name, take(&older, name));
        table.store_raw(replayed.clone()).await;
        refused(&table, &replayed).await;
    }
}

/// Plaintext in a property that the header lists, or that a rule names.
pub(crate) async fn plaintext_in_place_of_ciphertext_is_refused(harness: &Harness) {
    let table = TableViews::with(harness, |b, t| b.encrypt(t, ["Iban"])).await;
    let (mine, _) = two(&table).await;
    let uncovered = mine.clone().with("NationalId", "760519-1234");
    table.store_raw(uncovered.clone()).await;
    refused(&table, &uncovered).await;
    let planted = mine.with("Iban", "CH93");
    table.store_raw(planted.clone()).await;
    assert!(refused(&table, &planted).await.contains("'Iban'"));
}

/// Legacy metadata in place of the header or in addition to it; another version or cipher suite in the header;
/// the data key of the current format in legacy metadata.
pub(crate) async fn a_downgrade_is_refused(harness: &Harness) {
    let raw = harness.table().await;
    let table = TableViews::over(raw, keys(), |b, t| {
        b.with_legacy_v1(LegacyV1::new(Keys::new(kek(9))).read(t))
    });
    let (mine, _) = two(&table).await;
    let header = take(&mine, HEADER);
    let wrapped = &header[2 + 7 + 2 + 4 + 2..][..48];
    let json = |key_id: &str| {
        format!(
            r#"{{"WrappedContentKey":{{"KeyId":"{key_id}","EncryptedKey":"{}","Algorithm":"A256KW"}},"EncryptionAgent":{{"Protocol":"1.0","EncryptionAlgorithm":"AES_CBC_256"}},"ContentEncryptionIV":"ZGVmZ2hpamtsbW5vcHFycw==","KeyWrappingMetadata":{{}}}}"#,
            base64(wrapped),
        )
    };
    let mut stripped = mine.clone();
    stripped.properties_mut().remove(HEADER);
    for key_id in ["kek1", "kek9"] {
        for entity in [&mine, &stripped] {
            let downgraded = entity
                .clone()
                .with("_ClientEncryptionMetadata1", json(key_id));
            let downgraded = downgraded.with("_ClientEncryptionMetadata2", vec![0; 32]);
            table.store_raw(downgraded.clone()).await;
            refused(&table, &downgraded).await;
        }
    }
    for (place, value) in [(0, 1), (0, 3), (1, 0), (1, 2)] {
        let mut other = header.clone();
        other[place] = value;
        let changed = mine.clone().with(HEADER, other);
        table.store_raw(changed.clone()).await;
        refused(&table, &changed).await;
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let triple = |t: &[u8]| u32::from(t[0]) << 16 | u32::from(t[1]) << 8 | u32::from(t[2]);
    let digit = |n: u32| char::from(DIGITS[(n & 63) as usize]);
    bytes
        .chunks(3)
        .flat_map(|t| [18, 12, 6, 0].map(|shift| digit(triple(t) >> shift)))
        .collect()
}

/// Every change, and a missing key, give the same error text.
pub(crate) async fn every_refusal_has_the_same_text(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let (mine, _) = two(&table).await;
    let other_key = TableViews::over(table.raw.clone(), Keys::new(kek(2)), |b, _| b);
    let mut texts = vec![refused(&other_key, &mine).await];
    let header = take(&mine, HEADER);
    for place in [0, 1, 2, 5, 12, 20, 70, 100, 140, 160, header.len() - 1] {
        let mut bytes = header.clone();
        bytes[place] ^= 1;
        let changed = mine.clone().with(HEADER, bytes);
        table.store_raw(changed.clone()).await;
        texts.push(refused(&table, &changed).await);
    }
    let mut ciphertext = take(&mine, "NationalId");
    ciphertext[0] ^= 1;
    for changed in [
        mine.clone().with("NationalId", ciphertext),
        mine.clone().with(HEADER, "text"),
    ] {
        table.store_raw(changed.clone()).await;
        texts.push(refused(&table, &changed).await);
    }
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
}

/// An earlier state of the whole entity is not detected, as documented: its header and its ciphertexts belong
/// together.
pub(crate) async fn an_earlier_whole_entity_is_not_detected(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let (older, _) = two(&table).await;
    table
        .clear
        .put(table_core::store::Operation::InsertOrReplace(
            ken().with_encrypted("NationalId", "new"),
        ))
        .await;
    table.store_raw(older).await;
    assert_eq!(
        table.clear.existing(ken().key()).await.get("NationalId"),
        text("760519-1234")
    );
}
