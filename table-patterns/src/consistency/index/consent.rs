//! The consents of other tables to the definitions of a table: `docs/manifest.md`.
//!
//! The pairing id is written first, then the consents, then the definitions. So a definition that its program has declared is in force
//! from its first moment, and a program that dies in between leaves nothing but a consent to a definition that is not there.

use std::collections::BTreeMap;

use table_core::manifest::{Consent, Manifest, StoredIndex};
use table_core::model::{IfMatch, Key, MANIFEST_PARTITION, PartitionKey, TableName};
use table_core::store::{Error, GroupTransaction, Operation, Result};
use uuid::Uuid;

use super::states::manifest::Loaded;
use super::states::set::IndexSet;

/// Attempts to write the pairing row while other programs write it.
const ROUNDS: usize = 8;

/// Gives the consents of the other tables to these definitions of the set's table. `loaded` is its manifest. 1 request for each other
/// table; 1 more if the table has no pairing id yet.
///
/// # Errors
/// Another table does not exist: a definition makes no table.
pub(super) async fn give(set: &IndexSet, loaded: &Loaded, indexes: &[StoredIndex]) -> Result<()> {
    let mut by_table: BTreeMap<&TableName, Vec<&StoredIndex>> = BTreeMap::new();
    for index in indexes {
        let leaves = index
            .table
            .as_ref()
            .filter(|other| !set.store().profile().is_same_table(other, set.table()));
        if let Some(other) = leaves {
            by_table.entry(other).or_default().push(index);
        }
    }
    if by_table.is_empty() {
        return Ok(());
    }
    let (store, profile) = (set.store(), set.store().profile());
    let pairing = pairing_of(set, &loaded.manifest).await?;
    for (other, indexes) in by_table {
        let mut group = GroupTransaction::new(PartitionKey::new(MANIFEST_PARTITION)?, profile);
        for index in indexes {
            let definition = index.definition_sha256().to_owned();
            let renewal = index.renewal;
            let consent = Consent {
                source: set.table().clone(),
                pairing,
                definition,
                renewal,
            };
            group.push(Operation::InsertOrReplace(consent.to_entity(profile)?))?;
        }
        store.transact(other, group).await?;
    }
    // The cache of the store rests on the consents that it has read.
    store.context().manifests().forget(set.table());
    Ok(())
}

/// The pairing id of the set's table, which is written if there is none.
async fn pairing_of(set: &IndexSet, manifest: &Manifest) -> Result<Uuid> {
    if let Some(id) = manifest.pairing() {
        return Ok(id);
    }
    let (store, table) = (set.store(), set.table());
    let mut damaged = manifest.pairing_etag();
    for _ in 0..ROUNDS {
        let id = Uuid::new_v4();
        let row = Manifest::pairing_row(id)?;
        let operation = match damaged {
            Some(etag) => Operation::Replace(row, IfMatch::from(&etag)),
            None => Operation::Insert(row),
        };
        match store.write(table, operation).await {
            // Another program has written the row: its id counts.
            Err(error) if error.is_conflict() => {}
            other => return other.map(|_| id),
        }
        let now = set.manifest().load().await?.manifest;
        if let Some(id) = now.pairing() {
            return Ok(id);
        }
        damaged = now.pairing_etag();
    }
    Err(Error::precondition_failed(table, "pairing"))
}

/// Brings a definition of the manifest into force: sets its state to delete-only, as that of a new definition, and gives the consent.
/// The state comes first: in any other one, programs would take the index for one that every earlier write has maintained. Row
/// and consent have an id of this act, so that a program which reads one before the act and the other after it sees no consent. Then the
/// index must be [built](super::IndexedEntities::build). `false` if another program has declared an index since the manifest was read.
/// 2 requests, and 1 more if the table has no pairing id.
pub(super) async fn bring_into_force(
    set: &IndexSet,
    loaded: &Loaded,
    index: &StoredIndex,
) -> Result<bool> {
    let mut index = index.clone();
    if !set
        .manifest()
        .renew(&loaded.table, &mut index, Uuid::new_v4())
        .await?
    {
        return Ok(false);
    }
    give(set, loaded, std::slice::from_ref(&index)).await?;
    drop(set.announce_change());
    set.refresh().await?;
    Ok(true)
}

/// A row of consent in the version that was read.
pub(super) struct GivenConsent {
    table: TableName,
    key: Key,
    version: IfMatch,
}

/// Reads the consent to an index whose entries are in another table. 1 request for such an index.
pub(super) async fn of_index(set: &IndexSet, index: &StoredIndex) -> Result<Option<GivenConsent>> {
    let Some(table) = &index.table else {
        return Ok(None);
    };
    let key = Consent::key_of(
        set.table(),
        index.definition_sha256(),
        set.store().profile(),
    )?;
    let row = match set.store().get(table, &key, None).await {
        Err(error) if error.is_table_not_found() => None,
        other => other?,
    };
    let version = row.as_ref().and_then(|row| row.etag()).map(IfMatch::from);
    Ok(version.map(|version| GivenConsent {
        table: table.clone(),
        key,
        version,
    }))
}

/// Takes the consent to a dropped definition back, in the version from before the definition was removed: a program that declares the
/// definition again gives the consent again, and keeps it. 1 request.
pub(super) async fn take_back(set: &IndexSet, consent: GivenConsent) -> Result<()> {
    let delete = Operation::Delete(consent.key, consent.version);
    match set.store().write(&consent.table, delete).await {
        Err(error)
            if error.is_conflict()
                || error.is_certainly_missing()
                || error.is_table_not_found() =>
        {
            Ok(())
        }
        other => other.map(drop),
    }
}
