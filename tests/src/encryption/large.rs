//! Fields that outgrow their row, in blobs.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use table_core::prelude::*;
use table_core::store::TableStore;
use table_patterns::large::{LargeOptions, LargeTable};

use super::Both;
use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Letter {
    #[partition_key]
    sender: String,
    #[row_key]
    number: u32,
    #[encrypt]
    #[large(over = 100)]
    body: String,
}

fn letter(number: u32, body: &str) -> Letter {
    Letter { sender: "Ken".into(), number, body: body.repeat(20_000) }
}

fn open(table: &Both, blobs: &Arc<InMemory>) -> LargeTable<Letter> {
    let store = Arc::clone(&table.store) as Arc<dyn TableStore>;
    let options = LargeOptions::default().with_codec(Arc::new(table.store.blob_cipher()));
    let opened = LargeTable::open_with(store, table.raw.name().clone(), blobs.clone(), options);
    opened.expect("a codec that encrypts")
}

async fn stored(blobs: &InMemory) -> Vec<(object_store::path::Path, Vec<u8>)> {
    let mut all = Vec::new();
    let names: Vec<_> = blobs.list(None).try_collect().await.expect("names");
    for name in names {
        let bytes = blobs.get(&name.location).await.expect("a blob").bytes().await.expect("its bytes");
        all.push((name.location, bytes.to_vec()));
    }
    all
}

/// The text is read back, and is neither in the row nor in the blob.
pub async fn marked_fields_are_encrypted_in_their_blobs(harness: &Harness) {
    let (table, blobs) = (Both::new(harness).await, Arc::new(InMemory::new()));
    let letters = open(&table, &blobs);
    letters.insert(&letter(1, "secret text ")).await.expect("an insert");
    let key = Letter::key("Ken", 1_u32).expect("a key");
    assert_eq!(letters.get_existing(&key).await.expect("a letter"), letter(1, "secret text "));
    let blobs = stored(&blobs).await;
    assert!(blobs.len() == 1 && blobs[0].1.len() > 240_000);
    assert!(!blobs[0].1.windows(6).any(|w| w == b"secret"));
}

/// Each in the other's place: not even the reference's hash could tell one who can write the row.
pub async fn exchanged_blobs_are_refused(harness: &Harness) {
    let (table, blobs) = (Both::new(harness).await, Arc::new(InMemory::new()));
    let letters = open(&table, &blobs);
    for number in 1..=2 {
        letters.insert(&letter(number, "secret text ")).await.expect("an insert");
    }
    let [(first, one), (second, two)] = <[_; 2]>::try_from(stored(&blobs).await).expect("two blobs");
    assert_ne!(one, two);
    blobs.put(&first, two.into()).await.expect("an exchange");
    blobs.put(&second, one.into()).await.expect("an exchange");
    for number in 1..=2_u32 {
        letters.get(Letter::key("Ken", number).expect("a key")).await.expect_err("another's blob");
    }
}
