//! A blob store of a process that crashes at a request to its tables.

use std::fmt;
use std::sync::Arc;

use conformance::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use table_core::adapter::FaultInjector;

/// Refuses requests once the process has crashed.
#[derive(Debug)]
pub(crate) struct CrashingBlobs {
    pub(crate) blobs: Arc<InMemory>,
    pub(crate) faults: FaultInjector,
}

impl CrashingBlobs {
    fn check(&self) -> Result<()> {
        if self.faults.is_crashed() {
            return Err(object_store::Error::Generic {
                store: "crashing",
                source: "the process is dead".into(),
            });
        }
        Ok(())
    }
}

impl fmt::Display for CrashingBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("crashing blobs")
    }
}

#[async_trait]
impl ObjectStore for CrashingBlobs {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.check()?;
        self.blobs.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.check()?;
        self.blobs.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check()?;
        self.blobs.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.check() {
            Ok(()) => self.blobs.delete_stream(locations),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.blobs.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.blobs.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.check()?;
        self.blobs.copy_opts(from, to, options).await
    }
}
