//! A blob store whose requests wait for their turn.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::footprint::Footprint;
use super::ids::{ACTING, sender};
use super::stage::Stage;

/// One process's way to the blobs that all share.
#[derive(Clone)]
pub(super) struct StagedBlobs {
    pub(super) blobs: Arc<InMemory>,
    pub(super) stage: Stage,
    /// Whether requests wait; until then they pass.
    pub(super) live: Arc<AtomicBool>,
}

impl StagedBlobs {
    async fn step<T: Send + 'static>(
        &self,
        at: Option<&Path>,
        what: &'static str,
        run: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        if !self.live.load(Ordering::SeqCst) {
            return run.await;
        }
        let reads = matches!(what, "get" | "list");
        let footprint = match at {
            Some(path) => Footprint::rows("blobs", "", vec![path.to_string()], !reads),
            None => Footprint::all("blobs", !reads),
        };
        let run = Box::pin(async move { Ok(run.await) });
        let label = || format!("blob {what} {at:?}");
        let answer = self.stage.request(sender(ACTING), footprint, reads, label, run).await;
        answer.unwrap_or_else(|error| Err(Error::Generic { store: "staged", source: error.into() }))
    }
}

impl fmt::Debug for StagedBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StagedBlobs")
    }
}

impl fmt::Display for StagedBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("staged blobs")
    }
}

#[async_trait]
impl ObjectStore for StagedBlobs {
    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (blobs, path) = (self.blobs.clone(), at.clone());
        let run = Box::pin(async move { blobs.put_opts(&path, payload, options).await });
        self.step(Some(at), "put", run).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.blobs.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let (blobs, path) = (self.blobs.clone(), at.clone());
        self.step(Some(at), "get", Box::pin(async move { blobs.get_opts(&path, options).await })).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let deletes = paths.and_then(move |path| {
            let this = this.clone();
            async move {
                let (blobs, at) = (this.blobs.clone(), path.clone());
                let run = Box::pin(async move { blobs.delete(&at).await });
                this.step(Some(&path), "delete", run).await.map(|()| path)
            }
        });
        deletes.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let blobs = this.blobs.clone();
            let run = Box::pin(async move { blobs.list(prefix.as_ref()).try_collect::<Vec<_>>().await });
            this.step(None, "list", run).await.map(|all| stream::iter(all.into_iter().map(Ok)))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.blobs.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.blobs.copy_opts(from, to, options).await
    }
}
