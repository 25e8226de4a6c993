use table_core::engine;
use table_core::model::{Entity, Key, Properties};
use table_core::store::{Error, ErrorKind, Operation, Result, ServiceProfile, TableStore};

use super::{EncryptedStore, Shared};
use crate::key::fill_random;
use crate::v2::{self, HEADER, Scope};

impl<S: TableStore> EncryptedStore<S> {
    /// The operation with its marked properties encrypted, checked against the wrapped store's limits.
    pub(super) async fn conceal(&self, table: &str, mut operation: Operation) -> Result<Operation> {
        // A merge of nothing must stay one: a header alone would hide what is encrypted.
        if matches!(&operation, Operation::Merge(entity, _) if entity.properties().is_empty()) {
            return Ok(operation);
        }
        if let Some(entity) = operation.entity_mut() {
            self.check_marks(table, entity)?;
        }
        self.concealed(table, operation).await
    }

    /// [`conceal`](Self::conceal) for what was checked already.
    pub(super) async fn concealed(&self, table: &str, mut operation: Operation) -> Result<Operation> {
        let profile = self.inner.profile();
        if let Some(entity) = operation.entity_mut() {
            let concealed = conceal(&self.shared, table, entity).await?;
            if concealed {
                engine::check_operation(profile, &operation).map_err(|e| grown(e, profile))?;
            }
        }
        Ok(operation)
    }

    /// Refuses plaintext where other entities have ciphertext, and ciphertext where filters were promised plaintext.
    pub(super) fn check_marks(&self, table: &str, entity: &Entity) -> Result<()> {
        let rules = &self.shared.rules;
        let (key, properties) = (entity.key(), entity.properties());
        let names = rules.names(table);
        let plain = properties.iter().filter(|p| !p.is_encrypted()).map(|p| p.name());
        if let Some(name) = plain.into_iter().find(|name| names.is_known(name)) {
            return Err(Error::invalid_request(format!(
                "the property '{name}' of {key} would be written to '{table}' in plaintext, where it is encrypted in \
                 others: mark it, or say by `encrypt_where` which rows have it in plaintext"
            )));
        }
        rules.covered(table, properties).map_or(Ok(()), |name| {
            Err(Error::invalid_request(format!(
                "the property '{name}' of {key} is to be encrypted in '{table}', and `filter_only_by` names it: filters \
                 would not find it"
            )))
        })
    }
}

/// Encrypts what is marked or named by a rule; whether there was something.
pub(crate) async fn conceal(shared: &Shared, table: &str, entity: &mut Entity) -> Result<bool> {
    check_names(shared, table, entity)?;
    let key = entity.key().clone();
    shared.rules.mark(table, &key, entity.properties_mut());
    let marked = remember(shared, table, entity.properties());
    if let Some(legacy) = shared.legacy.as_ref().filter(|l| l.writes(table)) {
        return legacy.seal(entity, marked).await;
    }
    if !marked && !shared.rules.requires(table) {
        return Ok(false);
    }
    *entity.properties_mut() = sealed(shared, table, &key, entity.properties()).await?;
    Ok(true)
}

async fn sealed(shared: &Shared, table: &str, key: &Key, properties: &Properties) -> Result<Properties> {
    let data_key = shared.keys.for_write().await?;
    let mut salt = [0; 32];
    fill_random(&mut salt)?;
    Ok(v2::seal(properties, Scope::of_entity(table, key), &data_key, salt))
}

/// Whether something is marked; what is, no filter may compare from now on.
fn remember(shared: &Shared, table: &str, properties: &Properties) -> bool {
    let mut marked = false;
    for property in properties.iter().filter(|p| p.is_encrypted()) {
        marked = true;
        shared.rules.remember(table, property.name());
    }
    marked
}

/// The names of the formats are theirs.
pub(super) fn check_names(shared: &Shared, table: &str, entity: &Entity) -> Result<()> {
    let legacy = shared.legacy.as_ref().filter(|l| l.reads(table));
    let is_taken = |name: &str| name == HEADER || legacy.is_some() && crate::v1::is_metadata(name);
    match entity.properties().iter().find(|p| is_taken(p.name())) {
        None => Ok(()),
        Some(p) => Err(Error::invalid_name("property name", p.name(), "encryption keeps its header there")),
    }
}

/// A limit that the encrypted form exceeds.
fn grown(error: Error, profile: &ServiceProfile) -> Error {
    match error.into_kind() {
        ErrorKind::LimitExceeded { what, allowed, actual } => {
            Error::limit(format!("{what} as encrypted for {}", profile.name), allowed, actual)
        }
        other => other.into(),
    }
}
