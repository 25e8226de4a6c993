use crate::model::{ETag, Entity, Ticks};
use crate::store::{Error, Result};
use crate::typed::{FromEntity, TableEntity};

/// Reads an entity of an older schema version as its own type and converts it.
///
/// `system` gives the new value the ETag and timestamp of the entity: a conversion need not carry
/// them.
///
/// # Errors
/// The old type cannot read it, or the conversion changed its key: saving it would leave the old
/// row behind.
pub fn upgrade<Old, New>(
    entity: Entity,
    system: impl FnOnce(&mut New, Option<ETag>, Option<Ticks>),
) -> Result<New>
where
    Old: FromEntity + Into<New>,
    New: TableEntity,
{
    let (key, etag, timestamp) = (entity.key().clone(), entity.etag().cloned(), entity.timestamp());
    let mut new = Old::from_entity(entity)?.into();
    let new_key = new.entity_key()?.into_key();
    if new_key != key {
        let (name, expected) =
            (New::SCHEMA.rust_name, "a conversion from the previous version that keeps the key");
        return Err(Error::decode(name, key, "RowKey", expected, new_key.to_string()));
    }
    system(&mut new, etag, timestamp);
    Ok(new)
}
