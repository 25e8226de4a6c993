//! Entity group transactions: `POST $batch`.

use http::{HeaderMap, HeaderValue, StatusCode};
use table_core::store::{GroupTransaction, Written, limits};
use uuid::Uuid;

use crate::address::{Address, Resource};
use crate::answer::Answer;
use crate::authorize::Permit;
use crate::entities::Write;
use crate::errors::{ErrorFormat, Failure, Result};
use crate::multipart::{self, Group, Part, malformed};
use crate::queries;
use crate::request::{self, Asked, Verb, header};
use crate::tenant::Tenant;
use crate::wire::Metadata;

/// An operation of a group: its request, and the parsed write.
struct Member<'a> {
    part: Part<'a>,
    address: Address,
    verb: Verb,
    level: Metadata,
}

impl<'a> Member<'a> {
    fn of(outer: &Address, part: Part<'a>) -> Result<Self> {
        let (path, parameters) = outer.inner_path(part.address)?;
        let verb = Verb::of(&part.method, &part.headers)?;
        let level = level(&part.headers, parameters.get("$format")?)?;
        let address = Address { path: path.to_owned(), parameters, ..outer.clone() };
        Ok(Self { part, address, verb, level })
    }

    const fn asked<'b>(&'b self, outer: &Asked<'b>) -> Asked<'b> {
        let (verb, level, unread) = (self.verb, self.level, outer.unread);
        Asked { verb, address: &self.address, headers: &self.part.headers, level, unread }
    }
}

fn level(headers: &HeaderMap, format: Option<&str>) -> Result<Metadata> {
    Metadata::asked(format, header(headers, "accept"))
}

/// Executes a group and returns its response. The inner responses contain the results; the outer response
/// only says that the group was read.
pub(crate) async fn transact(
    tenant: &Tenant,
    permit: &Permit,
    asked: &Asked<'_>,
    body: &[u8],
    id: &str,
) -> Result<Answer> {
    let content_type = header(asked.headers, "content-type").unwrap_or_default();
    let text = std::str::from_utf8(body).map_err(|_| malformed("the body is not UTF-8"))?;
    match multipart::read(content_type, text)? {
        Group::Read(part) => {
            let content_id = part.content_id.clone();
            let answer = read(tenant, permit, asked, part).await;
            let answer =
                answer.unwrap_or_else(|failure| failure.of_operation(0).into_answer(ErrorFormat::Json, id));
            let mut answer = inner(answer, content_id);
            let room = std::mem::take(&mut answer.room);
            Ok(Answer { room, ..envelope(&[], Some(&answer)) })
        }
        Group::Changes(parts) => {
            let ids: Vec<_> = parts.iter().map(|part| part.content_id.clone()).collect();
            match change(tenant, permit, asked, parts).await {
                Ok(answers) => {
                    let answers: Vec<_> =
                        answers.into_iter().zip(ids).map(|(answer, id)| inner(answer, id)).collect();
                    Ok(envelope(&answers, None))
                }
                // The error concerns no single operation, so the whole request is refused.
                Err(failure) if failure.status == StatusCode::PAYLOAD_TOO_LARGE => Err(failure),
                Err(failure) => {
                    // As in the service, an error of a group always names an operation: the first, if there
                    // is no better one.
                    let failure = failure.of_operation(0);
                    let content_id = failure.index.and_then(|index| ids.get(index).cloned()).flatten();
                    Ok(envelope(&[inner(failure.into_answer(ErrorFormat::Json, id), content_id)], None))
                }
            }
        }
    }
}

async fn read(tenant: &Tenant, permit: &Permit, asked: &Asked<'_>, part: Part<'_>) -> Result<Answer> {
    let member = Member::of(asked.address, part)?;
    match (member.verb, member.address.resource()?) {
        (Verb::Get, Resource::Entities(name)) => {
            queries::entities(tenant, permit, &member.asked(asked), &request::table(&name)?).await
        }
        (Verb::Get, resource @ Resource::Entity(..)) => {
            let (table, key) = request::entity(&resource)?;
            queries::entity(tenant, permit, &member.asked(asked), &table, &key).await
        }
        (Verb::Get, _) => Err(Failure::not_implemented("queries of tables in a batch")),
        _ => Err(malformed("its changes are not in a change set")),
    }
}

async fn change(
    tenant: &Tenant,
    permit: &Permit,
    asked: &Asked<'_>,
    parts: Vec<Part<'_>>,
) -> Result<Vec<Answer>> {
    request::check_writable(tenant, asked.address)?;
    // The limit of the protocol, also for a store that takes larger groups: these have room for the index entries of 100 operations.
    if parts.len() > limits::GROUP_OPERATIONS {
        let message = "The batch request operation exceeds the maximum 100 changes per change set.";
        return Err(Failure::invalid_input(message).of_operation(limits::GROUP_OPERATIONS));
    }
    let (mut members, mut writes) =
        (Vec::with_capacity(parts.len()), Vec::<Write>::with_capacity(parts.len()));
    for (index, part) in parts.into_iter().enumerate() {
        let member = Member::of(asked.address, part).map_err(|failure| failure.of_operation(index))?;
        let resource = member.address.resource().map_err(|failure| failure.of_operation(index))?;
        let write = Write::read(permit, &member.asked(asked), &resource, member.part.body.as_bytes())
            .map_err(|failure| failure.of_operation(index))?;
        members.push(member);
        writes.push(write);
    }
    // Every operation is parsed and authorized before the first is sent: a group takes effect together or not at all.
    let written = apply(tenant, &writes).await?;
    let mut answers = Vec::with_capacity(writes.len());
    for ((write, member), written) in writes.iter().zip(&members).zip(&written) {
        answers.push(write.answer(tenant, &member.asked(asked), written).await);
    }
    Ok(answers)
}

async fn apply(tenant: &Tenant, writes: &[Write]) -> Result<Vec<Written>> {
    let Some(first) = writes.first() else { return Err(malformed("its change set is empty")) };
    let partition = first.operation.key().partition_key();
    let mut group = GroupTransaction::new(partition, tenant.store.profile());
    for (index, write) in writes.iter().enumerate() {
        check_member(first, write).map_err(|failure| failure.of_operation(index))?;
        group.push(write.operation.clone()).map_err(|error| {
            let failure = duplicate(write, &writes[..index]).unwrap_or_else(|| Failure::from(error));
            failure.of_operation(index)
        })?;
    }
    Ok(tenant.store.transact(&first.table, group).await?)
}

/// Checks the rules of a group and returns the service's error codes.
fn check_member(first: &Write, write: &Write) -> Result<()> {
    let key = write.operation.key();
    if write.table.to_lowercase() != first.table.to_lowercase() {
        return Err(malformed("its operations address several tables"));
    }
    if key.partition() != first.operation.key().partition() {
        let message = "All commands in a batch must operate on same entity group.";
        let code = "CommandsInBatchActOnDifferentPartitions";
        return Err(Failure::new(StatusCode::BAD_REQUEST, code, message));
    }
    Ok(())
}

/// The service's error of an entity that an earlier operation of the group writes.
fn duplicate(write: &Write, before: &[Write]) -> Option<Failure> {
    let key = write.operation.key();
    before.iter().find(|other| other.operation.key() == key)?;
    let row = key.row();
    let message = format!(
        "A command with RowKey '{row}' is already present in the batch. An entity can appear only once in a batch."
    );
    Some(Failure::new(StatusCode::BAD_REQUEST, "InvalidDuplicateRow", message))
}

/// Adds the headers that every inner response has.
fn inner(mut answer: Answer, content_id: Option<HeaderValue>) -> Answer {
    answer.set("x-content-type-options", "nosniff");
    answer.set("cache-control", "no-cache");
    answer.set("dataserviceversion", "3.0;");
    if let Some(id) = content_id {
        answer.headers.insert("content-id", id);
    }
    answer
}

/// Returns the outer response, with the responses of a change set or of a query.
fn envelope(changes: &[Answer], query: Option<&Answer>) -> Answer {
    // Random, so that no property value can contain the boundary.
    let batch = format!("batchresponse_{}", Uuid::new_v4());
    let set = format!("changesetresponse_{}", Uuid::new_v4());
    let mut out = Vec::with_capacity(512 * (changes.len() + 1));
    let part = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    out.extend_from_slice(format!("--{batch}\r\n").as_bytes());
    match query {
        Some(answer) => {
            out.extend_from_slice(part.as_bytes());
            answer.push_part(&mut out);
        }
        None => {
            out.extend_from_slice(
                format!("Content-Type: multipart/mixed; boundary={set}\r\n\r\n").as_bytes(),
            );
            for answer in changes {
                out.extend_from_slice(format!("--{set}\r\n{part}").as_bytes());
                answer.push_part(&mut out);
            }
            out.extend_from_slice(format!("--{set}--\r\n").as_bytes());
        }
    }
    out.extend_from_slice(format!("--{batch}--\r\n").as_bytes());
    Answer::new(StatusCode::ACCEPTED).with_body(&format!("multipart/mixed; boundary={batch}"), out)
}
