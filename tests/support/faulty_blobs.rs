//! A blob store with injected faults, for the tests of several packages.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, UploadPart,
};
use table_core::adapter::{CrashPoint, Fault, FaultInjector, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore as _};
use uuid::Uuid;

/// A blob store whose requests fail as an injector says.
#[derive(Clone, Debug)]
pub(crate) struct FaultyBlobs {
    blobs: Arc<dyn ObjectStore>,
    /// Each blob request is first a write to this store, which has the faults. The blob request takes effect if
    /// the write does.
    ledger: Arc<Faulty<MemoryStore>>,
    table: TableName,
    /// The faults of blob requests.
    faults: FaultInjector,
    /// The faults of the requests to tables: when one of the two has crashed, the process has.
    of_tables: FaultInjector,
    refuses: Arc<AtomicBool>,
    /// Whether the store has no conditional writes.
    is_unconditional: Arc<AtomicBool>,
    /// The faults that were injected before the last call of `fail_at`.
    earlier: Arc<AtomicUsize>,
    before_read: Arc<Mutex<Option<Action>>>,
    before_put: Arc<Mutex<Option<Action>>>,
}

/// What another process does before a request.
struct Action(BoxFuture<'static, ()>);

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Action")
    }
}

impl FaultyBlobs {
    /// Blobs whose requests are counted, and fail, together with the requests to tables.
    pub(crate) fn new(blobs: Arc<dyn ObjectStore>, faults: FaultInjector) -> Self {
        Self::of(blobs, faults.clone(), faults)
    }

    /// Blobs with a count and faults of their own: see [`fail_at`](Self::fail_at).
    pub(crate) fn apart(blobs: Arc<dyn ObjectStore>, of_tables: FaultInjector) -> Self {
        Self::of(blobs, FaultInjector::new(1), of_tables)
    }

    fn of(blobs: Arc<dyn ObjectStore>, faults: FaultInjector, of_tables: FaultInjector) -> Self {
        let (memory, table) = (
            MemoryStore::new(),
            TableName::new("Requests").expect("a legal name"),
        );
        memory
            .create_table(&table)
            .now_or_never()
            .expect("no waiting")
            .expect("a new table");
        let ledger = Arc::new(Faulty::new(memory, faults.clone()));
        let (refuses, is_unconditional, earlier) = (Arc::default(), Arc::default(), Arc::default());
        Self {
            blobs,
            ledger,
            table,
            faults,
            of_tables,
            refuses,
            is_unconditional,
            earlier,
            before_read: Arc::default(),
            before_put: Arc::default(),
        }
    }

    /// Runs an action of another process before the next read of a blob.
    pub(crate) fn before_next_read(&self, action: impl Future<Output = ()> + Send + 'static) {
        *self.before_read.lock().unwrap() = Some(Action(action.boxed()));
    }

    /// Runs an action of another process before the next blob is stored.
    pub(crate) fn before_next_put(&self, action: impl Future<Output = ()> + Send + 'static) {
        *self.before_put.lock().unwrap() = Some(Action(action.boxed()));
    }

    /// Whether the action of [`before_next_put`](Self::before_next_put) has run.
    pub(crate) fn has_run_before_put(&self) -> bool {
        self.before_put.lock().unwrap().is_none()
    }

    /// Whether the action of [`before_next_read`](Self::before_next_read) has run.
    pub(crate) fn has_run_before_read(&self) -> bool {
        self.before_read.lock().unwrap().is_none()
    }

    /// Makes the `n`th request from now (from 1) fail, before or after it takes effect. With `crashes`, all later requests
    /// to blobs and tables fail too.
    pub(crate) fn fail_at(&self, n: u64, point: CrashPoint, crashes: bool) {
        self.earlier
            .store(self.faults.injected().len(), Ordering::SeqCst);
        if crashes {
            return self.faults.crash_at(n, point);
        }
        let fault = if point == CrashPoint::Before {
            Fault::LoseRequest
        } else {
            Fault::LoseAnswer
        };
        self.faults
            .script((1..n).map(|_| None).chain([Some(fault)]));
    }

    /// Refuses all later requests, as for a bucket that does not exist.
    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    /// Refuses conditional writes from now on, as a store that does not have them.
    pub(crate) fn refuse_conditions(&self) {
        self.is_unconditional.store(true, Ordering::SeqCst);
    }

    /// The number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.faults.requests()
    }

    /// Whether the request that should fail was sent.
    pub(crate) fn has_failed(&self) -> bool {
        self.faults.injected().len() > self.earlier.load(Ordering::SeqCst)
    }

    async fn run<T>(&self, request: impl Future<Output = Result<T>> + Send) -> Result<T> {
        if self.of_tables.is_crashed() {
            return Err(lost());
        }
        if self.refuses.load(Ordering::SeqCst) {
            return Err(Error::NotFound {
                path: "bucket".to_owned(),
                source: "no such bucket".into(),
            });
        }
        let row = Entity::new("request", Uuid::new_v4().to_string()).expect("a legal key");
        let key = row.key().clone();
        let answered = self
            .ledger
            .write(&self.table, Operation::Insert(row))
            .await
            .is_ok();
        let arrived = self
            .ledger
            .inner()
            .get(&self.table, &key, None)
            .await
            .is_ok_and(|row| row.is_some());
        let answer = if arrived { request.await } else { Err(lost()) };
        if self.faults.is_crashed() && !self.of_tables.is_crashed() {
            // The next request to tables finds the process dead.
            self.of_tables.crash_at(1, CrashPoint::Before);
        }
        if answered { answer } else { Err(lost()) }
    }
}

fn lost() -> Error {
    Error::Generic {
        store: "faulty",
        source: "the blob store cannot be reached (injected)".into(),
    }
}

impl fmt::Display for FaultyBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty blobs")
    }
}

#[async_trait]
impl ObjectStore for FaultyBlobs {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if options.mode != PutMode::Overwrite && self.is_unconditional.load(Ordering::SeqCst) {
            return Err(Error::NotImplemented {
                operation: "a conditional put".to_owned(),
                implementer: self.to_string(),
            });
        }
        let action = self.before_put.lock().unwrap().take();
        if let Some(Action(action)) = action {
            action.await;
        }
        self.run(self.blobs.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self
            .run(self.blobs.put_multipart_opts(path, options))
            .await?;
        Ok(Box::new(FaultyUpload {
            upload,
            of: self.clone(),
        }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let action = self.before_read.lock().unwrap().take();
        if let Some(Action(action)) = action {
            action.await;
        }
        self.run(self.blobs.get_opts(path, options)).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let deleted = paths.and_then(move |path| {
            let this = this.clone();
            async move { this.run(this.blobs.delete(&path)).await.map(|()| path) }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, names) = (self.clone(), self.blobs.list(prefix));
        async move { this.run(async { Ok(names) }).await }
            .try_flatten_stream()
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.run(self.blobs.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.run(self.blobs.copy_opts(from, to, options)).await
    }
}

/// An upload; each of its parts is a request.
#[derive(Debug)]
struct FaultyUpload {
    upload: Box<dyn MultipartUpload>,
    of: FaultyBlobs,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (of, part) = (self.of.clone(), self.upload.put_part(data));
        async move { of.run(part).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.of.run(self.upload.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.of.run(self.upload.abort()).await
    }
}
