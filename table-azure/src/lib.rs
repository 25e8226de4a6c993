//! Azure Table Storage and Azure Cosmos DB for Table over REST.
//!
//! [`AzureTableStore`] implements [`TableStore`](table_core::store::TableStore): a program that runs on a
//! local store runs on it unchanged. Like the other clients of the Azure SDK, it uses `azure_core` for
//! transport, token credentials, tracing and logging.
//!
//! | credential | constructor |
//! |---|---|
//! | tokens (Microsoft Entra ID) | [`AzureTableStore::new`] |
//! | an account key | [`AzureTableStore::with_shared_key`] |
//! | a shared access signature | [`AzureTableStore::with_sas`] |
//! | a connection string, also the emulator's | [`AzureTableStore::from_connection_string`] |
//!
//! The crate also has [shared access signatures](sas) and the account's [stored access policies, properties
//! and statistics](service).
//!
//! | module | content |
//! |---|---|
//! | [`sas`] | shared access signatures for tables and accounts |
//! | [`service`] | stored access policies, properties and statistics of the Table service, the tenant of an account |
//! | [`wire`] | the JSON of entities and pages |
//! | `queue` | work queues in Azure Queue Storage (feature `queue`) |
//!
//! The feature `reqwest_rustls`, which is on by default, adds an HTTP transport. Without it, set a transport in
//! [`AzureTableStoreOptions::client_options`].

mod auth;
mod batch;
mod endpoint;
#[cfg(fuzzing)]
pub mod fuzzing;
mod operation;
mod options;
#[cfg(feature = "queue")]
pub mod queue;
mod response;
mod rest;
pub mod sas;
pub mod service;
mod store;
#[cfg(feature = "reqwest_rustls")]
mod transport;
pub mod wire;

pub use auth::SharedKey;
pub use endpoint::{ReadFrom, Service};
pub use options::AzureTableStoreOptions;
pub use response::{ResponseHook, ResponseInfo, collect_responses};
pub use rest::client_error;
pub use store::AzureTableStore;
#[cfg(feature = "reqwest_rustls")]
pub use transport::transport;
