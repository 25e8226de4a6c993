//! Large entities: fields that exceed their row are stored in a blob store automatically.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_patterns::large::{CollectMode, LargeTable};

#[derive(Clone, Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Photo {
    #[partition_key]
    album: String,
    #[row_key]
    number: u32,
    title: String,
    /// In the row up to 1000 bytes, in a blob above.
    #[large(over = 1000)]
    image: Vec<u8>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let blobs = Arc::new(LocalFileSystem::new_with_prefix(directory.path())?.with_fsync(true));
    let store = Arc::new(MemoryStore::new());
    let photos = LargeTable::<Photo>::new(store.clone(), "Photos", blobs)?;
    photos.create_if_missing().await?;

    // 3 MB, more than an entity can hold.
    let photo =
        Photo { album: "2013".to_owned(), number: 1, title: "JFK".to_owned(), image: vec![7; 3_000_000] };
    photos.insert(&photo).await?;
    assert_eq!(photos.get_existing(Photo::key("2013", 1u32)?).await?.image.len(), 3_000_000);

    // A plain table, which does not write blobs, refuses the type.
    assert!(Table::<Photo>::new(store, "Photos").is_err());

    // Another image from a stream, of which only a part is in memory.
    let key = Photo::key("2013", 1u32)?;
    let pieces = stream::iter((0..20).map(|n| Ok(Bytes::from(vec![n; 1_000_000]))));
    photos.put_stream(&key, Photo::IMAGE, pieces, IfMatch::Any).await?;
    let image = photos.read_stream(&key, Photo::IMAGE).await?.ok_or("the image")?;
    let bytes = image.content.try_fold(0, |sum, piece| async move { Ok(sum + piece.len()) }).await?;
    assert_eq!(bytes, 20_000_000);

    // The previous image was deleted after the row's reference to it. A collection deletes the blobs that
    // crashes left, once they are older than any running write. Run it monthly with a grace period of a day.
    let found = photos.collect(Duration::from_secs(86_400), CollectMode::Remove).await?;
    assert_eq!((found.young, found.orphans), (1, 0), "the current image, too young to be checked");
    Ok(())
}
