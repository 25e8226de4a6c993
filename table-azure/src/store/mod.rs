//! Constructors of the store, and its implementation of `TableStore` over REST.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::cloud::CloudConfiguration;
use azure_core::credentials::TokenCredential;
use azure_core::http::policies::Policy;
use azure_core::http::{Method, Pipeline, RetryOptions};
use chrono::{DateTime, Utc};
use table_core::adapter::TraceKeys;
use table_core::model::{Entity, Key, MANIFEST_PARTITION, TableName, key_order};
use table_core::query::{Continuation, Filter, Page, Position, Query, Select};
use table_core::store::{
    ErrorKind, GroupTransaction, ManifestCache, Operation, OperationKind, ServiceProfile, TableStore,
    Written, check_entity, check_page, check_progress,
};
use table_core::typed::{PartitionIn, RowBounds, TableEntity};
use table_core::{Error, Result, engine};
use tokio::sync::Semaphore;

use crate::auth::{Connection, Emulator, Secret, SharedKeyPolicy};
use crate::batch::{GroupBody, read_answer};
use crate::endpoint::{Endpoint, ReadFrom, entity_path};
use crate::operation::Write;
use crate::rest::{Answer, Call, Client, HideKeys, JSON, Subject, Tokens, bounded, quiet};
use crate::sas::{AccountSas, SasToken, TablePermissions, TableSas};
use crate::{AzureTableStoreOptions, SharedKey, wire};

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
    manifests: Arc<ManifestCache>,
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
        let scope =
            scope(options.audience.as_deref(), options.client_options.cloud.as_deref(), endpoint.is_cosmos);
        Self::build(endpoint, Authorization::Token(Tokens::new(credential, scope)), options)
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
        Self::build(Endpoint::from_sas_url(url)?, Authorization::InUrl, options.unwrap_or_default())
    }

    /// Creates a store from a connection string with an account key or a SAS, of Storage, Cosmos DB or the
    /// emulator.
    ///
    /// # Errors
    /// Fails if a part is malformed or missing. The message does not repeat the string.
    pub fn from_connection_string(text: &str, options: Option<AzureTableStoreOptions>) -> Result<Self> {
        let Connection { endpoint, secondary, secret } = Connection::parse(text, "Table")?;
        let mut options = options.unwrap_or_default();
        options.secondary_endpoint = options.secondary_endpoint.or(secondary);
        match secret {
            Secret::Key(key) => Self::with_shared_key(&endpoint, key, Some(options)),
            Secret::Sas(sas) => {
                Self::build(Endpoint::new(&endpoint, Some(sas.0))?, Authorization::InUrl, options)
            }
        }
    }

    /// The same store for a credential that may not read the manifests of tables, such as a shared access signature of one partition. Every
    /// handle otherwise reads the manifest before it writes. This store takes every manifest for an empty one: writes leave the entries of
    /// indexes as they are. Indexed tables read the manifest themselves, and need a credential that may.
    ///
    /// ```
    /// # use table_azure::AzureTableStore;
    /// # fn guest(sas: &str) -> table_core::Result<AzureTableStore> {
    /// Ok(AzureTableStore::with_sas(sas, None)?.unmanaged())
    /// # }
    /// ```
    #[must_use]
    pub fn unmanaged(mut self) -> Self {
        self.manifests = Arc::new(ManifestCache::unmanaged(&self.client.profile));
        self
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Creates a store that sends requests without a credential, over https only.
    pub(crate) fn without_credential(endpoint: &str, options: AzureTableStoreOptions) -> Result<Self> {
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
        let mut profile =
            if endpoint.is_cosmos { ServiceProfile::COSMOS_TABLE } else { ServiceProfile::AZURE_TABLES };
        profile.has_stale_reads = options.read_from == ReadFrom::Secondary;
        let mut client_options = options.client_options;
        // `azure_core` repeats every request after an error of the connection, also an insert whose answer was lost.
        client_options.retry = RetryOptions::none();
        quiet(&mut client_options.instrumentation, options.trace_keys);
        if options.trace_keys == TraceKeys::Hidden {
            // The last policy: all policies of the caller and the signature see the real URL.
            client_options.per_try_policies.push(Arc::new(HideKeys));
        }
        #[cfg(feature = "reqwest_rustls")]
        if client_options.transport.is_none() {
            client_options.transport =
                crate::transport::for_endpoint(endpoint.root(), options.request_timeout);
        }
        client_options.transport = Some(bounded(client_options.transport));
        let traced = client_options.instrumentation.tracer_provider.is_some();
        let name = (option_env!("CARGO_PKG_NAME"), option_env!("CARGO_PKG_VERSION"));
        let (policies, tokens) = match authorization {
            Authorization::InUrl => (Vec::new(), None),
            Authorization::Signature(policy) => (vec![policy], None),
            Authorization::Token(tokens) => (Vec::new(), Some(tokens)),
        };
        let endpoint = endpoint.with_reads_from(options.read_from, options.secondary_endpoint.as_deref())?;
        endpoint.check_http(&options.plain_http_hosts)?;
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
        let manifests = Arc::new(ManifestCache::new(&client.profile));
        Ok(Self { client: Arc::new(client), key: None, manifests })
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
        let new = self.manifests.new_table(table, None);
        self.client.create_table(table).await.map(|()| new.created())
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        // Kept until the answer: another task could read and cache the old manifest while the request is under way.
        let _change = self.manifests.change(table);
        self.client.delete_table(table).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.client.list_tables(prefix, from).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        self.client.get(table, key, select).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        // The service returns only rows in the range of a signature, so the manifest would look empty.
        if self.client.endpoint.hides_manifest()
            && query.bounds().partition.as_single() == Some(MANIFEST_PARTITION)
        {
            let reason =
                format!("the shared access signature is not of the partition '{MANIFEST_PARTITION}'");
            return Err(ErrorKind::Forbidden(reason).into());
        }
        self.client.query(table, query, from).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let _change = self.manifests.change_of(table, operation.key().partition());
        self.client.write(table, &operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let _change = self.manifests.change_of(table, group.partition().as_str());
        self.client.transact(table, &group).await
    }

    fn manifests(&self) -> Option<Arc<ManifestCache>> {
        Some(Arc::clone(&self.manifests))
    }
}

/// Returns the token scope for the cloud and the service (Azure Storage or Cosmos DB).
///
/// A custom cloud sets its audience with `audiences.with::<AzureTableStore>(…)`. Without one, the public
/// cloud's audience is used, which also works for the emulator.
pub(crate) fn scope(audience: Option<&str>, cloud: Option<&CloudConfiguration>, is_cosmos: bool) -> String {
    let service = if is_cosmos { "cosmos" } else { "storage" };
    let audience = audience.map(str::to_owned).unwrap_or_else(|| match cloud {
        Some(CloudConfiguration::AzureGovernment) => format!("https://{service}.azure.us"),
        Some(CloudConfiguration::AzureChina) => format!("https://{service}.azure.cn"),
        Some(CloudConfiguration::Custom(custom)) => match custom.audiences.get::<AzureTableStore>() {
            Some(audience) => audience.to_owned(),
            None => format!("https://{service}.azure.com"),
        },
        _ => format!("https://{service}.azure.com"),
    });
    format!("{}/.default", audience.trim_end_matches("/.default").trim_end_matches('/'))
}

impl Client {
    async fn write(&self, table: &TableName, operation: &Operation) -> Result<Written> {
        engine::check_operation(&self.profile, operation)?;
        let write = Write::new(operation, self.endpoint.is_cosmos)?;
        let url = self.endpoint.write_to(&write.path(table)).into_url();
        let subject = Subject::Entity(table, operation.key());
        let mut call = Call::new(operation.kind(), subject, write.method, url);
        if let Some(verb) = write.x_http_method {
            call = call.header("x-http-method", verb);
        }
        if write.prefers_no_content() {
            call = call.header("prefer", "return-no-content");
        }
        if let Some(json) = write.json() {
            call = call.body(JSON, json);
        }
        if let Some(if_match) = write.if_match {
            call = call.header("if-match", if_match);
        }
        let answer = self.send(call).await?;
        if write.method == Method::Delete { Ok(Written::deleted()) } else { answer.written() }
    }

    async fn transact(&self, table: &TableName, group: &GroupTransaction) -> Result<Vec<Written>> {
        engine::check_group(&self.profile, group)?;
        let body = GroupBody::new(&self.endpoint, table, group)?;
        // `check_group` checks a lower bound of the size; the exact size is known only after encoding. The service would refuse a
        // larger request, but only after the whole upload.
        if body.bytes.len() > self.profile.group_bytes {
            let what = "bytes of a group transaction's request";
            return Err(Error::limit(what, self.profile.group_bytes, body.bytes.len()));
        }
        let url = self.endpoint.write_to("$batch").into_url();
        let call = Call::new(OperationKind::Transact, Subject::Table(table), Method::Post, url)
            .body(body.content_type, body.bytes);
        let answer = self.send(call).await?;
        read_answer(&answer, table, group).map_err(|e| answer.explain(e))
    }
}

/// Shared access signatures.
impl AzureTableStore {
    /// Returns the address of the account, without a signature. [`SasToken::url`] adds one.
    pub fn endpoint(&self) -> &str {
        self.client().endpoint.root().as_str()
    }

    /// Signs permissions on the entities of `T` in one partition: the token gives no access to other
    /// partitions. Sends no request. The token is valid over https only; for other options build a
    /// [`TableSas`] and [`sign`](Self::sign) it.
    ///
    /// The service limits a signature by keys only. If `T` has a `discriminator(row_prefix)`, the token
    /// covers the entities of `T` and no others. Otherwise it covers the **whole partition**: entities of
    /// other types, index entries, and the rows of journals, queues and retries in that partition (their
    /// RowKeys begin with `~~`). To give permission to write or delete, use a row prefix, or store nothing
    /// else in the partition.
    ///
    /// # Errors
    /// Fails if the store has no account key or if the PartitionKey is empty, which a signature cannot
    /// express; see also [`TableSas::within_partition`].
    pub fn sas_for<T: TableEntity>(
        &self,
        table: &TableName,
        partition: impl PartitionIn<T>,
        permissions: TablePermissions,
        expires: DateTime<Utc>,
    ) -> Result<SasToken> {
        self.sign(&TableSas::new(table, permissions, expires).within_partition::<T>(partition)?)
    }

    /// Like [`sas_for`](Self::sas_for), for the entities with these RowKeys only.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use table_azure::sas::TablePermissions;
    /// use table_azure::{AzureTableStore, SharedKey};
    /// use table_core::model::TableName;
    /// use table_core::typed::TableEntity;
    /// #[derive(TableEntity)]
    /// #[entity(discriminator(row_prefix), row_key = "order_{year:04}_{number:06}")]
    /// struct Order {
    ///     #[partition_key]
    ///     tenant: String,
    ///     year: u16,
    ///     number: u32,
    /// }
    /// let key = SharedKey::new("account", "a2V5")?;
    /// let store = AzureTableStore::with_shared_key("https://account.table.core.windows.net", key, None)?;
    /// let (table, expires) = (TableName::new("Orders")?, Utc::now() + TimeDelta::hours(1));
    /// let (tenant, rows) = (Order::partition("contoso")?, Order::row_prefix().year(2026)..);
    /// let token = store.sas_for_rows::<Order>(&table, tenant, rows, TablePermissions::READ, expires)?;
    /// assert!(token.as_str().contains("spk=contoso&srk=order%5F2026%5F&epk=contoso&erk=order%5F%EF%BF%BF"));
    /// # Ok::<(), table_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`TableSas::within_rows`] and [`sas_for`](Self::sas_for).
    pub fn sas_for_rows<T: TableEntity>(
        &self,
        table: &TableName,
        partition: impl PartitionIn<T>,
        rows: impl RowBounds<T>,
        permissions: TablePermissions,
        expires: DateTime<Utc>,
    ) -> Result<SasToken> {
        self.sign(&TableSas::new(table, permissions, expires).within_rows::<T>(partition, rows)?)
    }

    /// Signs permissions on a table with the account key. Sends no request.
    ///
    /// # Errors
    /// Fails if the store has no account key; see also [`TableSas::sign`].
    pub fn sign(&self, sas: &TableSas) -> Result<SasToken> {
        sas.sign(self.account_key()?)
    }

    /// Signs permissions on the account with its key. Sends no request.
    ///
    /// # Errors
    /// Fails if the store has no account key.
    pub fn sign_account(&self, sas: &AccountSas) -> Result<SasToken> {
        self.account_key().map(|key| sas.sign(key))
    }

    fn account_key(&self) -> Result<&SharedKey> {
        let missing = || {
            Error::invalid_request(
                "only a store with an account key can sign; this store has a token or a SAS",
            )
        };
        self.key.as_ref().ok_or_else(missing)
    }
}

impl Client {
    async fn create_table(&self, table: &TableName) -> Result<()> {
        let url = self.endpoint.write_to("Tables").into_url();
        let body = format!(r#"{{"TableName":"{table}"}}"#).into_bytes();
        let call = Call::new(OperationKind::CreateTable, Subject::NewTable(table), Method::Post, url)
            .header("prefer", "return-no-content")
            .body(JSON, body);
        self.send(call).await.map(drop)
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        let url = self.endpoint.write_to(&format!("Tables('{table}')")).into_url();
        let call = Call::new(OperationKind::DeleteTable, Subject::Table(table), Method::Delete, url);
        self.send(call).await.map(drop)
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let position = from.map(|from| from.tables_position(prefix)).transpose()?;
        let prefix = prefix.unwrap_or_default();
        let filter = self.table_name_filter(prefix).map(|filter| filter.to_string());
        let url = self
            .endpoint
            .read_from("Tables")
            .with_optional("$filter", filter.as_deref())
            .with_optional("NextTableName", position.map(|position| position.first.as_str()))
            .into_url();
        let answer =
            self.send(Call::new(OperationKind::ListTables, Subject::Service, Method::Get, url)).await?;
        let mut items = wire::decode_table_names(&answer.body).map_err(|e| answer.explain(e))?;
        let rows = items.len();
        items.retain(|name| self.has_prefix(name, prefix));
        let continuation = answer.continuation("x-ms-continuation-nexttablename")?.map(|first| {
            let position = Position { first, second: None };
            Continuation::of_tables(Some(prefix).filter(|prefix| !prefix.is_empty()), position)
        });
        check_progress(from, continuation.as_ref(), rows)?;
        Ok(Page { items, continuation })
    }

    /// Returns a range that contains every name with the prefix, whether or not the service compares case.
    /// The client drops the other names.
    fn table_name_filter(&self, prefix: &str) -> Option<Filter> {
        // In ASCII, capital letters sort before small ones. All spellings of the prefix are between its capital and
        // its small form.
        let (low, high) = match self.profile.case_sensitive_tables {
            true => (prefix.to_owned(), prefix.to_owned()),
            false => (prefix.to_ascii_uppercase(), prefix.to_ascii_lowercase()),
        };
        let end = key_order::prefix_end(&high)?;
        Some(Filter::ge("TableName", low).and(Filter::lt("TableName", end)))
    }

    /// Whether a table's name has the prefix, compared as the service compares names.
    fn has_prefix(&self, name: &TableName, prefix: &str) -> bool {
        match self.profile.case_sensitive_tables {
            true => name.as_str().starts_with(prefix),
            false => name.to_lowercase().starts_with(&prefix.to_ascii_lowercase()),
        }
    }
}

impl Client {
    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        let select = select.map(select_list);
        let address = self.endpoint.read_partition(&entity_path(table, key), Some(key.partition()));
        let url = address.with_optional("$select", select.as_deref());
        let subject = Subject::Entity(table, key);
        let call = Call::new(OperationKind::Get, subject, Method::Get, url.into_url());
        match self.send(call).await {
            Ok(answer) => {
                let entity = wire::decode_entity(&answer.body).map_err(|e| answer.explain(e))?;
                check_entity(table, key, &entity)?;
                Ok(Some(entity))
            }
            Err(e) if e.is_entity_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        engine::check_query(&self.profile, query)?;
        let position = from.map(|from| from.position(&self.profile, table, query)).transpose()?;
        let filter = query.filter.as_ref().map(ToString::to_string);
        let top = query.top.map(|top| top.min(self.profile.page_size).to_string());
        let url = self
            .endpoint
            .read_partition(&format!("{table}()"), query.bounds().partition.as_single())
            .with_optional("$filter", filter.as_deref())
            .with_optional("$select", query.select.as_ref().map(select_list).as_deref())
            .with_optional("$top", top.as_deref())
            .with_optional("NextPartitionKey", position.map(|p| p.first.as_str()))
            .with_optional("NextRowKey", position.and_then(|p| p.second.as_deref()));
        let call = Call::new(OperationKind::Query, Subject::Table(table), Method::Get, url.into_url());
        let answer = self.send(call).await?;
        let items = wire::decode_entities(&answer.body).map_err(|e| answer.explain(e))?;
        check_page(&self.profile, table, query, &items)?;
        let continued = |position| Continuation::new(&self.profile, table, query, position);
        let continuation = next_position(&answer)?.map(continued);
        // A service that returns the same token for ever would keep the program in a loop of paid requests.
        check_progress(from, continuation.as_ref(), items.len())?;
        Ok(Page { items, continuation })
    }
}

/// Returns the selected names, with the properties that every answer needs.
fn select_list(select: &Select) -> String {
    // `$select` leaves out the keys too, and an entity without keys cannot be read. The ETag is an annotation and is
    // always there.
    let names: Vec<_> = ["PartitionKey", "RowKey", "Timestamp"].into_iter().chain(select.names()).collect();
    Select::new(names).names().collect::<Vec<_>>().join(",")
}

/// Returns where the next page begins; `None` after the last page. The service may omit the RowKey
/// (<https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination>).
fn next_position(answer: &Answer) -> Result<Option<Position>> {
    let first = answer.continuation("x-ms-continuation-nextpartitionkey")?;
    let second = answer.continuation("x-ms-continuation-nextrowkey")?;
    Ok(first.map(|first| Position { first, second }))
}

#[cfg(test)]
mod tests {
    use azure_core::cloud::{Audiences, CustomConfiguration};

    use super::*;

    #[test]
    fn clouds_and_services_have_their_audiences() {
        let government = CloudConfiguration::AzureGovernment;
        let china = CloudConfiguration::AzureChina;
        assert_eq!(scope(None, None, false), "https://storage.azure.com/.default");
        assert_eq!(scope(None, Some(&government), false), "https://storage.azure.us/.default");
        assert_eq!(scope(None, Some(&china), true), "https://cosmos.azure.cn/.default");
        assert_eq!(scope(None, Some(&government), true), "https://cosmos.azure.us/.default");
        assert_eq!(scope(None, Some(&china), false), "https://storage.azure.cn/.default");
        let unnamed = CustomConfiguration::default().into();
        assert_eq!(scope(None, Some(&unnamed), true), "https://cosmos.azure.com/.default");
        assert_eq!(scope(Some("https://my.cloud/"), Some(&china), true), "https://my.cloud/.default");
        let mut custom = CustomConfiguration::default();
        custom.audiences = Audiences::new().with::<AzureTableStore>("https://s.local".to_owned());
        assert_eq!(scope(None, Some(&custom.into()), false), "https://s.local/.default");
    }
}
