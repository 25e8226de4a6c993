//! A blob store with injected faults, for tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use table_core::adapter::{CrashPoint, FaultInjector};

/// Blobs in memory. Counts the requests, and makes one of them fail, or crashes the process at one of them.
#[derive(Debug)]
pub(crate) struct FaultyBlobs {
    pub(crate) inner: Arc<InMemory>,
    tables: FaultInjector,
    requests: AtomicU64,
    fails_at: AtomicU64,
    after: AtomicBool,
    crashes: AtomicBool,
    dead: AtomicBool,
    refuses: AtomicBool,
}

impl FaultyBlobs {
    /// The blobs of a process whose requests to tables go through `tables`: a crash stops the requests to both.
    pub(crate) fn new(inner: Arc<InMemory>, tables: FaultInjector) -> Self {
        let (requests, fails_at) = (AtomicU64::new(0), AtomicU64::new(0));
        let (after, crashes, dead) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let refuses = AtomicBool::new(false);
        Self { inner, tables, requests, fails_at, after, crashes, dead, refuses }
    }

    /// Makes the `n`th request from now (from 1) fail, before or after it takes effect. With `crashes`, all later requests
    /// to blobs and tables fail too.
    pub(crate) fn fail_at(&self, n: u64, point: CrashPoint, crashes: bool) {
        self.after.store(point == CrashPoint::After, Ordering::SeqCst);
        self.crashes.store(crashes, Ordering::SeqCst);
        self.fails_at.store(self.requests() + n, Ordering::SeqCst);
    }

    /// Refuses all later requests, as for a bucket that does not exist.
    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Whether the request that should fail was sent.
    pub(crate) fn has_failed(&self) -> bool {
        let at = self.fails_at.load(Ordering::SeqCst);
        at > 0 && self.requests() >= at
    }

    async fn run<T>(&self, request: impl Future<Output = Result<T>> + Send) -> Result<T> {
        if self.dead.load(Ordering::SeqCst) || self.tables.is_crashed() {
            return Err(broken());
        }
        if self.refuses.load(Ordering::SeqCst) {
            return Err(Error::NotFound { path: "bucket".to_owned(), source: "no such bucket".into() });
        }
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if number != self.fails_at.load(Ordering::SeqCst) {
            return request.await;
        }
        if self.crashes.load(Ordering::SeqCst) {
            self.dead.store(true, Ordering::SeqCst);
            self.tables.crash_at(1, CrashPoint::Before);
        }
        if self.after.load(Ordering::SeqCst) {
            request.await?;
        }
        Err(broken())
    }
}

fn broken() -> Error {
    Error::Generic { store: "faulty", source: "the blob store cannot be reached (injected)".into() }
}

impl fmt::Display for FaultyBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty blobs")
    }
}

#[async_trait]
impl ObjectStore for FaultyBlobs {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.run(self.inner.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.run(self.inner.put_multipart_opts(path, options)).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.run(self.inner.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.dead.load(Ordering::SeqCst) || self.tables.is_crashed() {
            return stream::iter([Err(broken())]).boxed();
        }
        let verdict = futures_util::FutureExt::now_or_never(self.run(async { Ok(()) }));
        let failed = !matches!(verdict, Some(Ok(())));
        if failed && !self.after.load(Ordering::SeqCst) {
            return stream::iter([Err(broken())]).boxed();
        }
        let inner = Arc::clone(&self.inner);
        let deleted = paths.and_then(move |path| {
            let inner = Arc::clone(&inner);
            async move {
                let one = stream::iter([Ok(path.clone())]).boxed();
                inner.delete_stream(one).try_collect::<Vec<_>>().await?;
                if failed { Err(broken()) } else { Ok(path) }
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.run(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.run(self.inner.copy_opts(from, to, options)).await
    }
}
