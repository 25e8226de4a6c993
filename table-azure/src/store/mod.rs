//! Constructors of the store, and its implementation of `TableStore` over REST.

mod requests;
mod sas;

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::cloud::CloudConfiguration;
use azure_core::credentials::TokenCredential;
use azure_core::http::policies::Policy;
use azure_core::http::{Pipeline, RetryOptions};
use table_core::Result;
use table_core::adapter::TraceKeys;
use table_core::model::{Entity, Key, MANIFEST_PARTITION, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    ErrorKind, GroupTransaction, ManifestCache, Operation, ServiceProfile, StoreContext,
    TableStore, Written,
};
use tokio::sync::Semaphore;

use crate::auth::{Connection, Emulator, Secret, SharedKeyPolicy};
use crate::endpoint::{Endpoint, ReadFrom};
use crate::rest::{Client, HideKeys, Tokens, bounded, wrap_tracer};
use crate::{AzureTableStoreOptions, SharedKey};

/// A [`TableStore`](table_core::store::TableStore) in an Azure Storage account or in Azure Cosmos DB for
/// Table.
///
/// Cloning is cheap; clones share their connections. Every operation is one request, sent once: a failed
/// transfer is returned as an error, and a write whose answer was lost is *ambiguous*. Put a retrying adapter
/// around the store.
///
/// ```no_run
/// use table_azure::AzureTableStore;
/// use table_core::model::{Key, TableName};
/// use table_core::store::TableStore;
/// # async fn example() -> table_core::Result<()> {
/// let store = AzureTableStore::from_connection_string("UseDevelopmentStorage=true", None)?;
/// let employees = TableName::new("Employees")?;
/// let ken = store.get(&employees, &Key::new("Sales", "empid_000223")?, None).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AzureTableStore {
    client: Arc<Client>,
    /// The account key, which also signs SAS; `None` for stores with tokens or a SAS.
    key: Option<SharedKey>,
    context: StoreContext,
}

impl AzureTableStore {
    /// Creates a store that authorizes with tokens, for example of `azure_identity`.
    ///
    /// # Errors
    /// Fails if the endpoint or the secondary endpoint is not an `https` URL, or has a query.
    pub fn new(
        endpoint: &str,
        credential: Arc<dyn TokenCredential>,
        options: Option<AzureTableStoreOptions>,
    ) -> Result<Self> {
        let options = options.unwrap_or_default();
        let mut endpoint = Endpoint::new(endpoint, None)?.with_service(options.service);
        endpoint.requires_https = true;
        let scope = scope(
            options.audience.as_deref(),
            options.client_options.cloud.as_deref(),
            endpoint.is_cosmos,
        );
        Self::build(
            endpoint,
            Authorization::Token(Tokens::new(credential, scope)),
            options,
        )
    }

    /// Creates a store that signs requests with an account key.
    ///
    /// # Errors
    /// Fails if the endpoint is not a URL, has a query, or is a plain `http` URL of another machine (see
    /// [`plain_http_hosts`](AzureTableStoreOptions::plain_http_hosts)).
    pub fn with_shared_key(
        endpoint: &str,
        key: SharedKey,
        options: Option<AzureTableStoreOptions>,
    ) -> Result<Self> {
        let (options, mut endpoint) = (options.unwrap_or_default(), Endpoint::new(endpoint, None)?);
        endpoint.is_cosmos |= key.emulator() == Some(Emulator::CosmosDb);
        endpoint.carries_secret = key.emulator().is_none();
        let policy = Arc::new(SharedKeyPolicy(key.clone()));
        let mut store = Self::build(endpoint, Authorization::Signature(policy), options)?;
        store.key = Some(key);
        Ok(store)
    }

    /// Creates a store with a shared access signature. `url` is the URL of an account or a table, `?`, and
    /// the SAS.
    ///
    /// # Errors
    /// Fails if `url` is not a URL, has no query, or is a plain `http` URL of another machine (see
    /// [`plain_http_hosts`](AzureTableStoreOptions::plain_http_hosts)).
    pub fn with_sas(url: &str, options: Option<AzureTableStoreOptions>) -> Result<Self> {
        Self::build(
            Endpoint::from_sas_url(url)?,
            Authorization::InUrl,
            options.unwrap_or_default(),
        )
    }

    /// Creates a store from a connection string with an account key or a SAS, of Storage, Cosmos DB or the
    /// emulator.
    ///
    /// # Errors
    /// Fails if a part is malformed or missing. The message does not repeat the string.
    pub fn from_connection_string(
        text: &str,
        options: Option<AzureTableStoreOptions>,
    ) -> Result<Self> {
        let Connection {
            endpoint,
            secondary,
            secret,
        } = Connection::parse(text, "Table")?;
        let mut options = options.unwrap_or_default();
        options.secondary_endpoint = options.secondary_endpoint.or(secondary);
        match secret {
            Secret::Key(key) => Self::with_shared_key(&endpoint, key, Some(options)),
            Secret::Sas(sas) => Self::build(
                Endpoint::new(&endpoint, Some(sas.0))?,
                Authorization::InUrl,
                options,
            ),
        }
    }

    /// The same store for a credential that may not read the manifests of tables, such as a shared access signature of one partition. Every
    /// handle otherwise reads the manifest before it writes. This store takes every manifest for an empty one: writes leave the entries of
    /// indexes as they are. A table with indexes reads the manifest itself, and needs a credential that may.
    ///
    /// ```
    /// # use table_azure::AzureTableStore;
    /// # fn guest(sas: &str) -> table_core::Result<AzureTableStore> {
    /// Ok(AzureTableStore::with_sas(sas, None)?.unmanaged())
    /// # }
    /// ```
    #[must_use]
    pub fn unmanaged(mut self) -> Self {
        let manifests = Arc::new(ManifestCache::unmanaged(&self.client.profile));
        self.context = StoreContext::with_manifests(manifests);
        self
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Creates a store that sends requests without a credential, over https only.
    pub(crate) fn without_credential(
        endpoint: &str,
        options: AzureTableStoreOptions,
    ) -> Result<Self> {
        let mut endpoint = Endpoint::new(endpoint, None)?;
        endpoint.requires_https = true;
        Self::build(endpoint, Authorization::InUrl, options)
    }

    /// Builds the HTTP pipeline. Every constructor ends here, so that the check of plain http endpoints applies to all credentials.
    fn build(
        endpoint: Endpoint,
        authorization: Authorization,
        options: AzureTableStoreOptions,
    ) -> Result<Self> {
        let endpoint = endpoint.with_service(options.service);
        let mut profile = if endpoint.is_cosmos {
            ServiceProfile::COSMOS_TABLE
        } else {
            ServiceProfile::AZURE_TABLES
        };
        profile.has_stale_reads = options.read_from == ReadFrom::Secondary;
        let mut client_options = options.client_options;
        // `azure_core` repeats every request after an error of the connection, also an insert whose answer was lost.
        client_options.retry = RetryOptions::none();
        wrap_tracer(&mut client_options.instrumentation, options.trace_keys);
        if options.trace_keys == TraceKeys::Hidden {
            // The last policy: all policies of the caller and the signature see the real URL.
            client_options.per_try_policies.push(Arc::new(HideKeys));
        }
        let endpoint =
            endpoint.with_reads_from(options.read_from, options.secondary_endpoint.as_deref())?;
        endpoint.check_http(&options.plain_http_hosts)?;
        #[cfg(feature = "reqwest_rustls")]
        if client_options.transport.is_none() {
            client_options.transport =
                crate::transport::for_endpoints(&endpoint.all_urls(), options.request_timeout);
        }
        client_options.transport = Some(bounded(client_options.transport));
        let traced = client_options.instrumentation.tracer_provider.is_some();
        let name = (
            option_env!("CARGO_PKG_NAME"),
            option_env!("CARGO_PKG_VERSION"),
        );
        let (policies, tokens) = match authorization {
            Authorization::InUrl => (Vec::new(), None),
            Authorization::Signature(policy) => (vec![policy], None),
            Authorization::Token(tokens) => (Vec::new(), Some(tokens)),
        };
        let client = Client {
            pipeline: Pipeline::new(name.0, name.1, client_options, Vec::new(), policies, None),
            endpoint,
            profile,
            timeout: options.request_timeout,
            tokens,
            in_flight: Semaphore::new(options.max_in_flight.clamp(1, Semaphore::MAX_PERMITS)),
            permit_timeout: options.permit_timeout,
            traced,
            on_response: options.on_response,
        };
        Ok(Self {
            context: StoreContext::new(&client.profile),
            client: Arc::new(client),
            key: None,
        })
    }
}

/// How requests prove that they may be sent.
enum Authorization {
    /// By a SAS in their URL, or not at all.
    InUrl,
    Signature(Arc<dyn Policy>),
    Token(Tokens),
}

#[async_trait]
impl TableStore for AzureTableStore {
    fn profile(&self) -> &ServiceProfile {
        &self.client.profile
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        let new = self.context.new_table(table);
        self.client
            .create_table(table)
            .await
            .map(|()| new.created())
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        // Kept until the answer: another task could read and cache the old manifest while the request is under way.
        let _change = self.context.manifests().change(table);
        self.client.delete_table(table).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.client.list_tables(prefix, from).await
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        self.client.get(table, key, select).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        // The service returns only rows in the range of a signature, so the manifest would look empty.
        if self.client.endpoint.hides_manifest()
            && query.bounds().partition.as_single() == Some(MANIFEST_PARTITION)
        {
            let reason = format!(
                "the shared access signature is not of the partition '{MANIFEST_PARTITION}'"
            );
            return Err(ErrorKind::Forbidden(reason).into());
        }
        let page = self.client.query(table, query, from).await?;
        Ok(page.into())
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let _change = self
            .context
            .manifests()
            .change_of(table, operation.key().partition());
        self.client.write(table, &operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let _change = self
            .context
            .manifests()
            .change_of(table, group.partition().as_str());
        self.client.transact(table, &group).await
    }

    fn context(&self) -> &StoreContext {
        &self.context
    }
}

/// Returns the token scope for the cloud and the service (Azure Storage or Cosmos DB).
///
/// A custom cloud sets its audience with `audiences.with::<AzureTableStore>(…)`. Without one, the public
/// cloud's audience is used, which also works for the emulator.
pub(crate) fn scope(
    audience: Option<&str>,
    cloud: Option<&CloudConfiguration>,
    is_cosmos: bool,
) -> String {
    let service = if is_cosmos { "cosmos" } else { "storage" };
    let audience = audience.map(str::to_owned).unwrap_or_else(|| match cloud {
        Some(CloudConfiguration::AzureGovernment) => format!("https://{service}.azure.us"),
        Some(CloudConfiguration::AzureChina) => format!("https://{service}.azure.cn"),
        Some(CloudConfiguration::Custom(custom)) => match custom.audiences.get::<AzureTableStore>()
        {
            Some(audience) => audience.to_owned(),
            None => format!("https://{service}.azure.com"),
        },
        _ => format!("https://{service}.azure.com"),
    });
    format!(
        "{}/.default",
        audience.trim_end_matches("/.default").trim_end_matches('/')
    )
}

#[cfg(test)]
mod tests {
    use azure_core::cloud::{Audiences, CustomConfiguration};

    use super::*;

    #[test]
    fn clouds_and_services_have_their_audiences() {
        let government = CloudConfiguration::AzureGovernment;
        let china = CloudConfiguration::AzureChina;
        assert_eq!(
            scope(None, None, false),
            "https://storage.azure.com/.default"
        );
        assert_eq!(
            scope(None, Some(&government), false),
            "https://storage.azure.us/.default"
        );
        assert_eq!(
            scope(None, Some(&china), true),
            "https://cosmos.azure.cn/.default"
        );
        assert_eq!(
            scope(None, Some(&government), true),
            "https://cosmos.azure.us/.default"
        );
        assert_eq!(
            scope(None, Some(&china), false),
            "https://storage.azure.cn/.default"
        );
        let unnamed = CustomConfiguration::default().into();
        assert_eq!(
            scope(None, Some(&unnamed), true),
            "https://cosmos.azure.com/.default"
        );
        assert_eq!(
            scope(Some("https://my.cloud/"), Some(&china), true),
            "https://my.cloud/.default"
        );
        let mut custom = CustomConfiguration::default();
        custom.audiences = Audiences::new().with::<AzureTableStore>("https://s.local".to_owned());
        assert_eq!(
            scope(None, Some(&custom.into()), false),
            "https://s.local/.default"
        );
    }
}
