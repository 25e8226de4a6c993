//! Creates, finds and deletes tables.

use http::StatusCode;
use table_core::store::Outcome;

use crate::acl::stored_policies;
use crate::answer::Answer;
use crate::authorize::{Action, Permit};
use crate::errors::{Failure, Result, table_name};
use crate::request::{self, Request, header};
use crate::settings::{Setting, is_hidden_table};
use crate::tenant::Tenant;
use crate::wire::{self, check_content_type};

/// Create Table.
pub(crate) async fn create(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    body: &[u8],
) -> Result<Answer> {
    permit.check(Action::CreateTable, None)?;
    check_content_type(header(request.headers, "content-type"))?;
    let table = table_name(&wire::read_table_name(body)?)?;
    if is_hidden_table(&table) {
        return Err(Failure::new(
            StatusCode::CONFLICT,
            "TableAlreadyExists",
            "The table specified already exists: the server keeps its settings in it.",
        ));
    }
    // Not while the table of this name is deleted, whose policies would otherwise belong to the new table.
    let guard = tenant.table_lock.lock().await;
    tenant.store.create_table(&table).await?;
    drop(guard);
    let address = request.format().url(&format!("Tables('{table}')"));
    let body = || wire::table_document(request.format(), &table);
    Ok(created(request, body)
        .with("location", &address)
        .with("dataserviceid", &address))
}

/// Returns the response to a creation: with or without the entity, as the client prefers.
pub(crate) fn created(request: &Request<'_>, body: impl FnOnce() -> Vec<u8>) -> Answer {
    let (mut answer, applied) = if request.prefers_content() {
        let answer =
            Answer::new(StatusCode::CREATED).with_body(request.level.content_type(), body());
        (answer, "return-content")
    } else {
        (Answer::no_content(), "return-no-content")
    };
    if request.headers.contains_key("prefer") {
        answer.set("preference-applied", applied);
    }
    answer
}

/// Query Tables with a table's name.
pub(crate) async fn get(
    tenant: &Tenant,
    permit: &Permit,
    request: &Request<'_>,
    name: &str,
) -> Result<Answer> {
    permit.check(Action::QueryTables, None)?;
    let found = tenant
        .find_table(&request::table(name)?)
        .await?
        .ok_or_else(Failure::table_not_found)?;
    request.json(wire::table_document(request.format(), &found))
}

/// Delete Table. Its policies are deleted first: if the operation stops there, no revoked permission becomes
/// valid again.
pub(crate) async fn delete(tenant: &Tenant, permit: &Permit, name: &str) -> Result<Answer> {
    let table = table_name(name)?;
    permit.check(Action::DeleteTable, Some(&table))?;
    if is_hidden_table(&table) {
        return Err(Failure::resource_not_found());
    }
    let _guard = tenant.table_lock.lock().await;
    let policies = stored_policies(tenant, &table).await?;
    if !policies.is_empty() {
        tenant.settings.remove(Setting::Policies(&table)).await?;
    }
    match tenant.store.delete_table(&table).await {
        Ok(()) => Ok(Answer::no_content()),
        Err(error) => {
            // The table is still there, so its policies are put back. After an ambiguous outcome they stay
            // away: it is better to refuse a valid signature than to let the next table of the name inherit
            // them.
            if error.outcome() == Outcome::NotApplied
                && !error.is_not_found()
                && !policies.is_empty()
            {
                tenant
                    .settings
                    .set(Setting::Policies(&table), &policies)
                    .await?;
            }
            // As the service: the table is a resource of the set `Tables`.
            if error.is_table_not_found() {
                Err(Failure::resource_not_found())
            } else {
                Err(error.into())
            }
        }
    }
}
