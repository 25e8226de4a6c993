use table_core::model::{Entity, IfMatch, Properties, TableName};
use table_core::query::Select;
use table_core::store::{Error, Operation, Result, TableStore};

use super::EncryptedStore;
use super::decrypt::StoredForm;
use super::encrypt::check_names;
use crate::error::Failure;
use crate::v1::METADATA;
use crate::v2::HEADER;

/// An operation as it is sent.
pub(super) struct Prepared {
    pub(super) operation: Operation,
    /// The ETag comes from this store and not from the caller: after a failed condition, the operation is
    /// prepared again.
    pub(super) retries_conflict: bool,
}

/// Whether the operation must read the entity and then replace it.
pub(super) fn reads_first(operation: &Operation) -> bool {
    match operation {
        Operation::Merge(entity, _) => !entity.properties().is_empty(),
        Operation::InsertOrMerge(_) => true,
        _ => false,
    }
}

impl<S: TableStore> EncryptedStore<S> {
    /// Converts an operation to the form that is sent: merges become writes of the merged entity.
    pub(super) async fn prepare(
        &self,
        table: &TableName,
        operation: Operation,
    ) -> Result<Prepared> {
        let id = self.table_id(table);
        match operation {
            Operation::Merge(entity, version) if !entity.properties().is_empty() => {
                self.prepare_merge(table, &id, entity, Some(version)).await
            }
            Operation::InsertOrMerge(entity) => self.prepare_merge(table, &id, entity, None).await,
            other => Ok(Prepared {
                operation: self.encrypt_operation(&id, other).await?,
                retries_conflict: false,
            }),
        }
    }

    async fn prepare_merge(
        &self,
        table: &TableName,
        id: &str,
        mut patch: Entity,
        version: Option<IfMatch>,
    ) -> Result<Prepared> {
        check_names(&self.shared, id, &patch)?;
        let key = patch.key().clone();
        self.shared.rules.mark(id, &key, patch.properties_mut());
        self.check_marks(id, &patch)?;
        if let Some(version) = &version {
            version.check_form(patch.key())?;
        }
        let Some(read) = self.read_for(table, id, &patch).await? else {
            if version.is_some() {
                return Err(Error::entity_not_found(table, patch.key()));
            }
            let operation = self.encrypt_checked(id, Operation::Insert(patch)).await?;
            return Ok(Prepared {
                operation,
                retries_conflict: true,
            });
        };
        let found = read.version()?;
        let retries_conflict = !matches!(version, Some(IfMatch::Exactly(_)));
        if !retries_conflict && version.as_ref() != Some(&found) {
            return Err(Error::precondition_failed(table, patch.key()));
        }
        let operation = self.merge_operation(table, id, patch, read, found).await?;
        Ok(Prepared {
            operation,
            retries_conflict,
        })
    }

    /// Reads what a merge needs: the header, or the whole entity if the patch or the entity needs encryption.
    async fn read_for(
        &self,
        table: &TableName,
        id: &str,
        patch: &Entity,
    ) -> Result<Option<Entity>> {
        let encrypts = patch.properties().iter().any(|p| p.is_encrypted());
        let legacy = self.shared.legacy.as_ref().is_some_and(|l| l.reads(id));
        let header =
            Select::new(std::iter::once(HEADER).chain(METADATA.into_iter().filter(|_| legacy)));
        let select = (!encrypts).then_some(&header);
        let read = self.fetch(table, patch.key(), select).await?;
        match &read {
            // Legacy entities are replaced completely, which needs all of their properties.
            Some(found) if !encrypts && is_v1(&self.decryptor(table, None).stored(found)?) => {
                self.fetch(table, patch.key(), None).await
            }
            _ => Ok(read),
        }
    }

    /// The write that has the effect of the merge on the entity that was read.
    async fn merge_operation(
        &self,
        table: &TableName,
        id: &str,
        mut patch: Entity,
        read: Entity,
        version: IfMatch,
    ) -> Result<Operation> {
        let decryptor = self.decryptor(table, None);
        let stored = decryptor.stored(&read)?;
        check_stays_encrypted(&stored, &patch)?;
        let encrypts = patch.properties().iter().any(|p| p.is_encrypted());
        let replaces = is_v1(&stored);
        // The patch touches no encrypted property, so the header stays right. The ETag of the read still guards it: otherwise another
        // writer could encrypt one of these names between read and write.
        if !encrypts && !replaces {
            return Ok(Operation::Merge(patch, version));
        }
        let read = decryptor
            .decrypt_as(read, stored)
            .await
            .map_err(Failure::into_error)?;
        let all = read.into_parts().1;
        *patch.properties_mut() = properties_to_send(all, patch.properties(), replaces);
        let operation = if replaces {
            Operation::Replace(patch, version)
        } else {
            Operation::Merge(patch, version)
        };
        self.encrypt_checked(id, operation).await
    }
}

fn is_v1(stored: &StoredForm) -> bool {
    matches!(stored, StoredForm::V1(_))
}

/// Returns the properties to send: the patch over the encrypted properties, or over all properties.
fn properties_to_send(mut all: Properties, patch: &Properties, replaces: bool) -> Properties {
    if !replaces {
        // The new header replaces the old list, so it must list every encrypted property of the entity, not only those of the patch.
        // Plaintext properties stay as the service has them.
        all.retain(|p| p.is_encrypted());
    }
    all.merge(patch);
    all
}

/// Refuses plaintext for an encrypted property: it would expose the value and make the entity unreadable.
fn check_stays_encrypted(stored: &StoredForm, patch: &Entity) -> Result<()> {
    let StoredForm::V2(header) = stored else {
        return Ok(());
    };
    let plain = patch
        .properties()
        .iter()
        .find(|p| !p.is_encrypted() && header.find(p.name()).is_some());
    match plain {
        None => Ok(()),
        Some(p) => Err(Error::invalid_declaration(format!(
            "the merge writes '{}' of {} in plaintext, but the stored property is encrypted; mark the property",
            p.name(),
            patch.key()
        ))),
    }
}
