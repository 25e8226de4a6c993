//! The mark of an entity that is being moved. It names the move, so that a writer of the entity gives the move up
//! first.
//!
//! A mark is two properties of the stored entity. Readers get the entity without these properties, and with the mark
//! in its ETag. Writes of the journal understand that ETag; any other write with it fails.

use table_core::model::{ETag, Entity, ValueRef};
use table_core::query::Filter;
use uuid::Uuid;

use crate::entry::row_properties::{MOVE_TO, MOVE_WRITE, without_mark};
use crate::rows::fresh_id;

/// How an ETag with a mark begins. It ends with a quote, so that it has the form of an ETag.
const PREFIX: &str = "W/\"moving-";

/// The id of one attempt to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(Uuid);

impl WriteId {
    pub(crate) fn fresh() -> Self {
        Self(fresh_id())
    }

    pub(crate) const fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }

    pub(crate) const fn uuid(self) -> Uuid {
        self.0
    }
}

impl std::fmt::Display for WriteId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// The move whose source an entity is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) write: WriteId,
    /// The partition of the target: it contains the journal row or the abort row of the move.
    pub(crate) partition: String,
}

impl Mark {
    /// The mark in the properties of a stored entity.
    pub(crate) fn of(entity: &Entity) -> Option<Self> {
        match (entity.get(MOVE_WRITE), entity.get(MOVE_TO)) {
            (Some(ValueRef::Guid(write)), Some(ValueRef::String(to))) => Some(Self {
                write: WriteId::from_uuid(write),
                partition: to.to_owned(),
            }),
            _ => None,
        }
    }

    /// The entity with this mark, which replaces any other mark.
    pub(crate) fn on(&self, entity: &Entity) -> Entity {
        entity
            .clone()
            .with(MOVE_WRITE, self.write.uuid())
            .with(MOVE_TO, self.partition.as_str())
    }

    /// A filter for entities with a mark.
    pub(crate) fn filter() -> Filter {
        // Every text is at least the empty one, so this means "has the property". A service that also returns
        // rows without the property does no harm: the sweep looks for the mark again.
        Filter::ge(MOVE_TO, "")
    }

    /// An ETag that contains the mark.
    fn in_version(&self, etag: &ETag) -> ETag {
        // As digits: a PartitionKey may have the separator, and characters that a header must not have; an ETag has quotes.
        let digits = |text: &str| {
            text.bytes()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        let (partition, etag) = (digits(&self.partition), digits(&etag.to_string()));
        ETag::from(
            format!(
                "{PREFIX}{}-{partition}-{etag}\"",
                self.write.uuid().simple()
            )
            .as_str(),
        )
    }

    /// The mark in an ETag, and the ETag of the stored entity.
    fn from_version(etag: &ETag) -> Option<(Self, ETag)> {
        // A number is the ETag of a local store, without a mark.
        if etag.version().is_some() {
            return None;
        }
        let text = etag.to_string();
        let mut parts = text.strip_prefix(PREFIX)?.strip_suffix('"')?.splitn(3, '-');
        let write = Uuid::try_parse(parts.next()?).ok()?;
        let mut text = || {
            let digits = parts.next()?;
            let byte = |n: usize| u8::from_str_radix(digits.get(n..n + 2)?, 16).ok();
            String::from_utf8(
                (0..digits.len())
                    .step_by(2)
                    .map(byte)
                    .collect::<Option<_>>()?,
            )
            .ok()
        };
        let (partition, etag) = (text()?, text()?);
        Some((
            Self {
                write: WriteId::from_uuid(write),
                partition,
            },
            ETag::from(&*etag),
        ))
    }
}

/// Whether an ETag contains a mark: the entity was being moved when it was read.
pub(crate) fn is_marked(version: &ETag) -> bool {
    Mark::from_version(version).is_some()
}

/// The entity as readers get it: the mark is in the ETag only.
pub(crate) fn as_read(entity: Entity) -> Entity {
    let (Some(mark), Some(etag)) = (Mark::of(&entity), entity.etag()) else {
        return entity;
    };
    let (etag, timestamp) = (mark.in_version(etag), entity.timestamp());
    without_mark(&entity)
        .into_owned()
        .with_system(Some(etag), timestamp)
}

/// The entity without its mark and with the ETag of the stored entity, and the mark. Accepts stored entities and
/// entities as readers get them.
pub(crate) fn separate_mark(entity: &Entity) -> Option<(Entity, Mark)> {
    if let Some(mark) = Mark::of(entity) {
        return Some((without_mark(entity).into_owned(), mark));
    }
    let (mark, etag) = Mark::from_version(entity.etag()?)?;
    Some((
        entity.clone().with_system(Some(etag), entity.timestamp()),
        mark,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::row_properties::is_mark_property;

    fn marked() -> (Entity, Mark) {
        let mark = Mark {
            write: WriteId::from_uuid(Uuid::from_u128(7)),
            partition: "a-b/ü".to_owned(),
        };
        let entity = Entity::new("p", "r").unwrap().with("Name", "ken");
        (
            mark.on(&entity)
                .with_system(Some(ETag::from("W/\"a-b\"")), None),
            mark,
        )
    }

    #[test]
    fn readers_get_the_mark_in_the_version_alone() {
        let (stored, mark) = marked();
        assert_eq!(Mark::of(&stored), Some(mark.clone()));
        let read = as_read(stored.clone());
        assert!(!read.properties().iter().any(|p| is_mark_property(p.name())));
        assert_eq!(read.get("Name"), Some(ValueRef::String("ken")));
        assert_ne!(read.etag(), stored.etag());
        assert_eq!(as_read(read.clone()), read);

        let expected = (without_mark(&stored).into_owned(), mark);
        assert_eq!(expected.0.etag(), stored.etag());
        assert_eq!(separate_mark(&stored), Some(expected.clone()));
        assert_eq!(separate_mark(&read), Some(expected));
    }

    #[test]
    fn versions_of_stores_are_no_marks() {
        for etag in [
            "W/\"datetime'2026-11-22'\"",
            "moving",
            "W/\"moving-\"",
            "W/\"moving-x-y-z\"",
            "",
        ] {
            let entity = Entity::new("p", "r")
                .unwrap()
                .with_system(Some(ETag::from(etag)), None);
            assert_eq!(separate_mark(&entity), None, "{etag}");
        }
        let number = Entity::new("p", "r")
            .unwrap()
            .with_system(Some(ETag::from_version(7)), None);
        assert_eq!(separate_mark(&number), None);
        assert_eq!(as_read(number.clone()), number);
    }

    /// The numeric ETags of local stores survive.
    #[test]
    fn local_versions_come_back() {
        let (stored, mark) = marked();
        let stored = stored.with_system(Some(ETag::from_version(7)), None);
        let (back, found) = separate_mark(&as_read(stored)).unwrap();
        assert_eq!(back.etag().and_then(ETag::version), Some(7));
        assert_eq!(found, mark);
    }
}
