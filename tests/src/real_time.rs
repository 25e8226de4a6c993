//! Runs real stores in tests with virtual time.

use std::fmt;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};
use table_core::forward_to_store;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{GroupTransaction, Operation, Result, TableStore, Written};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// The runtime that runs requests in real time. It ends with the process.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
});

/// Runs a request in another runtime, in real time. A blocking task stops the clock of a test with paused time
/// while the request runs.
pub(crate) async fn in_real_time<T: Send + 'static>(
    request: impl Future<Output = T> + Send + 'static,
) -> T {
    spawn_blocking(move || RUNTIME.block_on(request))
        .await
        .expect("the request came to an end")
}

/// A store whose requests run in real time.
#[derive(Debug)]
pub struct RealTimeStore(Arc<dyn TableStore>);

impl RealTimeStore {
    /// Wraps a store.
    pub fn around(store: impl TableStore) -> Arc<Self> {
        Arc::new(Self(Arc::new(store)))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for RealTimeStore {
    forward_to_store!(self => self.0; profile, context);

    async fn create_table(&self, table: &TableName) -> Result<()> {
        let (store, table) = (self.0.clone(), table.clone());
        in_real_time(async move { store.create_table(&table).await }).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        let (store, table) = (self.0.clone(), table.clone());
        in_real_time(async move { store.delete_table(&table).await }).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let (store, prefix, from) = (self.0.clone(), prefix.map(str::to_owned), from.cloned());
        in_real_time(async move { store.list_tables(prefix.as_deref(), from.as_ref()).await }).await
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let (store, table, key, select) =
            (self.0.clone(), table.clone(), key.clone(), select.cloned());
        in_real_time(async move { store.get(&table, &key, select.as_ref()).await }).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let (store, table, query, from) =
            (self.0.clone(), table.clone(), query.clone(), from.cloned());
        in_real_time(async move { store.query(&table, &query, from.as_ref()).await }).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let (store, table) = (self.0.clone(), table.clone());
        in_real_time(async move { store.write(&table, operation).await }).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let (store, table) = (self.0.clone(), table.clone());
        in_real_time(async move { store.transact(&table, group).await }).await
    }
}

/// A blob store whose requests run in real time.
#[derive(Clone, Debug)]
pub(crate) struct RealTimeBlobs(pub(crate) Arc<dyn ObjectStore>);

/// As many blobs as one request of the service deletes.
const DELETED_TOGETHER: usize = 256;

impl fmt::Display for RealTimeBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in real time", self.0)
    }
}

type BlobResult<T> = object_store::Result<T>;

#[async_trait]
impl ObjectStore for RealTimeBlobs {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> BlobResult<PutResult> {
        let (blobs, path) = (self.0.clone(), path.clone());
        in_real_time(async move { blobs.put_opts(&path, payload, options).await }).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> BlobResult<Box<dyn MultipartUpload>> {
        let (blobs, path) = (self.0.clone(), path.clone());
        let upload =
            in_real_time(async move { blobs.put_multipart_opts(&path, options).await }).await?;
        Ok(Box::new(RealTimeUpload(Arc::new(Mutex::new(upload)))))
    }

    /// Reads the whole blob within the request: a stream that the caller reads would time out by the caller's clock.
    async fn get_opts(&self, path: &Path, options: GetOptions) -> BlobResult<GetResult> {
        let (blobs, path) = (self.0.clone(), path.clone());
        in_real_time(async move {
            let found = blobs.get_opts(&path, options).await?;
            let (meta, range) = (found.meta.clone(), found.range.clone());
            let (attributes, extensions) = (found.attributes.clone(), found.extensions.clone());
            let bytes = found.bytes().await?;
            let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
            Ok(GetResult {
                payload,
                meta,
                range,
                attributes,
                extensions,
            })
        })
        .await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, BlobResult<Path>>,
    ) -> BoxStream<'static, BlobResult<Path>> {
        let blobs = self.0.clone();
        let deleted = paths.chunks(DELETED_TOGETHER).then(move |paths| {
            let blobs = blobs.clone();
            in_real_time(async move {
                blobs
                    .delete_stream(stream::iter(paths).boxed())
                    .collect::<Vec<_>>()
                    .await
            })
        });
        deleted.flat_map(stream::iter).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, BlobResult<ObjectMeta>> {
        let (blobs, prefix) = (self.0.clone(), prefix.cloned());
        let listed = async move { blobs.list(prefix.as_ref()).collect::<Vec<_>>().await };
        in_real_time(listed)
            .map(stream::iter)
            .flatten_stream()
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> BlobResult<ListResult> {
        let (blobs, prefix) = (self.0.clone(), prefix.cloned());
        in_real_time(async move { blobs.list_with_delimiter(prefix.as_ref()).await }).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> BlobResult<()> {
        let (blobs, from, to) = (self.0.clone(), from.clone(), to.clone());
        in_real_time(async move { blobs.copy_opts(&from, &to, options).await }).await
    }
}

#[derive(Debug)]
struct RealTimeUpload(Arc<Mutex<Box<dyn MultipartUpload>>>);

#[async_trait]
impl MultipartUpload for RealTimeUpload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let upload = self.0.clone();
        in_real_time(async move {
            let part = upload.lock().await.put_part(part);
            part.await
        })
        .boxed()
    }

    async fn complete(&mut self) -> BlobResult<PutResult> {
        let upload = self.0.clone();
        in_real_time(async move { upload.lock().await.complete().await }).await
    }

    async fn abort(&mut self) -> BlobResult<()> {
        let upload = self.0.clone();
        in_real_time(async move { upload.lock().await.abort().await }).await
    }
}
