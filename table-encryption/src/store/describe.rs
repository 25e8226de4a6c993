use table_core::model::{EdmType, Key, TableName};
use table_core::query::Select;
use table_core::store::{Result, TableStore};

use super::{EncryptedStore, Stored};
use crate::v1::METADATA;
use crate::v2::HEADER;

/// The claims of an entity's header, for operators. They are not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// No header; nothing is encrypted.
    Plain,
    /// Format v2.
    V2 {
        /// The id of the key that wrapped the data key.
        key_id: String,
        /// The wrapping algorithm.
        algorithm: String,
        /// The encrypted properties.
        properties: Vec<(String, EdmType)>,
    },
    /// Legacy format v1. It does not list the encrypted properties in plaintext.
    V1 {
        /// The id of the key that wrapped the content key.
        key_id: String,
        /// The wrapping algorithm.
        algorithm: String,
    },
}

impl<S: TableStore> EncryptedStore<S> {
    /// Describes how an entity is encrypted, if it exists. 1 request to the store and none to a key service.
    ///
    /// # Errors
    /// Fails with the wrapped store's errors, and if the header cannot be parsed.
    pub async fn describe(&self, table: &TableName, key: &Key) -> Result<Option<Description>> {
        let select = Select::new(std::iter::once(HEADER).chain(METADATA));
        let Some(entity) = self.fetch(table, key, Some(&select)).await? else { return Ok(None) };
        Ok(Some(match self.opener(table, None).stored(&entity)? {
            Stored::Plain => Description::Plain,
            Stored::V2(header) => Description::V2 {
                key_id: header.wrapping.key_id.into(),
                algorithm: header.wrapping.algorithm.into(),
                properties: header.list.into_iter().map(|l| (l.name.into(), l.edm_type)).collect(),
            },
            Stored::V1(metadata) => {
                Description::V1 { key_id: metadata.key_id, algorithm: metadata.algorithm }
            }
        }))
    }
}
