//! The rows that reads leave out: system rows, index entries, hidden entities.

use crate::manifest::Expiries;
use crate::model::{Entity, INDEX_NAME, Ticks};
use crate::query::{Page, Select};

/// The rows that a read does not return.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowFilter {
    /// Whether to remove the rows that only patterns use; see [`Key::is_system`](crate::model::Key::is_system).
    pub(crate) removes_system_rows: bool,
    /// Whether to remove index entries; see [`Entity::is_index_entry`].
    pub(crate) removes_index_entries: bool,
    /// The property that only rows of other types have. Rows with it are removed.
    pub(crate) other_type: Option<&'static str>,
    /// The types whose hidden rows to remove, and the time by which they are hidden.
    pub(crate) hidden: Option<(Expiries, Ticks)>,
    /// The properties that are read only for the filter, and must not be returned to the caller.
    pub(crate) added: Vec<Box<str>>,
}

impl RowFilter {
    /// Sets the properties that the filter needs beyond those that the caller reads.
    pub(crate) fn for_select(mut self, requested: Option<&Select>) -> Self {
        if let Some(requested) = requested {
            let missing = self.needed().filter(|name| !requested.contains(name));
            self.added = missing.map(Into::into).collect();
        }
        self
    }

    /// The properties that the filter needs.
    pub(crate) fn needed(&self) -> impl Iterator<Item = &str> {
        let index_name = self.removes_index_entries.then_some(INDEX_NAME);
        let hidden = self
            .hidden
            .iter()
            .flat_map(|(expiries, _)| expiries.names());
        index_name.into_iter().chain(self.other_type).chain(hidden)
    }

    /// Filters a page. Returns the number of removed rows.
    pub(crate) fn filter_page(&self, page: &mut Page<Entity>) -> usize {
        let before = page.items.len();
        // Most pages have no such rows, and the check is faster than `retain`.
        if page.items.iter().any(|entity| self.removes(entity)) {
            page.items.retain(|entity| !self.removes(entity));
        }
        page.items
            .iter_mut()
            .for_each(|entity| self.remove_added(entity));
        before - page.items.len()
    }

    /// Returns the entity unless the filter removes it.
    pub(crate) fn filter(&self, mut entity: Entity) -> Option<Entity> {
        let removed = self.removes(&entity);
        self.remove_added(&mut entity);
        (!removed).then_some(entity)
    }

    /// Returns the properties to read: the caller's, and those that the filter needs.
    pub(crate) fn select(&self, requested: &Select) -> Select {
        if self.added.is_empty() {
            requested.clone()
        } else {
            requested.union(&self.added)
        }
    }

    /// Whether reads leave the row out.
    pub(crate) fn removes(&self, entity: &Entity) -> bool {
        (self.removes_system_rows && entity.key().is_system())
            || (self.removes_index_entries && entity.is_index_entry())
            || self
                .other_type
                .is_some_and(|name| entity.properties().find(name).is_some())
            || self.hides(entity)
    }

    /// Whether the row has expired or is deleted.
    pub(crate) fn hides(&self, entity: &Entity) -> bool {
        self.hidden
            .as_ref()
            .is_some_and(|(expiries, now)| expiries.hides(entity, *now))
    }

    fn remove_added(&self, entity: &mut Entity) {
        for name in &self.added {
            entity.properties_mut().remove(name);
        }
    }
}
