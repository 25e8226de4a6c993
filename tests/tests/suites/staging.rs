//! Large entities in local files: a collection removes the files of killed uploads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::local::LocalFileSystem;
use object_store::path::Path as BlobPath;
use object_store::{MultipartUpload, ObjectStore as _, PutMultipartOptions};
use table_core::memory::MemoryStore;
use table_core::store::Result;
use table_core::typed::TableEntity;
use table_patterns::Database;
use table_patterns::large::{CollectMode, LargeOptions};
use tokio::time::sleep;
use uuid::Uuid;

#[derive(Debug, TableEntity)]
struct Film {
    #[partition_key]
    year: u32,
    #[row_key]
    number: u32,
    #[large(over = 10)]
    pictures: Vec<u8>,
}

/// Returns every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Starts an upload with one part, in the directory of the only blob.
async fn begin(blobs: &LocalFileSystem, directory: &Path) -> Box<dyn MultipartUpload> {
    let blob = files(&directory.join("large"));
    let beside = blob[0]
        .parent()
        .unwrap()
        .strip_prefix(directory)
        .unwrap()
        .to_str()
        .unwrap();
    let path = BlobPath::parse(format!("{beside}/{}", Uuid::new_v4())).unwrap();
    let mut upload = blobs
        .put_multipart_opts(&path, PutMultipartOptions::default())
        .await
        .unwrap();
    upload.put_part(vec![1; 1000].into()).await.unwrap();
    upload
}

#[tokio::test]
async fn files_of_killed_uploads_are_collected() -> Result<()> {
    let directory = tempfile::tempdir().unwrap();
    let blobs = Arc::new(LocalFileSystem::new_with_prefix(directory.path()).unwrap());
    let options = LargeOptions::default().with_local_files(directory.path());
    let hasty = options.clone().with_write_deadline(Duration::ZERO);
    let store = Arc::new(MemoryStore::new());
    let db = Database::new(store).with_blobs(blobs.clone());
    let open = |options| db.clone().with_large(options).table::<Film>("Films");
    let (films, hasty) = (open(options)?, open(hasty)?);
    films.declare().await?;
    films
        .insert(&Film {
            year: 1895,
            number: 1,
            pictures: vec![7; 100],
        })
        .await?;
    // The process of this upload is killed: nothing is cleaned up.
    std::mem::forget(begin(&blobs, directory.path()).await);
    let mut working = begin(&blobs, directory.path()).await;
    fs::write(
        directory.path().join("large/films/notes#1"),
        "of somebody else",
    )
    .unwrap();
    sleep(Duration::from_millis(50)).await;

    let young = films
        .collect_blobs(Duration::from_secs(7200), CollectMode::Remove)
        .await?;
    assert_eq!(young.staged, 0);
    assert_eq!(files(directory.path()).len(), 4);
    let nano = Duration::from_nanos(1);
    assert_eq!(
        hasty.collect_blobs(nano, CollectMode::Report).await?.staged,
        2
    );
    assert_eq!(files(directory.path()).len(), 4);
    let removed = hasty.collect_blobs(nano, CollectMode::Remove).await?;
    assert_eq!(removed.staged, 2);
    assert_eq!(removed.used, 1);
    assert_eq!(removed.orphans, 0);
    assert_eq!(
        files(directory.path()).len(),
        2,
        "the blob and the file of another program"
    );
    working
        .complete()
        .await
        .expect_err("an upload whose file was removed cannot complete");
    assert_eq!(
        films
            .get_existing(Film::key(1895u32, 1u32)?)
            .await?
            .pictures
            .len(),
        100
    );
    Ok(())
}
