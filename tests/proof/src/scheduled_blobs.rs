//! A blob store whose requests wait for the scheduler.

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
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};

use super::footprint::Footprint;
use super::ids::{CURRENT_TASK, sending_task};
use super::scheduler::Scheduler;

/// The connection of one process to the shared blobs.
#[derive(Clone)]
pub(super) struct ScheduledBlobs {
    pub(super) blobs: Arc<InMemory>,
    pub(super) scheduler: Scheduler,
    /// Whether requests wait for the scheduler. Before that they run at once.
    pub(super) live: Arc<AtomicBool>,
}

impl ScheduledBlobs {
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
        let answer = self
            .scheduler
            .request(sending_task(CURRENT_TASK), footprint, reads, label, run)
            .await;
        answer.unwrap_or_else(|error| {
            Err(Error::Generic {
                store: "scheduled",
                source: error.into(),
            })
        })
    }
}

impl fmt::Debug for ScheduledBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScheduledBlobs")
    }
}

impl fmt::Display for ScheduledBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("scheduled blobs")
    }
}

#[async_trait]
impl ObjectStore for ScheduledBlobs {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
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
        self.step(
            Some(at),
            "get",
            Box::pin(async move { blobs.get_opts(&path, options).await }),
        )
        .await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
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
            let run =
                Box::pin(async move { blobs.list(prefix.as_ref()).try_collect::<Vec<_>>().await });
            this.step(None, "list", run)
                .await
                .map(|all| stream::iter(all.into_iter().map(Ok)))
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
