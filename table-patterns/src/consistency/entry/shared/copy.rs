//! Properties copied into another entity. The target entity is read and written whole, under its ETag.

use table_core::manifest::Text;
use table_core::model::{Entity, Key, Properties, ValueRef, split_entry_id};
use table_core::store::{Operation, Result};

use super::{Merge, Prepared, SharedRows, held_by, key_collision};
use crate::entry::{Entry, Shape};

/// The property with the table of the owner, in lower case, in copies in another table.
const OWNER_TABLE: &str = "OwnerTable";

/// The names of the properties that an index writes into an entity.
pub(crate) fn copied_names(prefix: &str, fields: &[Text]) -> Vec<String> {
    let own = [Entry::OWNER_PARTITION, Entry::OWNER_ROW, OWNER_TABLE];
    let fields = fields.iter().map(|field| &**field).chain(own);
    fields.map(|field| format!("{prefix}{field}")).collect()
}

/// Removes the properties that copy indexes write.
pub(crate) fn without_copies(properties: &mut Properties, copied: &[String]) {
    if !copied.is_empty() {
        properties.retain(|p| !copied.iter().any(|name| name == p.name()));
    }
}

/// Prepares the copies into an entity under its ETag; no operation if the entity does not exist. 1 request.
pub(crate) async fn prepare(rows: SharedRows<'_>, merge: &Merge) -> Result<Prepared> {
    let Some(target) = rows.store.get(&merge.at.table, &merge.at.key, None).await? else {
        let without_target = merge.each().any(|merge| !merge.put.is_empty());
        return Ok(Prepared {
            without_target,
            ..Prepared::default()
        });
    };
    let etag = target.version()?;
    let mut after = Entity::from_parts(target.key().clone(), target.properties().clone());
    apply(&mut after, merge)?;
    Ok(match after.properties() == target.properties() {
        true => Prepared::nothing(&merge.at.key, Some(etag)),
        false => Prepared::one(Operation::Replace(after, etag)),
    })
}

/// Copies into an entity, or removes the copies of a deleted entity.
pub(crate) fn apply(target: &mut Entity, merge: &Merge) -> Result<()> {
    merge.each().try_for_each(|merge| match &merge.shape {
        Shape::Copy { prefix, fields } => apply_one(target, merge, prefix, fields),
        _ => Ok(()),
    })
}

fn apply_one(target: &mut Entity, merge: &Merge, prefix: &str, fields: &[Text]) -> Result<()> {
    let mut owner = owner(target, prefix, &merge.index);
    if matches!(&owner, CopyOwner::Own(key) if merge.gone.contains(key)) {
        without_copies(target.properties_mut(), &copied_names(prefix, fields));
        owner = CopyOwner::None;
    }
    for entry in &merge.put {
        // The properties of one entity fit into a target, so a second one is a collision of keys.
        match owner {
            CopyOwner::Own(other) if other != entry.owner => {
                return Err(held_by(&merge.index, &merge.at.key, &other));
            }
            CopyOwner::Foreign => {
                return Err(key_collision(&merge.index, &merge.at.key, &merge.at.key));
            }
            CopyOwner::Own(_) | CopyOwner::None => owner = CopyOwner::Own(entry.owner.clone()),
        }
        without_copies(target.properties_mut(), &copied_names(prefix, fields));
        write(target.properties_mut(), entry, prefix);
    }
    Ok(())
}

fn write(into: &mut Properties, entry: &Entry, prefix: &str) {
    for p in entry.properties.iter() {
        into.put(
            &format!("{prefix}{}", p.name()),
            p.value(),
            p.is_encrypted(),
        );
    }
    into.set(
        &format!("{prefix}{}", Entry::OWNER_PARTITION),
        entry.owner.partition(),
    );
    into.set(&format!("{prefix}{}", Entry::OWNER_ROW), entry.owner.row());
    if let (_, Some(source)) = split_entry_id(&entry.index) {
        into.set(&format!("{prefix}{OWNER_TABLE}"), source);
    }
}

/// Whose properties are copied into a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyOwner {
    /// Nobody's.
    None,
    /// Properties of this entity of the index's table.
    Own(Key),
    /// Properties of an entity of another table: an index of that table has the same prefix.
    Foreign,
}

impl CopyOwner {
    /// The entity of the index's table.
    pub(crate) fn own(self) -> Option<Key> {
        match self {
            Self::Own(key) => Some(key),
            Self::None | Self::Foreign => None,
        }
    }
}

/// Whose properties are copied into a target, as the index with this [id in rows](split_entry_id) sees it.
pub(crate) fn owner(target: &Entity, prefix: &str, index: &str) -> CopyOwner {
    let text = |name: &str| match target.get(&format!("{prefix}{name}")) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    };
    let key = match (text(Entry::OWNER_PARTITION), text(Entry::OWNER_ROW)) {
        (Some(partition), Some(row)) => Key::new(partition, row).ok(),
        _ => None,
    };
    match key {
        None => CopyOwner::None,
        Some(key) if text(OWNER_TABLE) == split_entry_id(index).1 => CopyOwner::Own(key),
        Some(_) => CopyOwner::Foreign,
    }
}

/// Whether a target has the copies of an entry.
pub(crate) fn agrees(target: &Entity, entry: &Entry, prefix: &str, fields: &[Text]) -> bool {
    let mut wanted = Properties::new();
    write(&mut wanted, entry, prefix);
    copied_names(prefix, fields)
        .iter()
        .all(|name| target.properties().find(name) == wanted.find(name))
}
