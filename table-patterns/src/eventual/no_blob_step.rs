//! What a build without the feature `blobs` does with steps that write blobs: it refuses them before the commit, and leaves those of
//! other submitters to other workers.

use table_core::store::{Error, Result};

use super::resources::Resources;

pub(super) async fn put_blob(resources: &Resources, blobs: &str, _path: &str, _bytes: &[u8]) -> Result<()> {
    resources.blobs(blobs)
}

pub(super) async fn delete_blob(resources: &Resources, blobs: &str, _path: &str) -> Result<()> {
    resources.blobs(blobs)
}

pub(super) fn check_path(path: &str) -> Result<()> {
    Err(Error::invalid_request(format!(
        "a step writes the blob {path:?}, and this program is built without the feature `blobs` of table-patterns"
    )))
}
