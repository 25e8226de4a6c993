//! Azure Table Storage and Azure Cosmos DB for Table over REST.
//!
//! [`AzureTableStore`] is a [`TableStore`](table_core::store::TableStore) like every other: a program
//! that runs on a local store runs on it without a change. It is shaped as the other clients of the
//! Azure SDK are, on `azure_core`: transport, token credentials, tracing and logging are theirs.
//!
//! | with | by |
//! |---|---|
//! | tokens (Microsoft Entra ID) | [`AzureTableStore::new`] |
//! | an account key | [`AzureTableStore::with_shared_key`] |
//! | a shared access signature | [`AzureTableStore::with_sas`] |
//! | a connection string of any kind, the emulator's too | [`AzureTableStore::from_connection_string`] |
//!
//! Beside tables there are [shared access signatures](sas), and [stored policies, properties and
//! statistics](service) of the account.

mod auth;
mod batch;
mod endpoint;
#[cfg(fuzzing)]
pub mod fuzzing;
mod operation;
mod options;
#[cfg(feature = "queue")]
pub mod queue;
mod rest;
pub mod sas;
pub mod service;
mod store;
#[cfg(feature = "reqwest_rustls")]
mod transport;
pub mod wire;

pub use auth::SharedKey;
pub use endpoint::ReadFrom;
pub use options::{AzureTableStoreOptions, Service};
pub use store::AzureTableStore;
