use table_core::engine;
use table_core::model::{Entity, Key, Properties};
use table_core::store::{Error, ErrorKind, Operation, Result, ServiceProfile, TableStore};

use super::{EncryptedStore, Shared};
use crate::key::fill_random;
use crate::v2;
use crate::v2::{HEADER, Scope};

impl<S: TableStore> EncryptedStore<S> {
    /// Encrypts the marked properties of an operation, and checks the limits of the wrapped store.
    pub(super) async fn encrypt_operation(
        &self,
        table: &str,
        mut operation: Operation,
    ) -> Result<Operation> {
        // An empty merge must stay empty: a header alone would hide the encrypted properties.
        if matches!(&operation, Operation::Merge(entity, _) if entity.properties().is_empty()) {
            return Ok(operation);
        }
        if let Some(entity) = operation.entity_mut() {
            self.check_marks(table, entity)?;
        }
        self.encrypt_checked(table, operation).await
    }

    /// Like [`encrypt_operation`](Self::encrypt_operation), without the checks.
    pub(super) async fn encrypt_checked(
        &self,
        table: &str,
        mut operation: Operation,
    ) -> Result<Operation> {
        let profile = self.inner.profile();
        if let Some(entity) = operation.entity_mut() {
            let encrypted = encrypt_entity(&self.shared, table, entity).await?;
            if encrypted {
                engine::check_operation(profile, &operation)
                    .map_err(|e| limit_of_encrypted(e, profile))?;
            }
        }
        Ok(operation)
    }

    /// Refuses plaintext in a property that is encrypted in other entities, and encryption of a property that
    /// filters may compare.
    pub(super) fn check_marks(&self, table: &str, entity: &Entity) -> Result<()> {
        let rules = &self.shared.rules;
        let (key, properties) = (entity.key(), entity.properties());
        let names = rules.names(table);
        let plain = properties
            .iter()
            .filter(|p| !p.is_encrypted())
            .map(|p| p.name());
        if let Some(name) = plain.into_iter().find(|name| names.is_known(name)) {
            return Err(Error::invalid_declaration(format!(
                "the property '{name}' of {key} is not marked, but it is encrypted in \
                 others: mark it, or say by `encrypt_where` which rows have it in plaintext"
            )));
        }
        rules.marked_comparable(table, properties).map_or(Ok(()), |name| {
            Err(Error::invalid_declaration(format!(
                "the property '{name}' of {key} is marked for encryption, but `filter_only_by` of '{table}' lists it: filters \
                 would not find it"
            )))
        })
    }
}

/// Encrypts the properties that are marked or named by a rule. Returns whether there were any.
pub(crate) async fn encrypt_entity(
    shared: &Shared,
    table: &str,
    entity: &mut Entity,
) -> Result<bool> {
    check_names(shared, table, entity)?;
    let key = entity.key().clone();
    shared.rules.mark(table, &key, entity.properties_mut());
    let marked = record_marked(shared, table, entity.properties());
    if let Some(legacy) = shared.legacy.as_ref().filter(|l| l.writes(table)) {
        return legacy.seal(entity, marked).await;
    }
    if !marked && !shared.rules.requires(table) {
        return Ok(false);
    }
    *entity.properties_mut() = sealed(shared, table, &key, entity.properties()).await?;
    Ok(true)
}

async fn sealed(
    shared: &Shared,
    table: &str,
    key: &Key,
    properties: &Properties,
) -> Result<Properties> {
    // A salt for each write, also for a repeated attempt of one: a write keeps neither the salt nor the ciphertexts of an earlier
    // one, so no nonce is used for two contents.
    let data_key = shared.keys.for_write().await?;
    let mut salt = [0; 32];
    fill_random(&mut salt)?;
    Ok(v2::seal(
        properties,
        Scope::of_entity(table, key),
        &data_key,
        salt,
    ))
}

/// Returns whether a property is marked, and records the marked names so that no filter may compare them.
fn record_marked(shared: &Shared, table: &str, properties: &Properties) -> bool {
    let mut marked = false;
    for property in properties.iter().filter(|p| p.is_encrypted()) {
        marked = true;
        shared.rules.record(table, property.name());
    }
    marked
}

/// Refuses the property names that the formats reserve.
pub(super) fn check_names(shared: &Shared, table: &str, entity: &Entity) -> Result<()> {
    let legacy = shared.legacy.as_ref().filter(|l| l.reads(table));
    let is_taken = |name: &str| name == HEADER || legacy.is_some() && crate::v1::is_metadata(name);
    match entity.properties().iter().find(|p| is_taken(p.name())) {
        None => Ok(()),
        Some(p) => Err(Error::invalid_name(
            "property name",
            p.name(),
            "encryption keeps its header there",
        )),
    }
}

/// Describes a limit that only the encrypted entity exceeds.
fn limit_of_encrypted(error: Error, profile: &ServiceProfile) -> Error {
    match error.into_kind() {
        ErrorKind::LimitExceeded {
            kind,
            quantity,
            allowed,
            actual,
        } => {
            let quantity = format!("{quantity} as encrypted for {}", profile.name);
            Error::limit_of_kind(kind, quantity, allowed, actual)
        }
        other => other.into(),
    }
}
