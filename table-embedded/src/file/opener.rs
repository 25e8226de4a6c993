use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::directory::private;
use crate::options::Access;

type Open = dyn Fn(&Path, Access) -> io::Result<Box<dyn StorageBackend>> + Send + Sync;

/// Opens the bytes of a file: through the file system, or through a disk with injected faults in tests.
#[derive(Clone)]
pub(crate) struct Opener(pub(crate) Arc<Open>);

impl Default for Opener {
    fn default() -> Self {
        Self(Arc::new(|path, access| {
            let writes = access != Access::Read;
            let mut options = OpenOptions::new();
            options.read(true).write(writes).create(writes).truncate(false);
            let file = private(&mut options).open(path)?;
            Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
        }))
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}
