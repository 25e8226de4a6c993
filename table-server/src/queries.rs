//! Reads: one entity, pages of entities, pages of tables, and continuation tokens.

mod ranged;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Filter, Page, Position, Query, Select};
use table_core::store::{ErrorKind, limits};

use crate::address::Parameters;
use crate::answer::Answer;
use crate::authorize::{Action, Permit};
use crate::errors::{Failure, Result};
use crate::request::Request;
use crate::tenant::Tenant;
use crate::wire;

/// Get Entity. An entity outside the signature's range is reported as missing, because a query would omit it.
pub(crate) async fn entity(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    table: &TableName,
    key: &Key,
) -> Result<Answer> {
    permit.check(Action::Query, Some(table))?;
    check_options(&request.address.parameters, &["$select", "$format"])?;
    let select = select(&request.address.parameters)?;
    // Before the read: a row that the signature does not show costs the same whether it exists or not.
    if permit
        .range()
        .is_some_and(|range| !ranged::shows(range, key))
    {
        return Err(Failure::resource_not_found());
    }
    let found = tenant
        .store
        .get(table, key, select.as_ref())
        .await?
        .ok_or_else(Failure::resource_not_found)?;
    let body = wire::entity_document(request.format(), table, &found, select.as_ref());
    Ok(request.json(body)?.with_etag(found.etag()))
}

/// Query Entities.
pub(crate) async fn entities(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    table: &TableName,
) -> Result<Answer> {
    permit.check(Action::Query, Some(table))?;
    let parameters = &request.address.parameters;
    check_options(parameters, &["$filter", "$select", "$top", "$format"])?;
    let query = Query {
        filter: filter(parameters)?,
        select: select(parameters)?,
        top: top(parameters)?,
        ..Query::new()
    };
    if query.top == Some(0) {
        tenant.require_table(table).await?;
        return request.json(wire::entities_page(
            request.format(),
            table,
            &[],
            query.select.as_ref(),
        ));
    }
    // Before the read: see `reserve_page`.
    let (memory, items, next) = match permit.range() {
        Some(range) => {
            let token = SealedToken {
                tenant,
                permit,
                table,
                query: &query,
            };
            let range = match token.read(parameters)? {
                Some(next) => range.starting_at(&next),
                None => range.clone(),
            };
            let memory = request.answer_memory.reserve_page().await?;
            let page = ranged::page(&*tenant.store, table, &query, &range).await;
            let page = page.map_err(|error| permit.failure(error))?;
            (
                memory,
                page.items,
                page.next.map(|next| (token.text(&next), None)),
            )
        }
        None => {
            let from = open_token(tenant, table, &query, parameters)?;
            let memory = request.answer_memory.reserve_page().await?;
            let Page {
                items,
                continuation,
            } = tenant
                .store
                .query(table, &query, from.as_ref())
                .await?
                .into_page()?;
            let position = continuation
                .map(|next| {
                    next.position(tenant.store.profile(), table, &query)
                        .cloned()
                })
                .transpose()?;
            let text = |key: String| encode_token(key.as_bytes());
            (
                memory,
                items,
                position.map(|next| (text(next.first), next.second.map(text))),
            )
        }
    };
    let body = wire::entities_page(request.format(), table, &items, query.select.as_ref());
    let memory = request.answer_memory.resize(memory, body.len())?;
    let mut answer = Answer::new(StatusCode::OK).with_body(request.level.content_type(), body);
    answer.memory.push(memory);
    if let Some((first, second)) = next {
        answer.set("x-ms-continuation-nextpartitionkey", &first);
        if let Some(second) = second {
            answer.set("x-ms-continuation-nextrowkey", &second);
        }
    }
    Ok(answer)
}

/// The parameters of a continuation token for entities.
const NEXT_PARTITION: &str = "NextPartitionKey";
const NEXT_ROW: &str = "NextRowKey";

/// Reads the continuation token of a credential that may read every row.
fn open_token(
    tenant: &Tenant,
    table: &TableName,
    query: &Query,
    parameters: &Parameters,
) -> Result<Option<Continuation>> {
    match (
        decode_text(parameters, NEXT_PARTITION)?,
        decode_text(parameters, NEXT_ROW)?,
    ) {
        (Some(first), second) => Ok(Some(Continuation::new(
            tenant.store.profile(),
            table,
            query,
            Position { first, second },
        ))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Failure::invalid_parameter(
            NEXT_ROW,
            "NextPartitionKey is missing",
        )),
    }
}

/// The continuation token of a signature with a range: one encrypted parameter with both keys. It is valid for the query that it was
/// returned to, and for the same signature.
struct SealedToken<'a> {
    tenant: &'a Tenant,
    permit: &'a Permit,
    table: &'a TableName,
    query: &'a Query,
}

impl SealedToken<'_> {
    /// Returns the text of the parameter [`NEXT_PARTITION`].
    fn text(&self, next: &Key) -> String {
        let keys = serde_json::json!([next.partition(), next.row()]).to_string();
        encode_token(&self.tenant.account.seal(&keys, &self.context()))
    }

    fn read(&self, parameters: &Parameters) -> Result<Option<Key>> {
        if parameters.get(NEXT_ROW)?.is_some() {
            return Err(foreign_token(NEXT_ROW));
        }
        let Some(text) = parameters.get(NEXT_PARTITION)? else {
            return Ok(None);
        };
        let read = || {
            let keys = self
                .tenant
                .account
                .unseal(&decode_token(text)?, &self.context())?;
            let (partition, row): (String, String) = serde_json::from_str(&keys).ok()?;
            Key::new(partition, row).ok()
        };
        read()
            .map(Some)
            .ok_or_else(|| foreign_token(NEXT_PARTITION))
    }

    /// Everything that the token belongs to. Not `$top`, which may change from page to page: a client that wants 1,500 entities asks for 1,000
    /// and for 500.
    fn context(&self) -> String {
        let Self {
            tenant,
            permit,
            table,
            query,
        } = self;
        let select = query
            .select
            .as_ref()
            .map(|select| select.names().collect::<Vec<_>>());
        serde_json::json!([
            NEXT_PARTITION,
            tenant.account.name(),
            tenant.store.profile().table_identity(table),
            query.filter.as_ref().map(ToString::to_string),
            select,
            permit.identity(),
        ])
        .to_string()
    }
}

/// Query Tables. The server's own table is not listed.
pub(crate) async fn tables(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
) -> Result<Answer> {
    permit.check(Action::QueryTables, None)?;
    let parameters = &request.address.parameters;
    check_options(parameters, &["$filter", "$top", "$format", "$select"])?;
    let (filter, top) = (
        filter(parameters)?,
        top(parameters)?.unwrap_or(limits::PAGE_SIZE),
    );
    if let Some(filter) = &filter {
        filter.check_names()?;
    }
    // A filter for one name, which clients send to ask whether a table exists, need not list all tables.
    let prefix = filter.as_ref().and_then(exact_name);
    let (position, after) = match decode_text(parameters, "NextTableName")? {
        None => (None, None),
        Some(next) => parse_listing_position(&next)?,
    };
    let from = position
        .clone()
        .map(|position| Continuation::of_tables(prefix, position));
    let Page {
        items,
        continuation,
    } = tenant.store.list_tables(prefix, from.as_ref()).await?;
    let identity = |table: &TableName| tenant.store.profile().table_identity(table);
    let keyless = Entity::new("", "")?;
    let shown = |table: &TableName| {
        let named = |filter: &Filter| filter.matches(&as_entity(table, &keyless));
        !crate::settings::is_hidden_table(table)
            && after.as_ref().is_none_or(|after| identity(table) > *after)
            && filter.as_ref().is_none_or(named)
    };
    let mut items: Vec<TableName> = items.into_iter().filter(shown).collect();
    let next = if items.len() > top {
        items.truncate(top);
        // The same page again, after its last table that is returned.
        items.last().map(|last| (position, Some(identity(last))))
    } else {
        next_page_position(continuation, prefix)?
    };
    let body = wire::tables_page(request.format(), &items);
    let mut answer = request.json(body)?;
    if let Some((position, after)) = next {
        let text = listing_position_text(position.as_ref(), after.as_deref());
        answer.set(
            "x-ms-continuation-nexttablename",
            &encode_token(text.as_bytes()),
        );
    }
    Ok(answer)
}

/// Returns the position of the store's next page; `None` after the last page.
fn next_page_position(
    continuation: Option<Continuation>,
    prefix: Option<&str>,
) -> Result<Option<ListingPosition>> {
    let position = continuation
        .map(|next| next.tables_position(prefix).cloned())
        .transpose()?;
    Ok(position.map(|position| (Some(position), None)))
}

/// Returns a table in the form that filters of a listing evaluate: a property `TableName` of an entity without keys.
fn as_entity(table: &TableName, keyless: &Entity) -> Entity {
    keyless.clone().with("TableName", table.as_str())
}

/// Returns the table name, if a filter selects exactly one table.
fn exact_name(filter: &Filter) -> Option<&str> {
    use table_core::model::EdmValue;
    use table_core::query::{Comparison, FilterNode};
    match filter.node() {
        FilterNode::Compare {
            property,
            comparison: Comparison::Equal,
            value: EdmValue::String(name),
        } if &**property == "TableName" => Some(name),
        _ => None,
    }
}

/// Refuses OData options that the service does not support.
fn check_options(parameters: &Parameters, known: &[&str]) -> Result<()> {
    match parameters
        .names()
        .find(|name| name.starts_with('$') && !known.contains(name))
    {
        Some(unknown) => Err(Failure::not_implemented(&format!(
            "the query option {unknown}"
        ))),
        None => Ok(()),
    }
}

fn filter(parameters: &Parameters) -> Result<Option<Filter>> {
    Ok(parameters.get("$filter")?.map(str::parse).transpose()?)
}

/// Maximum number of selected names: every property that an entity can have, with its two keys and its Timestamp.
const MAX_SELECTED: usize = limits::CUSTOM_PROPERTIES + 3;

fn select(parameters: &Parameters) -> Result<Option<Select>> {
    let Some(names) = parameters.get("$select")? else {
        return Ok(None);
    };
    let names: Vec<&str> = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    if names.len() > MAX_SELECTED {
        return Err(Failure::invalid_input(
            "The $select query option names more properties than an entity has.",
        ));
    }
    Ok((!names.contains(&"*") && !names.is_empty()).then(|| Select::new(names)))
}

/// "The maximum value for $top is 1,000":
/// <https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities#supported-query-options>
fn top(parameters: &Parameters) -> Result<Option<usize>> {
    let Some(top) = parameters.get("$top")? else {
        return Ok(None);
    };
    let number = top
        .parse()
        .ok()
        .filter(|top| (0..=limits::PAGE_SIZE).contains(top));
    number
        .map(Some)
        .ok_or_else(|| Failure::invalid_input("The $top query option is a number from 0 to 1000."))
}

/// Encodes a part of a continuation token, because keys may contain characters that headers cannot.
fn encode_token(bytes: &[u8]) -> String {
    let encoded = URL_SAFE_NO_PAD.encode(bytes);
    format!("1!{}!{encoded}", encoded.len())
}

/// Reads a part of a continuation token that [`encode_token`] has encoded.
fn decode_token(text: &str) -> Option<Vec<u8>> {
    let (length, encoded) = text.strip_prefix("1!")?.split_once('!')?;
    // The form of the service's tokens. The length finds a token that was cut on its way.
    let whole = length.parse() == Ok(encoded.len());
    URL_SAFE_NO_PAD.decode(encoded).ok().filter(|_| whole)
}

/// Reads a part of a continuation token that is not encrypted.
fn decode_text(parameters: &Parameters, name: &str) -> Result<Option<String>> {
    let Some(text) = parameters.get(name)? else {
        return Ok(None);
    };
    let text = decode_token(text).and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some).ok_or_else(|| foreign_token(name))
}

fn foreign_token(name: &str) -> Failure {
    Failure::invalid_parameter(
        name,
        "it was not returned by this service for this query and this credential",
    )
}

/// The position of a listing of tables: the store's position of a page, and the last table returned from it. The store chooses the size
/// of its pages, so a page can have more tables than the client wants.
type ListingPosition = (Option<Position>, Option<String>);

/// Writes a position as the text of a continuation token.
fn listing_position_text(position: Option<&Position>, after: Option<&str>) -> String {
    let position = position.map(|position| (&position.first, &position.second));
    serde_json::json!([position, after]).to_string()
}

fn parse_listing_position(text: &str) -> Result<ListingPosition> {
    let foreign = |_| {
        Failure::from(table_core::Error::new(ErrorKind::InvalidContinuation(
            "it does not belong to a listing".to_owned(),
        )))
    };
    let (position, after): (Option<(String, Option<String>)>, Option<String>) =
        serde_json::from_str(text).map_err(foreign)?;
    Ok((
        position.map(|(first, second)| Position { first, second }),
        after,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn continuations_survive_a_round_trip(text in "\\PC{0,20}") {
            let query = format!("NextPartitionKey={}", encode_token(text.as_bytes()).replace('!', "%21"));
            let parameters = Parameters::parse(&query).unwrap();
            prop_assert_eq!(decode_text(&parameters, "NextPartitionKey").unwrap(), Some(text.clone()));
            let position = Position { first: text.clone(), second: None };
            let placed = listing_position_text(Some(&position), Some(&text));
            prop_assert_eq!(parse_listing_position(&placed).unwrap(), (Some(position), Some(text)));
        }

        #[test]
        fn foreign_continuations_are_refused(text in "[ -%'-~]{1,20}") {
            let parameters = Parameters::parse(&format!("NextRowKey={text}")).unwrap_or_default();
            prop_assume!(!text.starts_with("1!"));
            if parameters.get("NextRowKey").is_ok_and(|value| value.is_some()) {
                prop_assert!(decode_text(&parameters, "NextRowKey").is_err());
            }
            let _ = parse_listing_position(&text);
        }
    }

    #[test]
    fn options_have_bounds() {
        let of = |text: &str| Parameters::parse(text).unwrap();
        for wrong in ["$top=1001", "$top=-1", "$top=x"] {
            assert_eq!(top(&of(wrong)).unwrap_err().code, "InvalidInput", "{wrong}");
        }
        assert_eq!(top(&of("$top=0")).unwrap(), Some(0));
        assert_eq!(top(&of("$top=1000")).unwrap(), Some(1000));
        assert_eq!(select(&of("$select=*")).unwrap(), None);
        assert_eq!(
            select(&of("$select=A, B")).unwrap(),
            Some(Select::new(["A", "B"]))
        );
        assert!(select(&of(&format!("$select={}", "A,".repeat(300)))).is_err());
        assert_eq!(
            filter(&of("$filter=A+eq")).unwrap_err().code,
            "InvalidInput"
        );
        assert_eq!(
            check_options(&of("$orderby=A"), &["$top"])
                .unwrap_err()
                .code,
            "NotImplemented"
        );
    }
}
