//! A blob store that counts its requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// Counts the calls to a blob store. Each part of an upload is a call; a listing is one call, whatever its
/// number of pages.
#[derive(Debug)]
pub(super) struct CountingBlobs {
    blobs: Arc<dyn ObjectStore>,
    requests: Requests,
}

#[derive(Clone, Debug, Default)]
struct Requests(Arc<AtomicU64>);

impl Requests {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl CountingBlobs {
    pub(super) fn new(blobs: Arc<dyn ObjectStore>) -> Self {
        Self {
            blobs,
            requests: Requests::default(),
        }
    }

    /// The number of calls so far, or since the last `take`.
    pub(super) fn requests(&self) -> u64 {
        self.requests.0.load(Ordering::SeqCst)
    }

    /// The number of calls since the last `take`; starts again at zero.
    pub(super) fn take(&self) -> u64 {
        self.requests.0.swap(0, Ordering::SeqCst)
    }
}

impl fmt::Display for CountingBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counted {}", self.blobs)
    }
}

#[async_trait]
impl ObjectStore for CountingBlobs {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.requests.count();
        self.blobs.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.requests.count();
        let upload = self.blobs.put_multipart_opts(path, options).await?;
        Ok(Box::new(CountingUpload {
            upload,
            requests: self.requests.clone(),
        }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.requests.count();
        self.blobs.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.requests.count();
        self.blobs.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.requests.count();
        self.blobs.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.requests.count();
        self.blobs.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.requests.count();
        self.blobs.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct CountingUpload {
    upload: Box<dyn MultipartUpload>,
    requests: Requests,
}

#[async_trait]
impl MultipartUpload for CountingUpload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        self.requests.count();
        self.upload.put_part(part)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.requests.count();
        self.upload.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.requests.count();
        self.upload.abort().await
    }
}
