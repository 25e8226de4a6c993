//! The Table service's REST protocol in front of any [`TableStore`](table_core::store::TableStore): clients of every
//! language use a store of this library as they use Azure Table Storage.
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
//! Tests start [`TestServer`]. `docs/server.md` says how other languages use a server, what is not served, and how it
//! differs from the emulator.
//!
//! # What it promises
//! Every request is authorized by an account's key or by a signature made with it. An answer with a status below 300 was
//! given by the store: with a durable store it is on disk. A request whose outcome the store does not know is answered with
//! a status of 500, as the service answers it. Connections, headers, bodies and times are bounded ([`Limits`]).

mod account;
mod acl;
mod address;
mod answer;
mod authorize;
mod batch;
mod body;
mod connection;
mod cors;
mod entities;
mod errors;
mod limits;
mod multipart;
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
#[cfg(feature = "tls")]
pub use tls::{Certificate, InvalidCertificate};
