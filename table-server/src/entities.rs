//! Writes of entities, alone or in a group.

use http::StatusCode;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Operation, Written};

use crate::address::{Below, Resource, entity_path};
use crate::answer::Answer;
use crate::authorize::{Action, Permit};
use crate::errors::{Failure, Result};
use crate::request::{self, Request, Verb, condition, header};
use crate::tables::created;
use crate::tenant::Tenant;
use crate::wire::{self, Fields, check_content_type};

/// A parsed and authorized write.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) table: TableName,
    pub(crate) operation: Operation,
}

impl Write {
    /// Parses a request of Insert, Update, Merge, Insert Or Replace, Insert Or Merge or Delete Entity.
    pub(crate) fn read(
        permit: &Permit,
        request: &Request<'_>,
        resource: &Resource,
        body: &[u8],
    ) -> Result<Self> {
        let (table, operation) = match (request.verb, resource) {
            (Verb::Post, Resource::Entities(name)) => {
                (request::table(name)?, insert(request, body)?)
            }
            (Verb::Put | Verb::Merge, Resource::Entity(..)) => {
                let (table, key) = request::entity(resource)?;
                (table, update(request, key, body)?)
            }
            (Verb::Delete, Resource::Entity(..)) => {
                let (table, key) = request::entity(resource)?;
                // The service requires the header for deletions, with `*` for any version:
                // <https://learn.microsoft.com/rest/api/storageservices/delete-entity1>.
                let condition = condition(request.headers)?
                    .ok_or_else(|| Failure::missing_header("If-Match"))?;
                (table, Operation::Delete(key, condition))
            }
            _ => return Err(Failure::method_not_allowed()),
        };
        // After parsing, because the permission depends on the operation: an update has a condition, and an
        // upsert has none.
        permit.check(action(&operation), Some(&table))?;
        permit.check_key(operation.key())?;
        Ok(Self { table, operation })
    }

    /// Returns the response to the write.
    pub(crate) async fn answer(
        &self,
        tenant: &Tenant,
        request: &Request<'_>,
        written: &Written,
    ) -> Answer {
        let answer = match &self.operation {
            Operation::Insert(entity) => {
                let address = request
                    .format()
                    .url(&entity_path(&self.table, entity.key()));
                let stored = match request.prefers_content() {
                    true => stored(tenant, &self.table, entity, written).await,
                    false => entity.clone(),
                };
                let body = || wire::entity_document(request.format(), &self.table, &stored, None);
                created(request, body)
                    .with("location", &address)
                    .with("dataserviceid", &address)
            }
            _ => Answer::no_content(),
        };
        answer.with_etag(written.etag.as_ref())
    }
}

/// Returns the inserted entity with the store's Timestamp. The Timestamp is missing if another writer has
/// changed the entity since or if it cannot be read now; the insert has succeeded in any case.
async fn stored(tenant: &Tenant, table: &TableName, entity: &Entity, written: &Written) -> Entity {
    match tenant.store.get(table, entity.key(), None).await {
        Ok(Some(found)) if found.etag() == written.etag.as_ref() => found,
        _ => entity.clone().with_system(written.etag.clone(), None),
    }
}

/// Parses the entity of Insert Entity.
fn insert(request: &Request<'_>, body: &[u8]) -> Result<Operation> {
    check_content_type(header(request.headers, "content-type"))?;
    if request.headers.contains_key("if-match") {
        return Err(Failure::invalid_input(
            "If-Match HTTP header cannot be specified for inserts.",
        ));
    }
    let Fields {
        partition,
        row,
        properties,
    } = wire::read_fields(body)?;
    let partition = partition.ok_or_else(|| wire::needs_value("PartitionKey"))?;
    let row = row.ok_or_else(|| wire::needs_value("RowKey"))?;
    Ok(Operation::Insert(Entity::from_parts(
        Key::new(partition, row)?,
        properties,
    )))
}

/// Parses the entity of Update, Merge, Insert Or Replace or Insert Or Merge Entity.
fn update(request: &Request<'_>, key: Key, body: &[u8]) -> Result<Operation> {
    check_content_type(header(request.headers, "content-type"))?;
    let condition = condition(request.headers)?;
    // The address names the entity, as in the service, which ignores keys in the body.
    let Fields { properties, .. } = wire::read_fields(body)?;
    let entity = Entity::from_parts(key, properties);
    // Without a condition, PUT and MERGE insert a missing entity:
    // <https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity>,
    // <https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity>.
    Ok(match (request.verb, condition) {
        (Verb::Put, Some(condition)) => Operation::Replace(entity, condition),
        (Verb::Put, None) => Operation::InsertOrReplace(entity),
        (_, Some(condition)) => Operation::Merge(entity, condition),
        (_, None) => Operation::InsertOrMerge(entity),
    })
}

const fn action(operation: &Operation) -> Action {
    match operation {
        Operation::Insert(_) => Action::Insert,
        Operation::InsertOrReplace(_) | Operation::InsertOrMerge(_) => Action::Upsert,
        Operation::Replace(..) | Operation::Merge(..) => Action::Update,
        Operation::Delete(..) => Action::Delete,
    }
}

/// Executes a single write.
pub(crate) async fn write(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    resource: &Resource,
    body: &[u8],
) -> Result<Answer> {
    let write = Write::read(permit, request, resource, body)?;
    let written = tenant
        .store
        .write(&write.table, write.operation.clone())
        .await;
    let written = written.map_err(|error| permit.failure(error))?;
    Ok(write.answer(tenant, request, &written).await)
}

/// Refuses a request for a resource below a table, as the service does.
pub(crate) async fn refuse_below_table(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    resource: &Resource,
    body: &[u8],
) -> Result<Answer> {
    let Resource::BelowTable { table, below } = resource else {
        return Err(Failure::invalid_uri());
    };
    let table = request::table(table)?;
    let action = match request.verb {
        Verb::Get => Action::Query,
        Verb::Post => Action::Insert,
        Verb::Delete => Action::Delete,
        _ => Action::Update,
    };
    permit.check(action, Some(&table))?;
    if (*below, request.verb) == (Below::Batch, Verb::Post) {
        let message = "None of the provided media types are supported";
        return Err(Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "MediaTypeNotSupported",
            message,
        ));
    }
    tenant.require_table(&table).await?;
    match (below, request.verb) {
        // The service reads an entity of the table.
        (Below::Set, Verb::Post) => {
            insert(request, body)?;
            Err(Failure::invalid_uri())
        }
        (Below::Element, _) => Err(Failure::invalid_input(format!(
            "The number of keys specified in the URI does not match number of key properties for the resource '{}.{table}'.",
            request.address.account
        ))),
        _ => Err(Failure::invalid_uri()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use table_core::model::IfMatch;

    use super::*;
    use crate::address::Address;
    use crate::limits::{AnswerMemory, Limits};
    use crate::wire::Metadata;

    fn read(
        verb: Verb,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> Result<Operation, &'static str> {
        let address =
            Address::parse("http", "h", &format!("/acc/{path}"), None, |_| false).unwrap();
        let pair =
            |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
        let headers: HeaderMap = headers.iter().map(pair).collect();
        let answer_memory = AnswerMemory::new(&Limits::default());
        let request = Request {
            verb,
            address: &address,
            headers: &headers,
            level: Metadata::Minimal,
            answer_memory: &answer_memory,
        };
        let resource = address.resource().unwrap();
        Write::read(&Permit::Owner, &request, &resource, body.as_bytes())
            .map(|w| w.operation)
            .map_err(|f| f.code)
    }

    const PATH: &str = "abc(PartitionKey='p',RowKey='r')";

    #[test]
    fn verb_and_condition_determine_the_operation() {
        let entity = || Entity::new("p", "r").unwrap().with("A", 1);
        let body = r#"{"PartitionKey":"p","RowKey":"r","A":1}"#;
        let any = [("if-match", "*")];
        assert_eq!(
            read(Verb::Post, "abc", &[], body),
            Ok(Operation::Insert(entity()))
        );
        assert_eq!(
            read(Verb::Put, PATH, &[], body),
            Ok(Operation::InsertOrReplace(entity()))
        );
        assert_eq!(
            read(Verb::Put, PATH, &any, body),
            Ok(Operation::Replace(entity(), IfMatch::Any))
        );
        assert_eq!(
            read(Verb::Merge, PATH, &[], r#"{"A":1}"#),
            Ok(Operation::InsertOrMerge(entity()))
        );
        let other = r#"{"PartitionKey":"x","RowKey":"y","A":1}"#;
        assert_eq!(
            read(Verb::Merge, PATH, &[], other),
            Ok(Operation::InsertOrMerge(entity()))
        );
        assert_eq!(
            read(Verb::Merge, PATH, &any, body),
            Ok(Operation::Merge(entity(), IfMatch::Any))
        );
        let delete = Operation::Delete(entity().key().clone(), IfMatch::Any);
        assert_eq!(read(Verb::Delete, PATH, &any, ""), Ok(delete));
    }

    #[test]
    fn invalid_requests_have_their_error_codes() {
        for (verb, path, headers, body, code) in [
            (
                Verb::Post,
                "abc",
                vec![],
                r#"{"PartitionKey":"p"}"#,
                "PropertiesNeedValue",
            ),
            (
                Verb::Post,
                "abc",
                vec![],
                r#"{"PartitionKey":"a/b","RowKey":""}"#,
                "OutOfRangeInput",
            ),
            (Verb::Post, "a", vec![], "{}", "OutOfRangeInput"),
            (Verb::Post, "a_b", vec![], "{}", "InvalidResourceName"),
            (Verb::Post, "1bc", vec![], "{}", "InvalidResourceName"),
            (
                Verb::Post,
                "TableServerSettings",
                vec![],
                "{}",
                "TableNotFound",
            ),
            (Verb::Post, PATH, vec![], "{}", "MethodNotAllowed"),
            (Verb::Put, "abc", vec![], "{}", "MethodNotAllowed"),
            (
                Verb::Put,
                PATH,
                vec![("if-none-match", "*")],
                "{}",
                "InvalidInput",
            ),
            (
                Verb::Put,
                PATH,
                vec![("content-type", "application/atom+xml")],
                "{}",
                "AtomFormatNotSupported",
            ),
            (Verb::Delete, PATH, vec![], "", "MissingRequiredHeader"),
        ] {
            assert_eq!(read(verb, path, &headers, body), Err(code), "{path} {body}");
        }
    }
}
