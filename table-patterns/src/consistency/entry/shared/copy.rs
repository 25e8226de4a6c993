//! Properties copied into another entity. The target entity is read and written whole, under its ETag.

use table_core::manifest::Text;
use table_core::model::{Entity, Key, Properties, ValueRef};
use table_core::store::{Operation, Result};

use super::{Merge, Prepared, SharedRows, key_collision};
use crate::entry::{Entry, Shape};

/// The names of the properties that an index writes into an entity.
pub(crate) fn copied_names(prefix: &str, fields: &[Text]) -> Vec<String> {
    let own = [Entry::OWNER_PARTITION, Entry::OWNER_ROW];
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
        return Ok(Prepared { without_target, ..Prepared::default() });
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
    let mut owner = owner(target, prefix);
    if owner.as_ref().is_some_and(|owner| merge.gone.contains(owner)) {
        without_copies(target.properties_mut(), &copied_names(prefix, fields));
        owner = None;
    }
    for entry in &merge.put {
        // The properties of one entity fit into a target, so a second one is a collision of keys.
        if let Some(other) = owner.replace(entry.owner.clone()).filter(|other| *other != entry.owner) {
            return Err(key_collision(&merge.index, &merge.at.key, &other));
        }
        without_copies(target.properties_mut(), &copied_names(prefix, fields));
        write(target.properties_mut(), entry, prefix);
    }
    Ok(())
}

fn write(into: &mut Properties, entry: &Entry, prefix: &str) {
    for p in entry.properties.iter() {
        into.put(&format!("{prefix}{}", p.name()), p.value(), p.is_encrypted());
    }
    into.set(&format!("{prefix}{}", Entry::OWNER_PARTITION), entry.owner.partition());
    into.set(&format!("{prefix}{}", Entry::OWNER_ROW), entry.owner.row());
}

/// The key of the entity whose properties are copied into a target.
pub(crate) fn owner(target: &Entity, prefix: &str) -> Option<Key> {
    let text = |name: &str| match target.get(&format!("{prefix}{name}")) {
        Some(ValueRef::String(text)) => Some(text.to_owned()),
        _ => None,
    };
    Key::new(text(Entry::OWNER_PARTITION)?, text(Entry::OWNER_ROW)?).ok()
}

/// Whether a target has the copies of an entry.
pub(crate) fn agrees(target: &Entity, entry: &Entry, prefix: &str, fields: &[Text]) -> bool {
    let mut wanted = Properties::new();
    write(&mut wanted, entry, prefix);
    copied_names(prefix, fields).iter().all(|name| target.properties().find(name) == wanted.find(name))
}
