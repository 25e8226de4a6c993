//! The embedded store: acknowledged writes exist after a restart and in a backup. Use it for data on one machine, and for
//! tests of programs that run on a service.
//!
//! Cost: a write returns when it is synced to disk; `backup` reads the whole store. No service is involved, so nothing is billed.

use table_embedded::EmbeddedStore;
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Note {
    #[partition_key]
    topic: String,
    #[row_key]
    number: u32,
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let (original, copy) = (
        directory.path().join("notes"),
        directory.path().join("backup"),
    );
    let note = Note {
        topic: "storage".to_owned(),
        number: 1,
        text: "synced before it returns".to_owned(),
    };

    let store = EmbeddedStore::open(&original).await?;
    let notes = Database::new(store.clone()).table::<Note>("Notes")?;
    notes.declare().await?;
    notes.insert(&note).await?; // on disk now

    // A directory can be opened by one process at a time, and once in a process.
    let error = EmbeddedStore::open(&original).await.unwrap_err();
    assert!(error.to_string().contains("notes"), "{error}");

    // The backup runs while the store is in use.
    store.backup(&copy).await?;
    notes.delete(note.entity_key()?, IfMatch::Any).await?;
    store.close().await?;

    let reopened = EmbeddedStore::open(&original).await?;
    let notes = Database::new(reopened.clone()).table::<Note>("Notes")?;
    assert_eq!(notes.get(note.entity_key()?).await?, None);
    reopened.close().await?;

    let backup = EmbeddedStore::open(&copy).await?;
    let notes = Database::new(backup.clone()).table::<Note>("Notes")?;
    assert_eq!(notes.get(note.entity_key()?).await?, Some(note));
    Ok(backup.close().await?)
}
