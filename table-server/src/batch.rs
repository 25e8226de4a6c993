//! Entity group transactions: `POST $batch`.

use http::{HeaderValue, StatusCode};
use table_core::store::{GroupTransaction, Written, limits};
use uuid::Uuid;

use crate::address::{Address, Resource};
use crate::answer::Answer;
use crate::authorize::Permit;
use crate::entities::Write;
use crate::errors::{ErrorFormat, Failure, Result};
use crate::multipart::{self, Group, Part, malformed};
use crate::queries;
use crate::request::{self, Request, Verb, header};
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
    /// Reads the request line and the headers of a part. What the address of the group decides, such as the account, holds for its parts.
    fn of(outer: &Address, part: Part<'a>) -> Result<Self> {
        let (path, parameters) = outer.inner_path(part.address)?;
        let verb = Verb::of(&part.method, &part.headers)?;
        let level =
            Metadata::requested(parameters.get("$format")?, header(&part.headers, "accept"))?;
        let address = Address {
            path: path.to_owned(),
            parameters,
            ..outer.clone()
        };
        Ok(Self {
            part,
            address,
            verb,
            level,
        })
    }

    /// Returns the operation as a single request.
    const fn request<'b>(&'b self, outer: &Request<'b>) -> Request<'b> {
        let (verb, level, answer_memory) = (self.verb, self.level, outer.answer_memory);
        Request {
            verb,
            address: &self.address,
            headers: &self.part.headers,
            level,
            answer_memory,
        }
    }
}

/// Executes a group and returns its response. The inner responses contain the results; the outer response
/// only says that the group was read.
pub(crate) async fn transact(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    body: &[u8],
    id: &str,
) -> Result<Answer> {
    let content_type = header(request.headers, "content-type").unwrap_or_default();
    let text = std::str::from_utf8(body).map_err(|_| malformed("the body is not UTF-8"))?;
    match multipart::read(content_type, text)? {
        Group::Read(part) => {
            let content_id = part.content_id.clone();
            let answer = read(tenant, permit, request, part).await;
            let answer =
                answer.unwrap_or_else(|failure| failure.into_answer(ErrorFormat::Json, id));
            let mut answer = inner_response(answer, content_id);
            let memory = std::mem::take(&mut answer.memory);
            Ok(Answer {
                memory,
                ..outer_response(&[], Some(&answer))
            })
        }
        Group::Changes(parts) => {
            let ids: Vec<_> = parts.iter().map(|part| part.content_id.clone()).collect();
            match change(tenant, permit, request, parts).await {
                Ok(answers) => {
                    let answers: Vec<_> = answers
                        .into_iter()
                        .zip(ids)
                        .map(|(answer, id)| inner_response(answer, id))
                        .collect();
                    Ok(outer_response(&answers, None))
                }
                // The error concerns no single operation, so the whole request is refused.
                Err(failure) if failure.status == StatusCode::PAYLOAD_TOO_LARGE => Err(failure),
                Err(failure) => {
                    // As in the service, an error of several operations always names one: the first, if there is no better one. An error of a
                    // single operation names none.
                    let index = failure.index.unwrap_or_default();
                    let content_id = ids.get(index).cloned().flatten();
                    let failure = Failure {
                        index: (ids.len() > 1).then_some(index),
                        ..failure
                    };
                    Ok(outer_response(
                        &[inner_response(
                            failure.into_answer(ErrorFormat::Json, id),
                            content_id,
                        )],
                        None,
                    ))
                }
            }
        }
    }
}

async fn read(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    part: Part<'_>,
) -> Result<Answer> {
    let member = Member::of(request.address, part)?;
    match (member.verb, member.address.resource()?) {
        (Verb::Get, Resource::Entities(name)) => {
            queries::entities(
                tenant,
                permit,
                &member.request(request),
                &request::table(&name)?,
            )
            .await
        }
        (Verb::Get, resource @ Resource::Entity(..)) => {
            let (table, key) = request::entity(&resource)?;
            queries::entity(tenant, permit, &member.request(request), &table, &key).await
        }
        (Verb::Get, _) => Err(Failure::not_implemented("queries of tables in a batch")),
        _ => Err(malformed("its changes are not in a change set")),
    }
}

async fn change(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    parts: Vec<Part<'_>>,
) -> Result<Vec<Answer>> {
    request::check_writable(tenant, request.address)?;
    // The limit of the protocol, also for a store that takes larger groups: these have room for the index entries of 100 operations.
    if parts.len() > limits::GROUP_OPERATIONS {
        let message = "The batch request operation exceeds the maximum 100 changes per change set.";
        // The service names the last operation that a group could have.
        return Err(Failure::invalid_input(message).of_operation(limits::GROUP_OPERATIONS - 1));
    }
    let (mut members, mut writes) = (
        Vec::with_capacity(parts.len()),
        Vec::<Write>::with_capacity(parts.len()),
    );
    let parsed = |part| {
        let member = Member::of(request.address, part)?;
        let resource = member.address.resource()?;
        let write = Write::read(
            permit,
            &member.request(request),
            &resource,
            member.part.body.as_bytes(),
        )?;
        Ok((member, write))
    };
    for (index, part) in parts.into_iter().enumerate() {
        let (member, write) =
            parsed(part).map_err(|failure: Failure| failure.of_operation(index))?;
        members.push(member);
        writes.push(write);
    }
    // Every operation is parsed and authorized before the first is sent: a group takes effect together or not at all.
    let written = apply(tenant, permit, &writes).await?;
    let mut answers = Vec::with_capacity(writes.len());
    for ((write, member), written) in writes.iter().zip(&members).zip(&written) {
        answers.push(
            write
                .answer(tenant, &member.request(request), written)
                .await,
        );
    }
    Ok(answers)
}

async fn apply(tenant: &Tenant, permit: &Permit, writes: &[Write]) -> Result<Vec<Written>> {
    let Some(first) = writes.first() else {
        return Err(malformed("its change set is empty"));
    };
    let partition = first.operation.key().partition_key();
    let mut group = GroupTransaction::new(partition, tenant.store.profile());
    for (index, write) in writes.iter().enumerate() {
        check_member(first, write).map_err(|failure| failure.of_operation(index))?;
        group.push(write.operation.clone()).map_err(|error| {
            let failure =
                duplicate(write, &writes[..index]).unwrap_or_else(|| Failure::from(error));
            failure.of_operation(index)
        })?;
    }
    tenant
        .store
        .transact(&first.table, group)
        .await
        .map_err(|error| permit.failure(error))
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
    Some(Failure::new(
        StatusCode::BAD_REQUEST,
        "InvalidDuplicateRow",
        message,
    ))
}

/// Adds the headers that every inner response has.
fn inner_response(mut answer: Answer, content_id: Option<HeaderValue>) -> Answer {
    answer.set("x-content-type-options", "nosniff");
    answer.set("cache-control", "no-cache");
    answer.set("dataserviceversion", "3.0;");
    if let Some(id) = content_id {
        answer.headers.insert("content-id", id);
    }
    answer
}

/// Returns the outer response, with the responses of a change set or of a query.
fn outer_response(changes: &[Answer], query: Option<&Answer>) -> Answer {
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
