//! Client-side encryption over any [`TableStore`](table_core::store::TableStore). Marked properties leave the
//! program encrypted only. They cannot be changed, exchanged, moved or removed without detection.
//!
//! ```
//! use std::sync::Arc;
//! use table_core::memory::MemoryStore;
//! use table_core::prelude::*;
//! use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, Keys};
//!
//! #[derive(Debug, PartialEq, TableEntity)]
//! struct Employee {
//!     #[partition_key]
//!     department: String,
//!     #[row_key]
//!     id: u32,
//!     #[encrypt]
//!     national_id: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> table_core::Result<()> {
//! let kek = AesKeyWrap::new("kek-2026", &KeyBytes::random(32)?)?;
//! let store = EncryptedStore::new(MemoryStore::new(), Keys::new(Arc::new(kek)))?;
//! let table = TableName::new("Employees")?;
//! store.create_table(&table).await?;
//! let ken = Employee { department: "Sales".into(), id: 223, national_id: "760519-1234".into() };
//! store.write(&table, Operation::Insert(ken.to_entity()?)).await?; // or through `table_patterns::Table`
//! let read = store.get_existing(&table, Employee::key("Sales", 223)?.key()).await?;
//! assert_eq!(Employee::from_entity(read)?, ken);
//! # Ok(())
//! # }
//! ```
//!
//! | item | use |
//! |---|---|
//! | [`EncryptedStore`] | encrypts and decrypts around another store |
//! | [`Keys`], [`KeyWrap`], [`KeyResolver`] | key encryption keys: local ([`AesKeyWrap`], `RsaKeyWrap`) or a key service |
//! | [`EncryptedStore::rotation`] | changes the key encryption key without encrypting entities again |
//! | [`EncryptedStore::migration`] | converts plaintext and legacy data to this format, online |
//! | [`BlindIndex`] | equality lookups by an encrypted property |
//! | [`BlobCipher`] | encrypted values outside the table, as streams |
//! | [`encrypted_names`] | what the header of a stored entity says, without keys |
//! | [`LegacyV1`] | the format of the first storage libraries |
//!
//! `docs/encryption.md` helps to choose. `docs/encryption-format.md` specifies every byte, the threat model
//! and the reasons.
//!
//! Features, off by default: `rsa`, for `RsaKeyWrap`; `patterns`, for [`BlobCipher`] as the codec of large entities
//! in `table-patterns`.

mod blind;
mod blob;
mod data_key;
mod error;
mod framing;
mod key;
mod store;
mod sweep;
#[cfg(test)]
mod testing;
mod v1;
mod v2;

pub use blind::BlindIndex;
pub use blob::{BlobCipher, BlobOpener, BlobPlace, BlobSealer};
pub use data_key::{CacheBounds, DataKeyBounds};
pub use key::{AesKeyWrap, KeyBytes, KeyResolver, KeyWrap, Keys};
#[cfg(feature = "rsa")]
pub use key::{OaepHash, RsaKeyWrap};
pub use store::{Description, EncryptedStore, EncryptedStoreBuilder, encrypted_names};
pub use sweep::{Migration, Rotation, Sweep, SweepProgress};
pub use v1::LegacyV1;
