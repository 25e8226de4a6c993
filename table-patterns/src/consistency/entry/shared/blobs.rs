//! Lists of references in blobs.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use table_core::store::{Error, Result};
use uuid::Uuid;

use crate::blobs::blob_error as failed;

/// The blobs of the indexes of one table. Each blob is written once, under a name that is never reused.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    store: Arc<dyn ObjectStore>,
    folder: String,
}

impl Blobs {
    /// Blobs below a folder that only this table uses.
    pub(crate) const fn new(store: Arc<dyn ObjectStore>, folder: String) -> Self {
        Self { store, folder }
    }

    /// Writes a blob and returns its name.
    pub(crate) async fn put(&self, index: &str, bytes: Vec<u8>) -> Result<String> {
        let path = self
            .of_index(index)
            .join(Uuid::new_v4().simple().to_string());
        self.store.put(&path, bytes.into()).await.map_err(failed)?;
        Ok(path.to_string())
    }

    /// The content of a blob; `None` if it does not exist.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = parse_name(name)?;
        let found = match self.store.get(&path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(failed)?,
        };
        Ok(Some(found.bytes().await.map_err(failed)?.into()))
    }

    /// Deletes blobs that no row names. After a failure, the blob is an orphan, which `collect_blobs` deletes.
    pub(crate) async fn discard(&self, names: &[String]) {
        for name in names {
            if let Err(error) = self.delete(name).await {
                tracing::debug!(%error, name, "an unused blob was not deleted; `collect_blobs` deletes it");
            }
        }
    }

    /// Deletes a blob if it exists.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        let path = parse_name(name)?;
        match self.store.delete(&path).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            other => other.map_err(failed),
        }
    }

    /// The names of an index's blobs.
    pub(crate) async fn list(&self, index: &str) -> Result<Vec<String>> {
        let all = self.store.list(Some(&self.of_index(index)));
        all.map_ok(|meta| meta.location.to_string())
            .try_collect()
            .await
            .map_err(failed)
    }

    fn of_index(&self, index: &str) -> Path {
        [self.folder.as_str(), index].into_iter().collect()
    }
}

/// The path of a blob from its name in a list's row.
fn parse_name(name: &str) -> Result<Path> {
    Path::parse(name).map_err(|error| {
        Error::corrupt(format!(
            "a list has a name of a blob that no blob can have: {error}"
        ))
    })
}
