//! What a build without the feature `blobs` has instead of a blob store: nothing, so no value of this type exists.

use table_core::store::Result;

#[derive(Clone, Debug)]
pub(crate) enum Blobs {}

impl Blobs {
    pub(crate) async fn put(&self, _index: &str, _bytes: Vec<u8>) -> Result<String> {
        match *self {}
    }

    pub(crate) async fn get(&self, _name: &str) -> Result<Option<Vec<u8>>> {
        match *self {}
    }

    pub(crate) async fn discard(&self, _names: &[String]) {
        match *self {}
    }

    pub(crate) async fn delete(&self, _name: &str) -> Result<()> {
        match *self {}
    }

    pub(crate) async fn list(&self, _index: &str) -> Result<Vec<String>> {
        match *self {}
    }
}
