use std::time::Duration;

use crate::ReadFrom;
use azure_core::http::ClientOptions;
use table_core::adapter::TraceKeys;

/// The two services that speak this protocol. They differ in limits, order and the verb of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Azure Cosmos DB if the host's name is one of its, the account key its emulator's, or the address that of its emulator
    /// on this machine (port 8902); Azure Table Storage otherwise.
    #[default]
    ByEndpoint,
    /// Azure Table Storage, for example behind a domain of your own.
    TableStorage,
    /// Azure Cosmos DB for Table, for example its emulator.
    CosmosDb,
}

/// What can be set about an [`AzureTableStore`](crate::AzureTableStore).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AzureTableStoreOptions {
    /// Policies, transport, tracing, logging and cloud, as for every client of `azure_core`. Its
    /// retry options are not used: they repeat what is not safe to repeat. Put a retrying adapter in
    /// front of the store instead.
    pub client_options: ClientOptions,
    /// Which service answers, where the endpoint's name does not say it.
    pub service: Service,
    /// The audience of tokens, for example `https://storage.azure.com`. By cloud and endpoint, unless set.
    pub audience: Option<String>,
    /// Where reads go.
    pub read_from: ReadFrom,
    /// The secondary endpoint, where its name is not the account's with `-secondary`.
    pub secondary_endpoint: Option<String>,
    /// How long one request may take. A write that takes longer is ambiguous. The service itself gives up
    /// after 30 seconds; 60 unless set.
    pub request_timeout: Duration,
    /// How many requests may be under way at once; more wait for a place. 256 unless set.
    ///
    /// The wait is inside the store: a retrying adapter counts it as a part of the attempt. To keep the two apart,
    /// bound operations above the retry, with [`StoreBuilder::limit`](table_core::adapter::StoreBuilder::limit).
    pub max_in_flight: usize,
    /// How long a request may wait for a place before it fails, not applied and safe to try again. 20 seconds unless
    /// set. Keep it below the time of a retrying adapter's attempt: a write that is cut off there while it
    /// waits is reported as ambiguous although it was never sent.
    pub place_timeout: Duration,
    /// Hosts to which requests signed by an account key, or with a shared access signature, may go over plain `http`, for
    /// example `azurite` in a network of containers. None unless set: whoever is on the way can read requests and use
    /// signatures. Loopback, and the public keys of the emulators, need no entry; tokens go over https alone.
    pub plain_http_hosts: Vec<String>,
    /// Whether what `azure_core` logs, and gives to a tracer, names the keys that requests are about. Not unless set: keys
    /// may be personal data. Filters are never shown. A transport of your own logs what it logs.
    pub trace_keys: TraceKeys,
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
            place_timeout: Duration::from_secs(20),
            plain_http_hosts: Vec::new(),
            trace_keys: TraceKeys::Hidden,
        }
    }
}
