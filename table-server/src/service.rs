//! Processes one request, from its head to the response.

use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use chrono::Utc;
use http::request::Parts;
use http::{HeaderMap, Response};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use uuid::Uuid;

use crate::address::{Address, Resource};
use crate::answer::Answer;
use crate::authorize::{Action, Credentials, Permit};
use crate::entities::refuse_below_table;
use crate::errors::{ErrorFormat, Failure, Result, without_signatures};
use crate::explorer::{self, ExplorerRequest};
use crate::limits::{AnswerMemory, BodyMemory, Limits, Received, Upload};
use crate::operators::{Finished, Metrics, Probe};
use crate::request::{self, Request, Verb, header};
use crate::tenant::{Tenant, Tenants};
use crate::wire::Metadata;
use crate::{acl, batch, browsers, cors, entities, properties, queries, tables};

/// The version in responses to requests without a version.
const VERSION: &str = "2020-12-06";

/// The header of the programs of this library, which maintain indexes and layouts themselves: such a request sees all rows, and writes
/// them if its credential has full rights. Its value has no meaning.
const MANIFEST_AWARE: &str = "x-table-manifest-aware";

/// The state that requests need.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) tenants: Tenants,
    pub(crate) body_memory: BodyMemory,
    answer_memory: AnswerMemory,
    pub(crate) metrics: Metrics,
    addresses: OptionalAddresses,
    /// The host name that clients use, if the operator has named it.
    host: Option<String>,
    /// The header that tells clients how long a connection may be idle, so that they send no request on one that is about to be closed.
    keep_alive: String,
}

/// Which of the optional addresses are served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OptionalAddresses {
    pub(crate) metrics: bool,
    pub(crate) explorer: bool,
}

/// The origin of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) ip: IpAddr,
    pub(crate) secure: bool,
}

impl Peer {
    const fn scheme(self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}

impl Service {
    pub(crate) fn new(
        tenants: Tenants,
        limits: &Limits,
        addresses: OptionalAddresses,
        host: Option<String>,
    ) -> Self {
        let keep_alive = format!("timeout={}", limits.header_time.as_secs());
        let (body_memory, answer_memory) = (BodyMemory::new(limits), AnswerMemory::new(limits));
        Self {
            tenants,
            body_memory,
            answer_memory,
            metrics: Metrics::default(),
            addresses,
            host,
            keep_alive,
        }
    }

    /// Answers a request. If the body has not arrived completely by then, the answer says that the connection ends.
    pub(crate) async fn respond(
        &self,
        request: http::Request<Incoming>,
        peer: Peer,
    ) -> Response<Full<Bytes>> {
        let id = Uuid::new_v4().to_string();
        let (head, body) = request.into_parts();
        let mut upload = Upload::new(body);
        let mut answer = self.answer_any(&head, &mut upload, peer, &id).await;
        self.add_common_headers(&mut answer, &head.headers, &id);
        let expects_continue = head.headers.contains_key(http::header::EXPECT);
        if !self
            .body_memory
            .discard(&mut upload, expects_continue)
            .await
        {
            // Otherwise the client would send its next request on a connection that the server has stopped reading:
            // <https://www.rfc-editor.org/rfc/rfc9112#section-9.6>.
            answer.set("connection", "close");
        }
        answer.into_response()
    }

    async fn answer_any(
        &self,
        head: &Parts,
        upload: &mut Upload<Incoming>,
        peer: Peer,
        id: &str,
    ) -> Answer {
        // Probes and the explorer are not operations of an account: they are neither counted nor logged.
        if let Some(probe) = Probe::of(head.uri.path()) {
            return probe
                .answer(
                    &self.tenants,
                    self.addresses.metrics.then_some(&self.metrics),
                )
                .await;
        }
        if let Some(path) = explorer::path(head.uri.path()).filter(|_| self.addresses.explorer) {
            let query = head.uri.query().unwrap_or_default();
            let (method, headers) = (&head.method, &head.headers);
            let request = ExplorerRequest {
                method,
                path,
                query,
                headers,
                peer: peer.ip,
                secure: peer.secure,
            };
            return request.answer(&self.tenants).await;
        }
        self.answer_and_log(head, upload, peer, id).await
    }

    async fn answer_and_log(
        &self,
        head: &Parts,
        upload: &mut Upload<Incoming>,
        peer: Peer,
        id: &str,
    ) -> Answer {
        let started = Instant::now();
        let counted = self.metrics.request();
        let received = upload.declared_length();
        let (answer, operation) = self.answer(head, upload, peer, id).await;
        drop(counted);
        self.metrics.add(Finished {
            operation,
            status: answer.status.as_u16(),
            time: started.elapsed(),
            received,
            sent: answer.body.len() as u64,
        });
        // The path identifies entities; the query may contain a signature, so it is never logged. A client may have put it into the path.
        tracing::info!(
            target: "table_server::access",
            peer = %peer.ip,
            method = %head.method,
            path = without_signatures(head.uri.path()),
            operation,
            status = answer.status.as_u16(),
            code = answer.headers.get("x-ms-error-code").and_then(|code| code.to_str().ok()),
            received,
            sent = answer.body.len(),
            micros = started.elapsed().as_micros() as u64,
            id,
        );
        answer
    }

    /// Returns the answer and the name of the operation.
    async fn answer<B>(
        &self,
        head: &Parts,
        upload: &mut Upload<B>,
        peer: Peer,
        id: &str,
    ) -> (Answer, &'static str)
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let address = match request::check_single_headers(&head.headers)
            .and_then(|()| self.address(head, peer))
        {
            Ok(address) => address,
            Err(failure) => return (failure.into_answer(ErrorFormat::Json, id), UNKNOWN),
        };
        let format = error_format(&head.headers, &address);
        let Some(tenant) = self.tenants.for_clients(&address.account) else {
            return (
                Failure::resource_not_found().into_answer(format, id),
                UNKNOWN,
            );
        };
        let call = Call {
            service: self,
            tenant,
            address: &address,
            head,
            peer,
            id,
        };
        let mut answer = call
            .run(upload)
            .await
            .unwrap_or_else(|failure| failure.into_answer(format, id));
        if let Some(origin) =
            header(&head.headers, "origin").filter(|_| head.method != http::Method::OPTIONS)
        {
            // If the rules cannot be read, no page may read the response; the response itself stays valid.
            let rules = properties::cors_rules(tenant).await.unwrap_or_default();
            answer.set("x-ms-request-id", id);
            cors::expose(&rules, origin, head.method.as_str(), &mut answer);
        }
        (answer, operation_name(head, &address))
    }

    /// Answers a request of the account's owner, without its authorization.
    #[cfg(fuzzing)]
    pub(crate) async fn answer_owner(&self, head: &Parts, peer: Peer, body: &[u8]) -> Answer {
        let run = async {
            let address = self.address(head, peer)?;
            let verb = Verb::of(&head.method, &head.headers)?;
            let (permit, resource) = (Permit::Owner, address.resource()?);
            let tenant = self
                .tenants
                .for_clients(&address.account)
                .ok_or_else(Failure::resource_not_found)?;
            let call = Call {
                service: self,
                tenant,
                address: &address,
                head,
                peer,
                id: "fuzzing",
            };
            match address.parameters.get("comp")? {
                Some(comp) => {
                    call.run_component(verb, &permit, &resource, comp, body)
                        .await
                }
                None => call.run_data(verb, &permit, &resource, body).await,
            }
        };
        run.await
            .unwrap_or_else(|failure: Failure| failure.into_answer(ErrorFormat::Json, "fuzzing"))
    }

    /// Adds the headers of every response.
    fn add_common_headers(&self, answer: &mut Answer, requested: &HeaderMap, id: &str) {
        answer.set("x-ms-request-id", id);
        // A date has 10 characters; any other text of a client is not repeated.
        let version = header(requested, "x-ms-version").filter(|version| version.len() == 10);
        answer.set("x-ms-version", version.unwrap_or(VERSION));
        answer.set(
            "server",
            concat!("table-server/", env!("CARGO_PKG_VERSION")),
        );
        answer.set("cache-control", "no-cache");
        answer.set("keep-alive", &self.keep_alive);
        answer.set("x-content-type-options", "nosniff");
        // "Up to 1,024 visible ASCII characters"; other values are not returned.
        let client = header(requested, "x-ms-client-request-id");
        let visible = |id: &&str| id.len() <= 1024 && id.bytes().all(|b| b.is_ascii_graphic());
        if let Some(client) = client.filter(visible) {
            answer.set("x-ms-client-request-id", client);
        }
    }

    fn address(&self, head: &Parts, peer: Peer) -> Result<Address> {
        Address::parse(
            peer.scheme(),
            host(head),
            head.uri.path(),
            head.uri.query(),
            |name| self.tenants.for_clients(name).is_some(),
        )
    }
}

/// Returns the host of a request. An absolute URL in the request line takes precedence over the header.
fn host(head: &Parts) -> &str {
    match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => header(&head.headers, "host").unwrap_or_default(),
    }
}

/// A request to an account.
#[derive(Clone, Copy)]
struct Call<'a> {
    service: &'a Service,
    tenant: &'a Tenant,
    address: &'a Address,
    head: &'a Parts,
    peer: Peer,
    id: &'a str,
}

impl Call<'_> {
    async fn run<B>(&self, upload: &mut Upload<B>) -> Result<Answer>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let headers = &self.head.headers;
        let verb = Verb::of(&self.head.method, headers)?;
        if self.tenant.has_public_key {
            self.check_site(verb).await?;
        }
        // A browser sends preflight requests without a credential, so they come before the check of one.
        if verb == Verb::Options {
            return cors::preflight(&properties::cors_rules(self.tenant).await?, headers);
        }
        check_version(headers)?;
        check_timeout(self.address)?;
        let credentials = Credentials {
            method: &self.head.method,
            address: self.address,
            headers,
            peer: self.peer.ip,
            secure: self.peer.secure,
            now: Utc::now(),
        };
        let permit = credentials.check(self.tenant).await?;
        let call = Call {
            tenant: self.tenant_of(&permit),
            ..*self
        };
        let resource = self.address.resource()?;
        // Credential, then address, then body: a client without a valid credential costs no memory, and learns nothing of the resource. The
        // action is checked after the body, because the operations of a group are in it.
        let body = match verb {
            Verb::Post | Verb::Put | Verb::Merge => self.service.body_memory.read(upload).await?,
            _ => Received::default(),
        };
        let mut answer = match self.address.parameters.get("comp")? {
            Some(comp) => {
                call.run_component(verb, &permit, &resource, comp, &body.bytes)
                    .await?
            }
            None => call.run_data(verb, &permit, &resource, &body.bytes).await?,
        };
        // A write cannot be refused once it is done. Its answer repeats at most its body, so it takes over the memory of the body.
        answer.memory.extend(body.memory);
        Ok(answer)
    }

    /// Refuses requests that a page of another site may have sent. Every page can sign with the emulator's key, which is published.
    async fn check_site(&self, verb: Verb) -> Result<()> {
        let host = host(self.head);
        let name = browsers::name_of_host(host);
        let is_named = self
            .service
            .host
            .as_ref()
            .is_some_and(|named| named.eq_ignore_ascii_case(name));
        if !is_named && !browsers::is_loopback_name(name) {
            let reason = format!(
                "the account {} has the published key of the emulator, so it is served to programs of this machine alone, and {name:?} may be \
                 a name of another site; use 127.0.0.1 or localhost, start the server with this host name, or give the account another key",
                self.address.account
            );
            return Err(Failure::unauthorized("AuthorizationFailure", &reason));
        }
        let headers = &self.head.headers;
        let own = format!("{}://{host}", self.peer.scheme());
        // A preflight request changes nothing: it asks for the rules.
        if verb == Verb::Options || !browsers::is_of_another_site(headers, &own) {
            return Ok(());
        }
        let rules = properties::cors_rules(self.tenant).await?;
        if browsers::is_admitted(&rules, headers, self.head.method.as_str()) {
            return Ok(());
        }
        let reason = format!(
            "a page of another site has sent it. The account {} has the published key of the emulator, so only pages are answered whose origin a \
             CORS rule of the account names",
            self.address.account
        );
        Err(Failure::unauthorized("AuthorizationFailure", &reason))
    }

    /// Returns the account as the request sees it. The header gives no right: it says that the client maintains index entries and layouts,
    /// and wants to see their rows. The credential decides whether the client may.
    fn tenant_of(&self, permit: &Permit) -> &'_ Tenant {
        if !self.head.headers.contains_key(MANIFEST_AWARE) {
            return self.tenant;
        }
        let (tenants, account) = (&self.service.tenants, &self.address.account);
        let tenant = if permit.has_full_rights() {
            tenants.for_programs(account)
        } else {
            tenants.for_guests(account)
        };
        tenant.unwrap_or(self.tenant)
    }

    /// Handles properties, statistics and policies.
    async fn run_component(
        &self,
        verb: Verb,
        permit: &Permit,
        resource: &Resource,
        comp: &str,
        body: &[u8],
    ) -> Result<Answer> {
        let allow = |action: Action, table| {
            if !action.is_read() {
                request::check_writable(self.tenant, self.address)?;
            }
            permit.check(action, table)
        };
        match (resource, comp, verb) {
            (Resource::Service, "properties", Verb::Get) => {
                allow(Action::GetProperties, None)?;
                properties::get(self.tenant).await
            }
            (Resource::Service, "properties", Verb::Put) => {
                allow(Action::SetProperties, None)?;
                properties::set(self.tenant, body).await
            }
            (Resource::Service, "stats", Verb::Get) => {
                allow(Action::GetStatistics, None)?;
                if !self.address.is_secondary {
                    return Err(Failure::invalid_parameter(
                        "comp",
                        "statistics are at the secondary address",
                    ));
                }
                Ok(properties::statistics())
            }
            (Resource::Entities(name), "acl", Verb::Get) => {
                let table = request::table(name)?;
                allow(Action::GetPolicies, Some(&table))?;
                acl::get(self.tenant, &table).await
            }
            (Resource::Entities(name), "acl", Verb::Put) => {
                let table = request::table(name)?;
                allow(Action::SetPolicies, Some(&table))?;
                acl::set(self.tenant, &table, body).await
            }
            (Resource::Service, "properties" | "stats", _) | (Resource::Entities(_), "acl", _) => {
                Err(Failure::method_not_allowed())
            }
            _ => Err(Failure::invalid_parameter(
                "comp",
                "this resource does not have it",
            )),
        }
    }

    /// Handles tables and entities.
    async fn run_data(
        &self,
        verb: Verb,
        permit: &Permit,
        resource: &Resource,
        body: &[u8],
    ) -> Result<Answer> {
        let headers = &self.head.headers;
        let format = self.address.parameters.get("$format")?;
        // The outer response of a group is never JSON, whatever the request asks for.
        let level = match resource {
            Resource::Batch => Metadata::default(),
            _ => Metadata::requested(format, header(headers, "accept"))?,
        };
        let request = Request {
            verb,
            address: self.address,
            headers,
            level,
            answer_memory: &self.service.answer_memory,
        };
        let tenant = self.tenant;
        // A group may have a query; its changes are checked where they are read.
        if verb != Verb::Get && *resource != Resource::Batch {
            request::check_writable(tenant, self.address)?;
        }
        match (resource, verb) {
            (Resource::Tables, Verb::Get) => queries::tables(tenant, permit, &request).await,
            (Resource::Tables, Verb::Post) => tables::create(tenant, permit, &request, body).await,
            (Resource::Table(name), Verb::Get) => tables::get(tenant, permit, &request, name).await,
            (Resource::Table(name), Verb::Delete) => tables::delete(tenant, permit, name).await,
            (Resource::Entities(name), Verb::Get) => {
                queries::entities(tenant, permit, &request, &request::table(name)?).await
            }
            (Resource::Entity(..), Verb::Get) => {
                let (table, key) = request::entity(resource)?;
                queries::entity(tenant, permit, &request, &table, &key).await
            }
            (Resource::Batch, Verb::Post) => {
                batch::transact(tenant, permit, &request, body, self.id).await
            }
            (Resource::Entities(_), Verb::Post)
            | (Resource::Entity(..), Verb::Put | Verb::Merge | Verb::Delete) => {
                entities::write(tenant, permit, &request, resource, body).await
            }
            (Resource::BelowTable { .. }, _) => {
                refuse_below_table(tenant, permit, &request, resource, body).await
            }
            (Resource::Service, _) => Err(Failure::invalid_uri()),
            _ => Err(Failure::method_not_allowed()),
        }
    }
}

/// The operation of a request that names none.
const UNKNOWN: &str = "Unknown";

/// Returns the name of a request's operation, like the service's logs.
/// <https://learn.microsoft.com/rest/api/storageservices/storage-analytics-logged-operations-and-status-messages>
fn operation_name(head: &Parts, address: &Address) -> &'static str {
    let (Ok(verb), Ok(resource)) = (Verb::of(&head.method, &head.headers), address.resource())
    else {
        return UNKNOWN;
    };
    let has_condition = head.headers.contains_key("if-match");
    let component = address.parameters.get("comp").unwrap_or_default();
    match (resource, component, verb) {
        (_, _, Verb::Options) => "PreflightRequest",
        (Resource::Service, Some("properties"), Verb::Get) => "GetTableServiceProperties",
        (Resource::Service, Some("properties"), _) => "SetTableServiceProperties",
        (Resource::Service, Some("stats"), _) => "GetTableServiceStats",
        (Resource::Entities(_), Some("acl"), Verb::Get) => "GetTableAcl",
        (Resource::Entities(_), Some("acl"), _) => "SetTableAcl",
        (_, Some(_), _) => UNKNOWN,
        (Resource::Tables, _, Verb::Get) => "QueryTables",
        (Resource::Tables, _, Verb::Post) => "CreateTable",
        (Resource::Table(_), _, Verb::Get) => "QueryTable",
        (Resource::Table(_), _, Verb::Delete) => "DeleteTable",
        (Resource::Entities(_), _, Verb::Get) => "QueryEntities",
        (Resource::Entity(..), _, Verb::Get) => "QueryEntity",
        (Resource::Entities(_), _, Verb::Post) => "InsertEntity",
        (Resource::Entity(..), _, Verb::Put) if has_condition => "UpdateEntity",
        (Resource::Entity(..), _, Verb::Put) => "InsertOrReplaceEntity",
        (Resource::Entity(..), _, Verb::Merge) if has_condition => "MergeEntity",
        (Resource::Entity(..), _, Verb::Merge) => "InsertOrMergeEntity",
        (Resource::Entity(..), _, Verb::Delete) => "DeleteEntity",
        (Resource::Batch, _, Verb::Post) => "EntityGroupTransaction",
        _ => UNKNOWN,
    }
}

/// Checks the version, which must be a date. All versions follow the current documentation.
fn check_version(headers: &HeaderMap) -> Result<()> {
    let Some(version) = headers.get("x-ms-version") else {
        return Ok(());
    };
    let day = version.to_str().ok().filter(|version| version.len() == 10);
    match day.and_then(|day| day.parse::<chrono::NaiveDate>().ok()) {
        Some(_) => Ok(()),
        None => Err(Failure::invalid_header(
            "x-ms-version",
            "it is not a version",
        )),
    }
}

/// Checks the time that the client gives the service, in seconds. The server answers without regard to it, as the
/// service does with a time that is long enough.
/// <https://learn.microsoft.com/rest/api/storageservices/setting-timeouts-for-table-service-operations>
fn check_timeout(address: &Address) -> Result<()> {
    match address.parameters.get("timeout")?.map(str::parse::<u32>) {
        Some(Err(_)) => Err(Failure::invalid_parameter(
            "timeout",
            "it is not a number of seconds",
        )),
        None | Some(Ok(_)) => Ok(()),
    }
}

/// Returns the format of errors: XML if normal responses are XML or if only XML is accepted.
fn error_format(headers: &HeaderMap, address: &Address) -> ErrorFormat {
    let accept = header(headers, "accept")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let xml = address.parameters.has("comp") || accept.contains("xml") && !accept.contains("json");
    if xml {
        ErrorFormat::Xml
    } else {
        ErrorFormat::Json
    }
}
