//! Steps that write and delete blobs.

use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};
use table_core::store::{Error, Outcome, Result};

use super::resources::Resources;
use crate::blobs::blob_error;

pub(super) async fn put_blob(
    resources: &Resources,
    blobs: &str,
    path: &str,
    bytes: &[u8],
) -> Result<()> {
    let payload = PutPayload::from(bytes.to_vec());
    let put = resources.blobs(blobs)?.put(&parse(path)?, payload).await;
    put.map(drop).map_err(blob_step_error)
}

pub(super) async fn delete_blob(resources: &Resources, blobs: &str, path: &str) -> Result<()> {
    match resources.blobs(blobs)?.delete(&parse(path)?).await {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        deleted => deleted.map_err(blob_step_error),
    }
}

/// Checks a path before the plan is committed.
///
/// # Errors
/// No blob store takes the path.
pub(super) fn check_path(path: &str) -> Result<()> {
    parse(path).map(drop)
}

fn parse(path: &str) -> Result<Path> {
    Path::parse(path)
        .map_err(|e| Error::invalid_argument(format!("{path:?} is not a valid blob path: {e}")))
}

/// A blob store's error. The blob store does not say whether a failed request took effect, except where it
/// refused the request: every transient error is ambiguous.
fn blob_step_error(error: object_store::Error) -> Error {
    let error = blob_error(error);
    if error.is_transient() {
        error.with_outcome(Outcome::Ambiguous)
    } else {
        error
    }
}
