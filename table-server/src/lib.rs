//! The Table service's REST protocol for any [`TableStore`](table_core::store::TableStore). Clients of every
//! language can use a store of this library like Azure Table Storage.
//!
//! ```
//! use table_core::memory::MemoryStore;
//! use table_server::{Account, Server};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), table_server::StartError> {
//! let server = Server::builder()
//!     .account(Account::emulator(), MemoryStore::new())
//!     .listen("127.0.0.1:0".parse().expect("an address"))
//!     .start()
//!     .await?;
//! println!("{}", server.connection_string("devstoreaccount1").expect("an account that is served"));
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! For tests, use [`TestServer`]. `docs/server.md` describes how other languages use a server, what is not
//! supported, and the differences from the emulator.
//!
//! # Guarantees
//! Every request is authorized by an account key or by a signature made with it, except for preflight requests
//! of browsers, the addresses for operators, and the explorer if it is served. A response with a status
//! below 300 means that the store has executed the request; with a durable store, a write is on disk. If the
//! store does not know the outcome of a request, the response has status 500, as in the service. Connections,
//! headers, bodies and times are limited ([`Limits`]).

mod account;
mod acl;
mod address;
mod answer;
mod authorize;
mod batch;
mod browsers;
mod clients;
mod connection;
mod cors;
mod entities;
mod errors;
mod explorer;
#[cfg(fuzzing)]
#[allow(clippy::expect_used, reason = "constants are legal")]
pub mod fuzzing;
#[cfg(feature = "indexes")]
mod indexes;
mod limits;
mod multipart;
mod operators;
mod properties;
mod queries;
mod request;
mod server;
mod service;
mod settings;
mod start;
mod tables;
mod tenant;
mod test_server;
#[cfg(feature = "tls")]
mod tls;
mod wire;
mod xml;

pub use account::{Account, EMULATOR_ACCOUNT, EMULATOR_KEY, InvalidAccount};
pub use limits::Limits;
pub use server::Server;
pub use start::{ServerBuilder, StartError};
pub use test_server::TestServer;
#[cfg(feature = "self-signed")]
pub use tls::SelfSigned;
#[cfg(feature = "tls")]
pub use tls::{Certificate, InvalidCertificate};
