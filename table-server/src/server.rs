//! A running server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::connection::{self, Phase};
use crate::limits::Limits;
use crate::service::{Peer, Service};

/// A server that listens and answers requests.
///
/// Call [`stop`](Self::stop) to finish pending requests. A dropped server closes its connections immediately;
/// requests without a response may or may not have been executed.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    setup: Arc<Setup>,
    phase: watch::Sender<Phase>,
    /// A permit per connection.
    connections: Arc<Semaphore>,
    accept_task: JoinHandle<()>,
}

/// The shared state of connections.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) service: Arc<Service>,
    pub(crate) limits: Limits,
    /// The host name that clients use.
    pub(crate) host: Option<String>,
    #[cfg(feature = "tls")]
    pub(crate) certificate: Option<crate::tls::Certificate>,
}

/// Pause after the operating system had no file descriptors or memory for a connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

impl Server {
    pub(crate) fn with_listener(listener: TcpListener, address: SocketAddr, setup: Setup) -> Self {
        let setup = Arc::new(setup);
        let (phase, phases) = watch::channel(Phase::Serve);
        let permits = setup.limits.connections.clamp(1, u32::MAX as usize);
        let connections = Arc::new(Semaphore::new(permits));
        let accept_task = tokio::spawn(accept(
            listener,
            Arc::clone(&setup),
            Arc::clone(&connections),
            phases,
        ));
        Self {
            address,
            setup,
            phase,
            connections,
            accept_task,
        }
    }

    /// Returns the address on which the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of an account. The URLs of its tables are below it.
    pub fn endpoint(&self, account: &str) -> String {
        let host = match &self.setup.host {
            Some(host) => format!("{host}:{}", self.address.port()),
            None => self.address.to_string(),
        };
        format!("{}://{host}/{account}", self.scheme())
    }

    /// Returns the connection string of an account, for clients of every language; `None` if the account is
    /// not served. It contains the account key.
    pub fn connection_string(&self, account: &str) -> Option<String> {
        let credential = self
            .setup
            .service
            .tenants
            .for_clients(account)?
            .account
            .credential();
        let (scheme, endpoint) = (self.scheme(), self.endpoint(account));
        Some(format!(
            "DefaultEndpointsProtocol={scheme};{credential};TableEndpoint={endpoint};"
        ))
    }

    fn scheme(&self) -> &'static str {
        #[cfg(feature = "tls")]
        if self.setup.certificate.is_some() {
            return "https";
        }
        "http"
    }

    /// Accepts no more connections and requests, answers pending requests, and closes. After
    /// [`Limits::stop_time`](crate::Limits::stop_time) it closes the remaining connections. Returns whether
    /// all pending requests were answered.
    pub async fn stop(mut self) -> bool {
        // In this order: no new connections, then the end of each connection after its request, and the rest is cut off.
        self.phase.send_replace(Phase::Finish);
        let _ = (&mut self.accept_task).await;
        let limits = &self.setup.limits;
        // All permits are free when the last connection has ended.
        let all = limits.connections.clamp(1, u32::MAX as usize) as u32;
        let finished = timeout(limits.stop_time, self.connections.acquire_many(all))
            .await
            .is_ok();
        self.phase.send_replace(Phase::Abort);
        finished
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Abort);
        self.accept_task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    setup: Arc<Setup>,
    connections: Arc<Semaphore>,
    mut phase: watch::Receiver<Phase>,
) {
    let stopped = phase.clone();
    let take = async {
        loop {
            // The semaphore is never closed.
            // Before `accept`: at the bound, further clients wait in the system's queue and cost no memory here.
            let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, address)) => {
                    tokio::spawn(serve(
                        stream,
                        address,
                        permit,
                        Arc::clone(&setup),
                        stopped.clone(),
                    ));
                }
                Err(error) => {
                    tracing::warn!(target: "table_server", %error, "a connection could not be accepted");
                    sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = take => {}
        _ = phase.wait_for(|phase| *phase != Phase::Serve) => {}
    }
}

async fn serve(
    stream: TcpStream,
    address: SocketAddr,
    permit: OwnedSemaphorePermit,
    setup: Arc<Setup>,
    phase: watch::Receiver<Phase>,
) {
    // Responses are written in one piece, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let (service, limits) = (Arc::clone(&setup.service), setup.limits);
    let _counted = setup.service.metrics.connection();
    let peer = Peer {
        ip: address.ip(),
        secure: false,
    };
    #[cfg(feature = "tls")]
    if let Some(certificate) = &setup.certificate {
        let peer = Peer {
            secure: true,
            ..peer
        };
        let mut stops = phase.clone();
        let accepted = tokio::select! {
            // Before the end of the handshake no request can be pending, so a stop does not wait for it.
            _ = stops.wait_for(|phase| *phase != Phase::Serve) => None,
            accepted = timeout(limits.header_time, certificate.accept(stream)) => accepted.ok(),
        };
        match accepted {
            Some(Ok(stream)) => connection::serve(stream, peer, service, limits, phase).await,
            Some(Err(error)) => {
                tracing::debug!(target: "table_server", %error, "a TLS handshake failed");
            }
            None => {}
        }
        drop(permit);
        return;
    }
    connection::serve(stream, peer, service, limits, phase).await;
    drop(permit);
}
