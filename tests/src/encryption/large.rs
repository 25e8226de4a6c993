//! Encrypted large fields in blobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use table_core::prelude::*;
use table_core::store::TableStore;
use table_encryption::Keys;
use table_patterns::large::{CollectMode, LargeOptions};
use table_patterns::{Database, Table};

use super::{HEADER, TableViews, assert_hidden, kek, key};
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
    Letter {
        sender: "Ken".into(),
        number,
        body: body.repeat(20_000),
    }
}

fn open(table: &TableViews, blobs: &Arc<InMemory>) -> Table<Letter> {
    open_with(table, blobs, LargeOptions::default())
}

fn open_with(table: &TableViews, blobs: &Arc<InMemory>, options: LargeOptions) -> Table<Letter> {
    let store = Arc::clone(&table.store) as Arc<dyn TableStore>;
    let options = options.with_codec(Arc::new(table.store.blob_cipher()));
    let db = Database::new(store).with_blobs(blobs.clone());
    let opened = db.with_large(options).table(table.raw.name().clone());
    opened.expect("a codec that encrypts")
}

/// The table of a program without keys, whose type has no marks.
fn open_without_keys(
    table: &TableViews,
    blobs: &Arc<InMemory>,
    options: LargeOptions,
) -> Table<OpenLetter> {
    let db = Database::new(table.raw.store().clone()).with_blobs(blobs.clone());
    let opened = db.with_large(options).table(table.raw.name().clone());
    opened.expect("a table")
}

async fn stored(blobs: &InMemory) -> Vec<(object_store::path::Path, Vec<u8>)> {
    let mut all = Vec::new();
    let names: Vec<_> = blobs.list(None).try_collect().await.expect("names");
    for name in names {
        let bytes = blobs
            .get(&name.location)
            .await
            .expect("a blob")
            .bytes()
            .await
            .expect("its bytes");
        all.push((name.location, bytes.to_vec()));
    }
    all
}

/// An encrypted large field is read back. Neither its row nor its blob contains the text.
pub(crate) async fn marked_fields_are_encrypted_in_their_blobs(harness: &Harness) {
    let (table, blobs) = (TableViews::new(harness).await, Arc::new(InMemory::new()));
    let letters = open(&table, &blobs);
    letters
        .insert(&letter(1, "secret text "))
        .await
        .expect("an insert");
    let key = Letter::key("Ken", 1_u32).expect("a key");
    assert_eq!(
        letters.get_existing(&key).await.expect("a letter"),
        letter(1, "secret text ")
    );
    let blobs = stored(&blobs).await;
    assert_eq!(blobs.len(), 1);
    assert!(blobs[0].1.len() > 240_000);
    assert!(!blobs[0].1.windows(6).any(|w| w == b"secret"));
}

/// After a rotation of the rows, a sweep rewrites the blobs page by page, stops and resumes. Afterwards the new
/// key alone reads every letter.
pub(crate) async fn blobs_are_rewritten_under_the_new_key(harness: &Harness) {
    const LETTERS: u32 = 5;
    let (old, blobs) = (TableViews::new(harness).await, Arc::new(InMemory::new()));
    let inline = Letter {
        body: "short".into(),
        ..letter(9, "")
    };
    for number in 1..=LETTERS {
        open(&old, &blobs)
            .insert(&letter(number, "secret text "))
            .await
            .expect("an insert");
    }
    open(&old, &blobs).insert(&inline).await.expect("an insert");

    let both = TableViews::over(
        old.raw.clone(),
        Keys::new(kek(2)).with_key(kek(1)),
        |b, _| b,
    );
    let rotated = both
        .store
        .rotation(both.raw.name())
        .run()
        .await
        .expect("a rotation");
    assert_eq!(rotated.changed, u64::from(LETTERS) + 1);
    let count = async |keys: &[(&str, u64)]| {
        let mut sweep = open(&both, &blobs).rewrite_blobs().counting();
        let found = sweep.run().await.expect("a count");
        let keys: BTreeMap<_, _> = keys
            .iter()
            .map(|(id, blobs)| ((*id).to_owned(), *blobs))
            .collect();
        assert_eq!(&found.keys, &keys);
        assert_eq!(found.rewritten, 0);
        assert_eq!(found.rows, u64::from(LETTERS) + 1);
        assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
    };
    count(&[("kek1", 5)]).await;
    let new = TableViews::over(old.raw.clone(), Keys::new(kek(2)), |b, _| b);
    let first = Letter::key("Ken", 1_u32).expect("a key");
    open(&new, &blobs)
        .get(&first)
        .await
        .expect_err("its blob is under the old key");

    let mut rewrite = open(&both, &blobs).rewrite_blobs().with_page_size(2);
    assert!(rewrite.step().await.expect("a page"));
    assert!((1..=2).contains(&rewrite.progress().rewritten));
    count(&[
        ("kek1", 5 - rewrite.progress().rewritten),
        ("kek2", rewrite.progress().rewritten),
    ])
    .await;
    let cursor = rewrite
        .cursor()
        .expect("more pages")
        .to_string()
        .parse()
        .expect("a cursor");
    let mut rest = open(&both, &blobs).rewrite_blobs().resumed_at(cursor);
    let rest = rest.run().await.expect("the rest");
    assert_eq!(
        rewrite.progress().rewritten + rest.rewritten,
        u64::from(LETTERS)
    );
    count(&[("kek2", 5)]).await;

    for number in 1..=LETTERS {
        let at = Letter::key("Ken", number).expect("a key");
        let read = open(&new, &blobs)
            .get_existing(&at)
            .await
            .expect("the new key alone");
        assert_eq!(read, letter(number, "secret text "));
    }
    let at = Letter::key("Ken", 9_u32).expect("a key");
    assert_eq!(
        open(&new, &blobs)
            .get_existing(&at)
            .await
            .expect("a letter"),
        inline
    );
    assert_eq!(
        stored(&blobs).await.len(),
        LETTERS as usize,
        "the old blobs are gone"
    );
    assert_hidden(&old, &["secret", "kek1"]).await;
    let mut rewrite = open(&new, &blobs).rewrite_blobs();
    let again = rewrite.run().await.expect("no blob is under an old key");
    assert_eq!(again.blobs, 5);
    assert_eq!(again.rewritten, 0);
}

/// A damaged blob is reported and left. The sweep rewrites all other blobs.
pub(crate) async fn a_damaged_blob_is_reported_and_left(harness: &Harness) {
    let (old, blobs) = (TableViews::new(harness).await, Arc::new(InMemory::new()));
    for number in 1..=3 {
        open(&old, &blobs)
            .insert(&letter(number, "secret text "))
            .await
            .expect("an insert");
    }
    let (name, mut bytes) = stored(&blobs).await.swap_remove(1);
    *bytes.last_mut().expect("bytes") ^= 1;
    blobs.put(&name, bytes.into()).await.expect("damage");
    let both = TableViews::over(
        old.raw.clone(),
        Keys::new(kek(2)).with_key(kek(1)),
        |b, _| b,
    );
    let mut rewrite = open(&both, &blobs).rewrite_blobs();
    let found = rewrite.run().await.expect("the others");
    assert_eq!(found.blobs, 3);
    assert_eq!(found.rewritten, 2);
    assert_eq!(found.unreadable.len(), 1);
    assert_eq!(found.unreadable[0].property, "Body");
    assert_eq!(stored(&blobs).await.len(), 3, "nothing is left over");
}

/// A row that cannot be decrypted is reported. The sweep rewrites the blobs of all other rows.
pub(crate) async fn an_unreadable_row_does_not_stop_the_sweep(harness: &Harness) {
    let (old, blobs) = (TableViews::new(harness).await, Arc::new(InMemory::new()));
    for number in 1..=3 {
        open(&old, &blobs)
            .insert(&letter(number, "secret text "))
            .await
            .expect("an insert");
    }
    let garbage = Entity::from(key("Ken", "2x")).with(HEADER, vec![1; 100]);
    old.store_raw(garbage).await;
    let both = TableViews::over(
        old.raw.clone(),
        Keys::new(kek(2)).with_key(kek(1)),
        |b, _| b,
    );
    assert_eq!(
        both.store
            .rotation(both.raw.name())
            .run()
            .await
            .expect("a rotation")
            .skipped,
        1
    );
    let mut rewrite = open(&both, &blobs).rewrite_blobs();
    let found = rewrite.run().await.expect("the others");
    assert_eq!(found.rows, 3);
    assert_eq!(found.rewritten, 3);
    assert_eq!(found.skipped, 1);
    assert_eq!(found.unreadable.len(), 0);
    assert_eq!(found.unreadable_rows[0].key.row(), "2x");
}

/// Two exchanged blobs are refused, although an attacker who can write rows can also change the hash in a
/// reference.
pub(crate) async fn exchanged_blobs_are_refused(harness: &Harness) {
    let (table, blobs) = (TableViews::new(harness).await, Arc::new(InMemory::new()));
    let letters = open(&table, &blobs);
    for number in 1..=2 {
        letters
            .insert(&letter(number, "secret text "))
            .await
            .expect("an insert");
    }
    let [(first, one), (second, two)] =
        <[_; 2]>::try_from(stored(&blobs).await).expect("two blobs");
    assert_ne!(one, two);
    blobs.put(&first, two.into()).await.expect("an exchange");
    blobs.put(&second, one.into()).await.expect("an exchange");
    for number in 1..=2_u32 {
        letters
            .get(Letter::key("Ken", number).expect("a key"))
            .await
            .expect_err("the blob of another letter");
    }
}

/// The same type before encryption was introduced.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct OpenLetter {
    #[partition_key]
    sender: String,
    #[row_key]
    number: u32,
    #[large(over = 100)]
    body: String,
}

/// A sweep encrypts plaintext blobs if a migration is declared. Otherwise it refuses and reports them.
pub(crate) async fn plaintext_blobs_are_rewritten_in_a_declared_migration(harness: &Harness) {
    let (table, blobs) = (TableViews::new(harness).await, Arc::new(InMemory::new()));
    let before = open_without_keys(&table, &blobs, LargeOptions::default());
    let Letter {
        sender,
        number,
        body,
    } = letter(1, "secret text ");
    before
        .insert(&OpenLetter {
            sender,
            number,
            body,
        })
        .await
        .expect("an insert");

    let rules = TableViews::over(table.raw.clone(), super::keys(), |b, t| {
        b.encrypt_type::<Letter>(t).accept_plaintext(t)
    });
    assert_eq!(
        rules
            .store
            .migration(rules.raw.name())
            .run()
            .await
            .expect("a migration")
            .changed,
        1
    );
    let strict = open(&rules, &blobs);
    let key = Letter::key("Ken", 1_u32).expect("a key");
    strict.get(&key).await.expect_err("a blob in plaintext");
    let mut rewrite = strict.rewrite_blobs();
    assert_eq!(rewrite.run().await.expect("a sweep").unreadable.len(), 1);

    let migrating = open_with(&rules, &blobs, LargeOptions::default().accept_plaintext());
    assert_eq!(
        migrating.get_existing(&key).await.expect("a letter"),
        letter(1, "secret text ")
    );
    let mut count = migrating.rewrite_blobs().counting();
    let counted = count.run().await.expect("a count");
    assert_eq!(counted.plaintext, 1);
    assert_eq!(counted.rewritten, 0);
    assert_eq!(counted.keys.len(), 0);
    let mut rewrite = migrating.rewrite_blobs();
    let found = rewrite.run().await.expect("a sweep");
    assert_eq!(found.plaintext, 0);
    assert_eq!(found.rewritten, 1);
    assert_eq!(found.keys["kek1"], 1);
    let stored = stored(&blobs).await;
    assert_eq!(stored.len(), 1);
    assert!(!stored[0].1.windows(6).any(|w| w == b"secret"));
    assert_eq!(
        strict.get_existing(&key).await.expect("a letter"),
        letter(1, "secret text ")
    );
}

/// A type without keys cannot read the references of encrypted rows: a collection keeps their blobs.
pub(crate) async fn blobs_of_rows_in_ciphertext_are_not_collected(harness: &Harness) {
    let (table, blobs) = (TableViews::new(harness).await, Arc::new(InMemory::new()));
    open(&table, &blobs)
        .insert(&letter(1, "secret text "))
        .await
        .expect("an insert");
    let options = LargeOptions::default().with_write_deadline(Duration::from_millis(1));
    let keyless = open_without_keys(&table, &blobs, options);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let found = keyless
        .collect_blobs(Duration::from_millis(2), CollectMode::Remove)
        .await
        .expect("a collection");
    assert_eq!(found.used, 1);
    assert_eq!(found.orphans, 0);
    assert_eq!(found.young, 0);
    let key = Letter::key("Ken", 1_u32).expect("a key");
    assert_eq!(
        open(&table, &blobs)
            .get_existing(&key)
            .await
            .expect("a letter"),
        letter(1, "secret text ")
    );

    let clear = Arc::clone(&table.store) as Arc<dyn TableStore>;
    clear
        .write(
            table.raw.name(),
            Operation::Delete(key.into_key(), IfMatch::Any),
        )
        .await
        .expect("a row");
    let found = keyless
        .collect_blobs(Duration::from_millis(2), CollectMode::Remove)
        .await
        .expect("a collection");
    assert_eq!(found.used, 0);
    assert_eq!(found.orphans, 1);
    assert_eq!(stored(&blobs).await.len(), 0);
}
