//! Builds and starts a server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use table_core::store::TableStore;
use tokio::net::TcpListener;

use crate::account::Account;
use crate::limits::Limits;
use crate::server::{Server, Setup};
use crate::service::{OptionalAddresses, Service};
use crate::tenant::Tenants;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No account was added.
    #[error("no account is served; add one with `account`")]
    NoAccount,
    /// The emulator's key is published, so it is refused on addresses that others can reach.
    #[error(
        "the account {account:?} has the emulator's key, which is published: it is served on loopback addresses alone, not \
         on {address}; give the account another key"
    )]
    PublicKey {
        /// The account with the key.
        account: String,
        /// The address of the server.
        address: SocketAddr,
    },
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address of the server.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Builds a [`Server`].
#[derive(Debug)]
pub struct ServerBuilder {
    tenants: Tenants,
    address: SocketAddr,
    limits: Limits,
    host: Option<String>,
    is_read_only: bool,
    addresses: OptionalAddresses,
    #[cfg(feature = "tls")]
    certificate: Option<crate::tls::Certificate>,
}

impl Server {
    /// Returns a builder.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            tenants: Tenants::default(),
            address: (Ipv4Addr::LOCALHOST, 10002).into(),
            limits: Limits::default(),
            host: None,
            is_read_only: false,
            addresses: OptionalAddresses::default(),
            #[cfg(feature = "tls")]
            certificate: None,
        }
    }
}

impl ServerBuilder {
    /// Serves a store under an account. It replaces another account of the same name. Give each account a store of
    /// its own: accounts with the same store share its tables, stored access policies and properties.
    #[must_use]
    pub fn account<S: TableStore>(mut self, account: Account, store: S) -> Self {
        self.tenants.add(account, Arc::new(store));
        self
    }

    /// Sets the address to listen on; default `127.0.0.1:10002`. With port 0 the operating system chooses the
    /// port: [`Server::address`].
    #[must_use]
    pub const fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the host name or address by which clients reach the server, for [`Server::endpoint`] and
    /// [`Server::connection_string`]. The default is the address to listen on. An account with the emulator's key is
    /// served under this name and under the names of this machine alone.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Refuses writes to all accounts with status 403.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Serves the counts of requests and connections at `/_metrics`, in the text format of Prometheus. They
    /// need no credential, and contain no names of accounts and tables, and no keys.
    #[must_use]
    pub const fn metrics(mut self) -> Self {
        self.addresses.metrics = true;
        self
    }

    /// Serves a page at `/_explorer` that shows the tables of every account to browsers of this machine. It needs
    /// no credential, so every user of the machine can read all tables with it. It changes nothing.
    #[must_use]
    pub const fn explorer(mut self) -> Self {
        self.addresses.explorer = true;
        self
    }

    /// Accepts TLS connections only.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn certificate(mut self, certificate: crate::tls::Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// Starts the server on the current runtime.
    ///
    /// # Errors
    /// Fails if there is no account, if the emulator's key is used on an address that others can reach, or if
    /// the server cannot listen on the address.
    pub async fn start(mut self) -> Result<Server, StartError> {
        if self.tenants.is_empty() {
            return Err(StartError::NoAccount);
        }
        let failed = |source| StartError::Listen {
            address: self.address,
            source,
        };
        let listener = TcpListener::bind(self.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if let Some(account) = self
            .tenants
            .account_with_public_key()
            .filter(|_| !address.ip().is_loopback())
        {
            return Err(StartError::PublicKey {
                account: account.to_owned(),
                address,
            });
        }
        if self.is_read_only {
            self.tenants.set_read_only();
        }
        let setup = Setup {
            service: Arc::new(Service::new(
                self.tenants,
                &self.limits,
                self.addresses,
                self.host.clone(),
            )),
            host: self.host,
            limits: self.limits,
            #[cfg(feature = "tls")]
            certificate: self.certificate,
        };
        Ok(Server::with_listener(listener, address, setup))
    }
}
