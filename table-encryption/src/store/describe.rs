use table_core::model::{EdmType, Entity, Key, TableName, ValueRef};
use table_core::query::Select;
use table_core::store::{Result, TableStore};

use super::{EncryptedStore, StoredForm};
use crate::v1::METADATA;
use crate::v2::{HEADER, Header};

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

/// Returns the names of the encrypted properties of a stored entity, as its header claims. Empty for an entity without a header of
/// format v2, and for a header that cannot be parsed.
///
/// ```
/// # use table_core::model::Entity;
/// let plain = Entity::new("Sales", "1")?.with("Name", "Ken");
/// assert!(table_encryption::encrypted_names(&plain).is_empty());
/// # Ok::<(), table_core::Error>(())
/// ```
pub fn encrypted_names(entity: &Entity) -> Vec<String> {
    let header = match entity.get(HEADER) {
        Some(ValueRef::Binary(bytes)) => Header::parse(bytes),
        _ => None,
    };
    header
        .into_iter()
        .flat_map(|header| header.list)
        .map(|listed| listed.name.into())
        .collect()
}

impl<S: TableStore> EncryptedStore<S> {
    /// Describes how an entity is encrypted, if it exists. 1 request to the store and none to a key service.
    ///
    /// # Errors
    /// Fails with the wrapped store's errors, and if the header cannot be parsed.
    pub async fn describe(&self, table: &TableName, key: &Key) -> Result<Option<Description>> {
        let select = Select::new(std::iter::once(HEADER).chain(METADATA));
        let Some(entity) = self.fetch(table, key, Some(&select)).await? else {
            return Ok(None);
        };
        Ok(Some(match self.decryptor(table, None).stored(&entity)? {
            StoredForm::Plain => Description::Plain,
            StoredForm::V2(header) => Description::V2 {
                key_id: header.wrapping.key_id.into(),
                algorithm: header.wrapping.algorithm.into(),
                properties: header
                    .list
                    .into_iter()
                    .map(|l| (l.name.into(), l.edm_type))
                    .collect(),
            },
            StoredForm::V1(metadata) => Description::V1 {
                key_id: metadata.key_id,
                algorithm: metadata.algorithm,
            },
        }))
    }
}
