//! Large entities: a field with more than a number of bytes (32,768 unless `over` is set) is stored in a blob.
//!
//! Cost: insert 1 request, get 1, replace and delete 2; in the blob store 1 per blob that is written, read or deleted. A blob of more
//! than 8 MiB is written by 1 request per 8 MiB and 2 more.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use table_patterns::large::CollectMode;
use table_patterns::prelude::*;

#[derive(Clone, Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Photo {
    #[partition_key]
    album: String,
    #[row_key]
    number: u32,
    title: String,
    /// In the row up to 1,000 bytes, in a blob above.
    #[large(over = 1000)]
    image: Vec<u8>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    // `with_fsync` is needed for local files: a blob must be on disk before the row that refers to it.
    let blobs = Arc::new(LocalFileSystem::new_with_prefix(directory.path())?.with_fsync(true));
    let store = Arc::new(MemoryStore::new());
    let db = Database::new(store.clone()).with_blobs(blobs);
    let photos = db.table::<Photo>("Photos")?;
    photos.declare().await?;

    // 3 MB, more than an entity can hold.
    let photo = Photo {
        album: "2013".to_owned(),
        number: 1,
        title: "JFK".to_owned(),
        image: vec![7; 3_000_000],
    };
    photos.insert(&photo).await?;
    assert_eq!(
        photos
            .get_existing(Photo::key("2013", 1)?)
            .await?
            .image
            .len(),
        3_000_000
    );

    // A database without a blob store refuses the type.
    assert!(Database::new(store).table::<Photo>("Photos").is_err());

    // Replaces the image by a stream, of which only a part is in memory.
    let key = Photo::key("2013", 1)?;
    let pieces = stream::iter((0..20).map(|n| Ok(Bytes::from(vec![n; 1_000_000]))));
    photos
        .put_stream(&key, Photo::IMAGE, pieces, IfMatch::Any)
        .await?;
    let image = photos
        .read_stream(&key, Photo::IMAGE)
        .await?
        .ok_or("the image")?;
    let bytes = image
        .content
        .try_fold(0, |sum, piece| async move { Ok(sum + piece.len()) })
        .await?;
    assert_eq!(bytes, 20_000_000);

    // `put_stream` has deleted the previous image. A crash can leave a blob that no row refers to; `collect_blobs` deletes such blobs if they
    // are older than the grace period, which must be longer than any write. Run it monthly, with a grace period of a day.
    let found = photos
        .collect_blobs(Duration::from_secs(86_400), CollectMode::Remove)
        .await?;
    assert_eq!(found.young, 1, "the current image, too young to be checked");
    assert_eq!(found.orphans, 0);
    Ok(())
}
