//! Encrypted properties over any [`TableStore`](table_core::store::TableStore): what is marked never leaves in the
//! clear, and cannot be changed, exchanged, moved or removed unnoticed.
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
//! let employees = Table::<Employee>::new(store, "Employees")?;
//! employees.create_if_missing().await?;
//! let ken = Employee { department: "Sales".into(), id: 223, national_id: "760519-1234".into() };
//! employees.insert(&ken).await?;
//! assert_eq!(employees.get_existing(Employee::key("Sales", 223)?).await?, ken);
//! # Ok(())
//! # }
//! ```
//!
//! | part | what it is for |
//! |---|---|
//! | [`EncryptedStore`] | encrypts and decrypts around another store |
//! | [`Keys`], [`KeyWrap`], [`KeyResolver`] | the key-encryption keys: local ([`AesKeyWrap`], `RsaKeyWrap`) or a key service |
//! | [`EncryptedStore::rotation`] | another key-encryption key, nothing encrypted again |
//! | [`EncryptedStore::migration`] | from plaintext and legacy data to this format, online |
//! | [`BlindIndex`] | equality lookups by an encrypted property |
//! | [`BlobCipher`] | values outside the table, streamed |
//! | [`LegacyV1`] | the format of the first storage libraries |
//!
//! `docs/encryption.md` helps to choose; `docs/encryption-format.md` has every byte, the threat model, and why.
//!
//! Features: `rsa` (default), for `RsaKeyWrap`; `patterns`, for [`BlobCipher`] as the codec of large entities in `table-patterns`.

mod blind;
mod blob;
mod data_key;
mod error;
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
pub use store::{Description, EncryptedStore, EncryptedStoreBuilder};
pub use sweep::{Migration, Rotation, Sweep, SweepProgress};
pub use v1::LegacyV1;
