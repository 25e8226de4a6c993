//! When entities of a type expire, and when deleted ones are removed for good.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{EntityType, Text};
use crate::model::{Entity, TICKS_PER_DAY, Ticks, ValueRef};
use crate::query::Filter;

/// The expiry of an entity type: the properties with the times, as `#[expires]` and `#[deleted_at]` declare them.
///
/// A row is *hidden* if it has expired or has a time of deletion: reads leave it out. It is *due* if a sweep may remove it: it has expired, or its
/// deletion is longer ago than [`keep_days`](Self::keep_days). A property that is absent, or is not a time, has no effect.
///
/// ```
/// use std::time::Duration;
/// use table_core::manifest::Expiry;
/// use table_core::model::{Entity, Ticks};
/// let now = Ticks::now();
/// let expiry = Expiry { expires: Some("Expires".into()), ..Expiry::NEVER };
/// let session = Entity::new("ann", "1")?.with("Expires", now);
/// assert!(expiry.hides(&session, now) && expiry.is_due(&session, now));
/// assert!(!expiry.hides(&Entity::new("ann", "2")?, now));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Expiry {
    /// The property with the time at which an entity expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Text>,
    /// The property with the time at which an entity was deleted, to be restored or removed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Text>,
    /// The number of days for which a deleted entity is kept.
    #[serde(default)]
    pub keep_days: u32,
}

impl Expiry {
    /// No property: entities never expire.
    pub const NEVER: Self = Self {
        expires: None,
        deleted: None,
        keep_days: 0,
    };

    /// Whether reads leave a row out at this time: it has expired, or it was deleted.
    pub fn hides(&self, row: &Entity, now: Ticks) -> bool {
        self.has_expired(row, now) || self.is_deleted(row)
    }

    /// Whether a row was deleted softly.
    pub fn is_deleted(&self, row: &Entity) -> bool {
        time(row, self.deleted.as_ref()).is_some()
    }

    /// Whether a sweep may remove a row at this time: it has expired, or was deleted more than [`keep_days`](Self::keep_days) ago.
    pub fn is_due(&self, row: &Entity, now: Ticks) -> bool {
        let deleted = time(row, self.deleted.as_ref());
        self.has_expired(row, now)
            || deleted.is_some_and(|at| at.get() <= now.get().saturating_sub(self.kept_ticks()))
    }

    fn has_expired(&self, row: &Entity, now: Ticks) -> bool {
        time(row, self.expires.as_ref()).is_some_and(|at| at <= now)
    }

    fn kept_ticks(&self) -> i64 {
        i64::from(self.keep_days).saturating_mul(TICKS_PER_DAY)
    }

    /// Returns the names of the properties.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        self.expires.iter().chain(&self.deleted)
    }

    /// Returns the filter that selects the due rows at a service. `None` if no property is declared.
    pub fn due_filter(&self, now: Ticks) -> Option<Filter> {
        let expired = self.expires.as_ref().map(|name| Filter::le(name, now));
        let before = Ticks::new(now.get().saturating_sub(self.kept_ticks())).unwrap_or(Ticks::MIN);
        let deleted = self.deleted.as_ref().map(|name| Filter::le(name, before));
        match (expired, deleted) {
            (Some(expired), Some(deleted)) => Some(expired.or(deleted)),
            (one, other) => one.or(other),
        }
    }
}

/// Returns the time in a property of a row; `None` if the property is absent or not a time.
fn time(row: &Entity, name: Option<&Text>) -> Option<Ticks> {
    match row.get(name?)? {
        ValueRef::DateTime(at) => Some(at),
        _ => None,
    }
}

/// The expiry of the types that a handle reads. Handles of all layouts use it.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expiries(Option<Arc<[(EntityType, Expiry)]>>);

impl Expiries {
    /// Collects the types that expire.
    pub fn new(types: impl IntoIterator<Item = (EntityType, Expiry)>) -> Self {
        let types: Arc<[_]> = types.into_iter().collect();
        Self(Some(types).filter(|types| !types.is_empty()))
    }

    /// Whether no type expires.
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether reads leave a row out.
    pub fn hides(&self, row: &Entity, now: Ticks) -> bool {
        self.of(row).any(|expiry| expiry.hides(row, now))
    }

    /// Whether a writer or a sweep may remove a row.
    pub fn is_due(&self, row: &Entity, now: Ticks) -> bool {
        self.of(row).any(|expiry| expiry.is_due(row, now))
    }

    /// Returns the names of the properties that [`hides`](Self::hides) and [`is_due`](Self::is_due) read, with discriminators.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.types().flat_map(|(entity, expiry)| {
            let own = expiry.names().map(|name| &**name);
            own.chain(entity.discriminator.property())
        })
    }

    fn types(&self) -> impl Iterator<Item = &(EntityType, Expiry)> {
        self.0.iter().flat_map(|types| types.iter())
    }

    /// Iterates over the expiries of the types that a row may have.
    fn of<'e>(&'e self, row: &'e Entity) -> impl Iterator<Item = &'e Expiry> {
        self.types()
            .filter(|(entity, _)| entity.admits(row))
            .map(|(_, expiry)| expiry)
    }
}
