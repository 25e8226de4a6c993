//! Creates, finds and deletes tables.

use http::StatusCode;
use table_core::model::TableName;
use table_core::store::Outcome;

use crate::acl::stored_policies;
use crate::answer::Answer;
use crate::authorize::{Action, Permit};
use crate::errors::{Failure, Result};
use crate::request::{self, Asked, header};
use crate::settings::{Setting, is_hidden};
use crate::tenant::Tenant;
use crate::wire::{self, check_content_type};

/// Create Table.
pub(crate) async fn create(
    tenant: &Tenant,
    permit: &Permit,
    asked: &Asked<'_>,
    body: &[u8],
) -> Result<Answer> {
    permit.check(Action::CreateTable, None)?;
    check_content_type(header(asked.headers, "content-type"))?;
    let table = TableName::new(wire::read_table_name(body)?)?;
    if is_hidden(&table) {
        return Err(Failure::new(
            StatusCode::CONFLICT,
            "TableAlreadyExists",
            "The table specified already exists: the server keeps its settings in it.",
        ));
    }
    // Not while the table of this name is deleted, whose policies would otherwise belong to the new table.
    let alone = tenant.tables.lock().await;
    tenant.store.create_table(&table).await?;
    drop(alone);
    let address = asked.links().to(&format!("Tables('{table}')"));
    let body = || wire::table_document(asked.level, asked.links(), &table);
    Ok(created(asked, body).with("location", &address).with("dataserviceid", &address))
}

/// Returns the response to a creation: with or without the entity, as the client prefers.
pub(crate) fn created(asked: &Asked<'_>, body: impl FnOnce() -> Vec<u8>) -> Answer {
    let (echo, applied) = match asked.wants_echo() {
        true => (true, "return-content"),
        false => (false, "return-no-content"),
    };
    let answer = match echo {
        true => Answer::new(StatusCode::CREATED).with_body(asked.level.content_type(), body()),
        false => Answer::no_content(),
    };
    match asked.headers.contains_key("prefer") {
        true => answer.with("preference-applied", applied),
        false => answer,
    }
}

/// Query Tables with a table's name.
pub(crate) async fn get(tenant: &Tenant, permit: &Permit, asked: &Asked<'_>, name: &str) -> Result<Answer> {
    permit.check(Action::QueryTables, None)?;
    let found = tenant.find_table(&request::table(name)?).await?.ok_or_else(Failure::table_not_found)?;
    let body = wire::table_document(asked.level, asked.links(), &found);
    Ok(Answer::new(StatusCode::OK).with_body(asked.level.content_type(), body))
}

/// Delete Table. Its policies are deleted first: if the operation stops there, no revoked permission becomes
/// valid again.
pub(crate) async fn delete(tenant: &Tenant, permit: &Permit, name: &str) -> Result<Answer> {
    let table = request::table(name)?;
    permit.check(Action::DeleteTable, Some(&table))?;
    let _alone = tenant.tables.lock().await;
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
            if error.outcome() == Outcome::NotApplied && !error.is_not_found() && !policies.is_empty() {
                tenant.settings.set(Setting::Policies(&table), &policies).await?;
            }
            Err(error.into())
        }
    }
}
