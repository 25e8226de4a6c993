//! Copies blobs and compares them by their hashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt as _;

use crate::Result;

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    pub(crate) blobs: u64,
    pub(crate) bytes: u64,
}

/// Copies every blob through a buffer, several concurrently. Then reads the copies, which must equal the
/// originals. Blobs that exist only in the target are kept.
pub(crate) async fn copy(
    (from, to): (&Arc<dyn ObjectStore>, &Arc<dyn ObjectStore>),
    concurrency: usize,
    on_copied: impl Fn(u64),
) -> Result<Copied> {
    let done = AtomicU64::new(0);
    let (done, on_copied) = (&done, &on_copied);
    let copies = from.list(None).map(|blob| async move {
        let path = blob?.location;
        let bytes = copy_one(from, to, &path)
            .await
            .map_err(|e| format!("the blob {path}: {e}"))?;
        on_copied(done.fetch_add(1, Ordering::Relaxed) + 1);
        Result::<u64>::Ok(bytes)
    });
    let sum = |so_far: Copied, bytes| async move {
        Ok(Copied {
            blobs: so_far.blobs + 1,
            bytes: so_far.bytes + bytes,
        })
    };
    copies
        .buffer_unordered(concurrency)
        .try_fold(Copied::default(), sum)
        .await
}

/// Copies one blob and returns its number of bytes.
async fn copy_one(
    from: &Arc<dyn ObjectStore>,
    to: &Arc<dyn ObjectStore>,
    path: &Path,
) -> Result<u64> {
    let mut content = from
        .get_opts(path, GetOptions::default())
        .await?
        .into_stream();
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut writer = BufWriter::new(Arc::clone(to), path.clone());
    while let Some(piece) = content.try_next().await? {
        hash.update(&piece);
        size += piece.len() as u64;
        writer.put(piece).await?;
    }
    writer.shutdown().await?;
    if hash_of(to, path).await? != hash.finalize()[..] {
        return Err(
            "the copy differs from the original: a program may write one of the stores".into(),
        );
    }
    Ok(size)
}

async fn hash_of(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<Vec<u8>> {
    let mut content = store
        .get_opts(path, GetOptions::default())
        .await?
        .into_stream();
    let mut hash = Sha256::new();
    while let Some(piece) = content.try_next().await? {
        hash.update(&piece);
    }
    Ok(hash.finalize().to_vec())
}
