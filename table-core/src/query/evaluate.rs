use super::Filter;
use crate::model::{Entity, Key, Properties, Ticks};

impl Filter {
    /// Whether an entity matches, as the service would decide.
    pub fn matches(&self, entity: &Entity) -> bool {
        self.matches_parts(entity.key(), entity.timestamp(), entity.properties())
    }

    /// [`matches`](Self::matches) on the parts that a store has at hand.
    pub fn matches_parts(&self, _key: &Key, _timestamp: Option<Ticks>, _properties: &Properties) -> bool {
        true
    }
}
