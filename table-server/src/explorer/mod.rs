//! A page that shows tables in a browser of this machine: entities, the access path and the cost of filters, the
//! manifest, the drift of indexes, and the sizes of partitions. It changes nothing.
//!
//! The page is static; its script reads JSON and creates text nodes only. The content security policy allows no
//! other script, so a value with markup is shown as text.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use table_core::manifest::{Manifest, StoredIndex, StoredType};
use table_core::model::{Entity, PropertyRef, TableName, ValueRef};
use table_core::query::{Continuation, Filter, Position, Query, Select};
use table_core::store::{TableStore, TableStoreExt as _};

use crate::address::Parameters;
use crate::answer::Answer;
use crate::browsers;
use crate::errors::{Failure, Result};
use crate::request::{check_single_headers, header};
use crate::settings::is_hidden_table;
use crate::tenant::Tenants;

/// The path of the page. No account can have this name.
const PATH: &str = "/_explorer";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";
/// Entities of one answer.
const ENTITIES: usize = 100;
/// Longer values are cut.
const CHARS: usize = 4000;
/// Pages that a picture of partitions reads: 20,000 rows.
const PAGES: usize = 20;
/// Partitions in a picture: the largest.
const PARTITIONS: usize = 60;
/// Pages of entries and of entities that a comparison reads.
#[cfg(feature = "indexes")]
const DRIFT_PAGES: usize = 20;

/// A request for the page or for its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExplorerRequest<'a> {
    pub(crate) method: &'a Method,
    /// The path below the page.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) peer: IpAddr,
    /// Whether the connection is encrypted.
    pub(crate) secure: bool,
}

/// Returns the path below the page, if a path is the page's.
pub(crate) fn path(path: &str) -> Option<&str> {
    path.strip_prefix(PATH)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl ExplorerRequest<'_> {
    pub(crate) async fn answer(&self, tenants: &Tenants) -> Answer {
        let answer = match self.allow() {
            Ok(()) => self.run(tenants).await,
            Err(failure) => Err(failure),
        };
        let answer = answer.unwrap_or_else(|failure| {
            let body = json!({ "code": failure.code, "error": failure.message });
            Answer::new(failure.status)
                .with_body("application/json;charset=utf-8", body.to_string())
        });
        answer
            .with("content-security-policy", POLICY)
            .with("referrer-policy", "no-referrer")
            .with("cross-origin-resource-policy", "same-origin")
            .with("x-frame-options", "DENY")
    }

    /// Admits browsers of this machine. Pages of other sites are refused, also if their name is an address of this machine.
    fn allow(&self) -> Result<()> {
        check_single_headers(self.headers)?;
        // The page needs no key, so a proxy would show all tables to its clients.
        if browsers::is_forwarded(self.headers) {
            let reason = "the explorer answers browsers of this machine without a proxy; the request has a header of one \
                          (X-Forwarded-*, Forwarded, Via or X-Real-IP)";
            return Err(Failure::unauthorized("AuthorizationFailure", reason));
        }
        // The name too, not only the peer: a site can give its own name the address 127.0.0.1, and its page would then be of the same
        // origin as this one.
        let host = header(self.headers, "host").unwrap_or_default();
        let is_here = self.peer.to_canonical().is_loopback()
            && browsers::is_loopback_name(browsers::name_of_host(host));
        // A link or a typed address. A page cannot read its answer.
        let is_link = header(self.headers, "sec-fetch-mode") == Some("navigate")
            && !self.headers.contains_key("origin");
        let own = format!("{}://{host}", if self.secure { "https" } else { "http" });
        if !is_here || browsers::is_of_another_site(self.headers, &own) && !is_link {
            let reason = "the explorer answers browsers of this machine, at http://localhost or http://127.0.0.1";
            return Err(Failure::unauthorized("AuthorizationFailure", reason));
        }
        if self.method == Method::GET {
            Ok(())
        } else {
            Err(Failure::method_not_allowed())
        }
    }

    async fn run(&self, tenants: &Tenants) -> Result<Answer> {
        let file =
            |kind: &str, text: &'static str| Ok(Answer::new(StatusCode::OK).with_body(kind, text));
        match self.path {
            "" => Ok(Answer::new(StatusCode::PERMANENT_REDIRECT).with("location", "/_explorer/")),
            "/" => file("text/html;charset=utf-8", include_str!("page.html")),
            "/page.css" => file("text/css;charset=utf-8", include_str!("page.css")),
            "/page.js" => file("text/javascript;charset=utf-8", include_str!("page.js")),
            _ => {
                let value = self.data(tenants).await?;
                Ok(Answer::new(StatusCode::OK)
                    .with_body("application/json;charset=utf-8", value.to_string()))
            }
        }
    }

    async fn data(&self, tenants: &Tenants) -> Result<Value> {
        let parameters = Parameters::parse(self.query)?;
        if self.path == "/accounts" {
            return Ok(json!(tenants.names().collect::<Vec<_>>()));
        }
        let account = parameters.get("account")?.unwrap_or_default();
        // All rows of the store: the page can show index entries and system rows.
        let tenant = tenants
            .for_programs(account)
            .ok_or_else(Failure::resource_not_found)?;
        let store = &*tenant.store;
        if self.path == "/tables" {
            return tables(store).await;
        }
        let table = crate::request::table(parameters.get("table")?.unwrap_or_default())?;
        match self.path {
            "/drift" => {
                drift(
                    &tenant.store,
                    &table,
                    parameters.get("index")?.unwrap_or_default(),
                )
                .await
            }
            "/manifest" => Ok(manifest(&*store.manifest(&table).await?)),
            "/entities" => entities(store, &table, &parameters).await,
            "/partitions" => partitions(store, &table).await,
            _ => Err(Failure::resource_not_found()),
        }
    }
}

async fn tables(store: &dyn TableStore) -> Result<Value> {
    let (mut names, mut from) = (Vec::new(), None);
    loop {
        let page = store.list_tables(None, from.as_ref()).await?;
        names.extend(
            page.items
                .iter()
                .filter(|table| !is_hidden_table(table))
                .map(ToString::to_string),
        );
        match page.continuation {
            Some(next) => from = Some(next),
            None => return Ok(json!(names)),
        }
    }
}

fn manifest(manifest: &Manifest) -> Value {
    let index = |index: &StoredIndex| {
        json!({
            "name": index.name, "id": index.id(), "state": index.state.to_string(), "dropping": index.is_dropping(),
            "type": index.entity.as_ref().map(|of| of.name.to_string()).filter(|name| !name.is_empty()),
            "table": index.table.as_ref().map(ToString::to_string),
            "definition": index.definition.as_ref().map(|definition| definition.to_json()),
        })
    };
    let entity_type = |stored: &StoredType| {
        json!({
            "name": stored.name(), "version": stored.version, "layout": stored.layout.to_string(), "encrypted": stored.encrypted,
        })
    };
    json!({
        "indexes": manifest.indexes.iter().map(index).collect::<Vec<_>>(),
        "types": manifest.types.iter().map(entity_type).collect::<Vec<_>>(),
    })
}

async fn entities(
    store: &dyn TableStore,
    table: &TableName,
    parameters: &Parameters,
) -> Result<Value> {
    let filter: Option<Filter> = parameters
        .get("filter")?
        .map(str::parse)
        .transpose()
        .map_err(|error: table_core::Error| Failure::from(error))?;
    let query = Query {
        filter,
        select: None,
        top: Some(ENTITIES),
        ..Query::new()
    };
    let profile = store.profile();
    let from = match parameters.get("first")? {
        Some(first) => {
            let second = parameters.get("second")?.map(str::to_owned);
            let position = Position {
                first: first.to_owned(),
                second,
            };
            Some(Continuation::new(profile, table, &query, position))
        }
        None => None,
    };
    let manifest = store.manifest(table).await?;
    let shows_all = parameters.has("all");
    let page = store
        .query(table, &query, from.as_ref())
        .await?
        .into_page()?;
    let next = match page.continuation {
        Some(next) => {
            let Position { first, second } = next.position(profile, table, &query)?;
            Some(json!({ "first": first, "second": second }))
        }
        None => None,
    };
    let shown = page
        .items
        .iter()
        .map(|entity| (kind(&manifest, entity), entity));
    let shown = shown.filter(|(kind, _)| shows_all || !matches!(kind, Kind::System | Kind::Entry));
    Ok(json!({
        "path": query.access_path().to_string(),
        "explanation": query.explain(profile).to_string(),
        "rows": page.items.len(),
        "entities": shown.map(|(kind, entity)| entity_json(&kind, entity)).collect::<Vec<_>>(),
        "next": next,
    }))
}

/// The kind of a row.
enum Kind {
    Type(String),
    Untyped,
    Entry,
    System,
}

/// Finds the kind of a row by its key, its properties and the types in the manifest.
fn kind(manifest: &Manifest, entity: &Entity) -> Kind {
    if entity.key().is_system() {
        return Kind::System;
    }
    if entity.is_index_entry() {
        return Kind::Entry;
    }
    let of_index = manifest
        .indexes
        .iter()
        .filter_map(|index| index.entity.as_ref());
    let types = manifest
        .types
        .iter()
        .filter_map(|stored| stored.entity.as_ref())
        .chain(of_index);
    match types
        .filter(|of| !of.name.is_empty())
        .find(|of| of.admits(entity))
    {
        Some(of) => Kind::Type(of.name.to_string()),
        None => Kind::Untyped,
    }
}

fn entity_json(kind: &Kind, entity: &Entity) -> Value {
    let kind = match kind {
        Kind::Type(name) => name,
        Kind::Untyped => "without type",
        Kind::Entry => "index entry",
        Kind::System => "system row",
    };
    let property = |property: PropertyRef<'_>| {
        let (name, value) = (property.name(), property.value());
        let text = text(value);
        let is_cut = text.chars().count() > CHARS;
        let text: String = text.chars().take(CHARS).collect();
        json!({ "name": name, "type": value.edm_type().name(), "text": text, "cut": is_cut })
    };
    json!({
        "kind": kind,
        "partition": entity.key().partition(), "row": entity.key().row(),
        "etag": entity.etag().map(ToString::to_string), "timestamp": entity.timestamp().map(|time| time.to_string()),
        "properties": entity.properties().iter().map(property).collect::<Vec<_>>(),
    })
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Binary(bytes) => format!(
            "{} bytes: {}",
            bytes.len(),
            hex(&bytes[..bytes.len().min(64)])
        ),
        ValueRef::Boolean(value) => value.to_string(),
        ValueRef::DateTime(time) => time.to_string(),
        ValueRef::Double(value) => format!("{value:?}"),
        ValueRef::Guid(value) => value.to_string(),
        ValueRef::Int32(value) => value.to_string(),
        ValueRef::Int64(value) => value.to_string(),
        ValueRef::String(value) => value.to_owned(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Counts the rows of each partition, up to a limit of pages.
async fn partitions(store: &dyn TableStore, table: &TableName) -> Result<Value> {
    let query = Query {
        select: Some(Select::new(["PartitionKey"])),
        ..Query::default()
    };
    let (mut counts, mut from): (Vec<(String, usize)>, _) = (Vec::new(), None);
    let (mut rows, mut is_complete) = (0, false);
    for _ in 0..PAGES {
        let page = store
            .query(table, &query, from.as_ref())
            .await?
            .into_page()?;
        rows += page.items.len();
        for entity in &page.items {
            match counts.last_mut() {
                Some((partition, count)) if partition == entity.key().partition() => *count += 1,
                _ => counts.push((entity.key().partition().to_owned(), 1)),
            }
        }
        from = page.continuation;
        if from.is_none() {
            is_complete = true;
            break;
        }
    }
    let partitions = counts.len();
    counts.sort_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
    counts.truncate(PARTITIONS);
    let list: Vec<_> = counts
        .into_iter()
        .map(|(partition, rows)| json!({ "partition": partition, "rows": rows }))
        .collect();
    Ok(json!({ "rows": rows, "partitions": partitions, "complete": is_complete, "largest": list }))
}

/// Compares an index of the manifest with its entities, up to a limit of pages. `id` is the index's id. Changes nothing and does not
/// register in the manifest.
#[cfg(feature = "indexes")]
async fn drift(store: &Arc<dyn TableStore>, table: &TableName, id: &str) -> Result<Value> {
    use table_patterns::index::{
        Index, IndexOptions, IndexedEntities, ScrubCursor, ScrubMode, ScrubReport,
    };

    let manifest = store.manifest(table).await?;
    let stored = manifest.indexes.iter().find(|index| index.id() == id);
    let stored = stored.ok_or_else(Failure::resource_not_found)?;
    let definition = stored.definition.clone().ok_or_else(|| {
        Failure::invalid_input(
            "a later version of the library has written the definition of this index",
        )
    })?;
    let index = vec![Index::from_definition(definition)?];
    let indexed = IndexedEntities::open_to_read(
        Arc::clone(store),
        table.clone(),
        index,
        IndexOptions::default(),
    )
    .await?;
    let (mut report, mut cursor) = (ScrubReport::default(), Some(ScrubCursor::default()));
    for _ in 0..DRIFT_PAGES {
        let Some(at) = cursor.take() else { break };
        cursor = indexed
            .scrub_page(&stored.name, ScrubMode::Report, at, &mut report)
            .await?;
    }
    let ScrubReport {
        entries,
        dangling,
        entities,
        missing,
        taken_keys,
    } = report;
    Ok(json!({
        "entries": entries, "dangling": dangling, "entities": entities, "missing": missing,
        "taken_keys": taken_keys,
        "complete": cursor.is_none(),
    }))
}

#[cfg(not(feature = "indexes"))]
async fn drift(_: &Arc<dyn TableStore>, _: &TableName, _: &str) -> Result<Value> {
    Err(Failure::not_implemented(
        "a comparison of indexes: the server is built without the feature `indexes`",
    ))
}
