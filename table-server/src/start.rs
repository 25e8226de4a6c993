//! How a server is made.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use table_core::store::TableStore;
use tokio::net::TcpListener;

use crate::account::Account;
use crate::limits::Limits;
use crate::server::{Server, Setup};
use crate::service::Service;
use crate::tenant::Tenants;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nothing to serve.
    #[error("no account is served; add one with `account`")]
    NoAccount,
    /// Everybody knows the emulator's key.
    #[error(
        "the account {account:?} has the emulator's key, which everybody knows: it is served on loopback addresses alone, not \
         on {address}; give the account a key of its own"
    )]
    PublicKey {
        /// The account.
        account: String,
        /// Where the server was to listen.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// Makes a [`Server`].
#[derive(Debug)]
pub struct ServerBuilder {
    tenants: Tenants,
    address: SocketAddr,
    limits: Limits,
    #[cfg(feature = "tls")]
    certificate: Option<crate::tls::Certificate>,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            tenants: Tenants::default(),
            address: (Ipv4Addr::LOCALHOST, 10002).into(),
            limits: Limits::default(),
            #[cfg(feature = "tls")]
            certificate: None,
        }
    }
}

impl ServerBuilder {
    /// Serves a store as an account; another account of the same name is replaced. Accounts that are given one store share
    /// its tables.
    #[must_use]
    pub fn account<S: TableStore>(mut self, account: Account, store: S) -> Self {
        self.tenants.add(account, Arc::new(store));
        self
    }

    /// Listens here, and not on `127.0.0.1:10002`. With port 0 the system chooses one: [`Server::address`].
    #[must_use]
    pub const fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// With other bounds.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Over TLS alone.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn certificate(mut self, certificate: crate::tls::Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// Listens and serves, on the runtime that this is called on.
    ///
    /// # Errors
    /// No account; the emulator's key on an address that others reach; the address cannot be listened on.
    pub async fn start(self) -> Result<Server, StartError> {
        if self.tenants.is_empty() {
            return Err(StartError::NoAccount);
        }
        let failed = |source| StartError::Listen { address: self.address, source };
        let listener = TcpListener::bind(self.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if let Some(account) = self.tenants.public_key().filter(|_| !address.ip().is_loopback()) {
            return Err(StartError::PublicKey { account: account.to_owned(), address });
        }
        let setup = Setup {
            service: Arc::new(Service::new(self.tenants, &self.limits)),
            limits: self.limits,
            #[cfg(feature = "tls")]
            certificate: self.certificate,
        };
        Ok(Server::over(listener, address, setup))
    }
}
