use std::time::Duration;

use azure_core::http::ClientOptions;
use table_core::adapter::TraceKeys;

use crate::endpoint::{ReadFrom, Service};
use crate::response::ResponseHook;

/// Options of an [`AzureTableStore`](crate::AzureTableStore).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AzureTableStoreOptions {
    /// Policies, transport, tracing, logging and cloud, as in every client of `azure_core`. Its retry options
    /// are ignored, because they repeat requests that are not safe to repeat: put a retrying adapter around
    /// the store.
    pub client_options: ClientOptions,
    /// The service, if the endpoint's name does not identify it.
    pub service: Service,
    /// The audience of tokens, for example `https://storage.azure.com`. Default: derived from cloud and
    /// endpoint.
    pub audience: Option<String>,
    /// The endpoint that reads go to. The manifests of tables, which writers rely on, are always read from the primary endpoint.
    /// [`Failover`](table_core::adapter::Failover) of two stores reads from the secondary endpoint only when the primary fails.
    pub read_from: ReadFrom,
    /// The secondary endpoint, if its name is not the account's name with `-secondary`.
    pub secondary_endpoint: Option<String>,
    /// Maximum duration of one request; default 60 seconds. A write that takes longer is ambiguous. The
    /// service itself gives up after 30 seconds. A new connection takes at most half of this time, and at most 20 seconds; after that the
    /// write is not applied.
    pub request_timeout: Duration,
    /// Maximum number of requests in flight; further requests wait. Default: 256. Each request in flight has an HTTP/1.1 connection
    /// of its own, so this is also the maximum number of connections to one endpoint.
    ///
    /// The wait is inside the store, so a retrying adapter counts it as part of the attempt. To separate the
    /// two, limit operations above the retry with
    /// [`StoreBuilder::limit`](table_core::adapter::StoreBuilder::limit).
    pub max_in_flight: usize,
    /// Maximum time that a request waits for a token and to be sent; default 20 seconds. After that it fails as *not applied*
    /// and is safe to retry. Keep this below the attempt timeout of a retrying adapter: a write that the
    /// adapter cuts off while it waits is reported as ambiguous although it was never sent.
    pub permit_timeout: Duration,
    /// Hosts to which requests with a signature (account key or SAS) may go over plain `http`, for example
    /// `azurite` in a container network. Default: none, because anyone on the network can read requests and
    /// reuse signatures. Loopback and the public keys of the emulators need no entry. Tokens are sent over
    /// https only.
    pub plain_http_hosts: Vec<String>,
    /// Whether the logs of `azure_core` and the caller's tracer show the PartitionKey and RowKey of requests.
    /// Default: no, because keys may be personal data. Filters are never shown. A custom transport has its
    /// own logs.
    pub trace_keys: TraceKeys,
    /// Receives the metadata of every answer: the service's request id, the charge in request units, the service's time, the endpoint.
    /// Default: none. [`collect_responses`](crate::collect_responses) returns the same for one piece of work.
    pub on_response: Option<ResponseHook>,
}

impl Default for AzureTableStoreOptions {
    fn default() -> Self {
        Self {
            client_options: ClientOptions::default(),
            service: Service::ByEndpoint,
            audience: None,
            read_from: ReadFrom::Primary,
            secondary_endpoint: None,
            request_timeout: Duration::from_secs(60),
            max_in_flight: 256,
            permit_timeout: Duration::from_secs(20),
            plain_http_hosts: Vec::new(),
            trace_keys: TraceKeys::Hidden,
            on_response: None,
        }
    }
}
