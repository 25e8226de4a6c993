use super::{PropertySchema, Schema, Spread};
use crate::manifest::{Expiries, IndexDefinition};

/// What a type requires of its table: the store, the handle and the other programs that write it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirements {
    /// The schemas of the entities that the type is read from: one for an entity or a projection of it, several for an
    /// enum, none for a type that is read from any entity.
    pub schemas: Vec<&'static Schema>,
    /// The properties that are stored encrypted. The store of the table must encrypt them.
    pub encrypted: Vec<&'static str>,
    /// The properties that are stored in plaintext. No rule of the store may encrypt them.
    pub unencrypted: Vec<&'static str>,
    /// The properties whose values may be in blobs. Only a handle for large entities accepts such a type.
    pub large: Vec<&'static str>,
    /// The buckets of a spread type. Only a handle for spread tables accepts such a type.
    pub spread: Option<Spread>,
    /// Whether the properties of an entity may be in several rows. Only a handle for wide entities accepts such a type.
    pub wide: bool,
    /// The declared indexes. Writes must write their entries too.
    pub indexes: Vec<&'static IndexDefinition>,
}

impl Requirements {
    /// Returns the requirements of an entity with this schema.
    pub fn of(schema: &'static Schema) -> Self {
        let large = schema.properties.iter().filter(|p| p.large.is_some());
        Self {
            schemas: vec![schema],
            large: large.map(|p| p.name).collect(),
            spread: schema.spread,
            wide: schema.wide,
            indexes: schema.indexes.iter().collect(),
            ..Self::default()
        }
        .with_properties(schema.properties)
    }

    /// Returns the requirements of a type that has only these properties of the entity, none of which is large.
    #[must_use]
    pub fn projected(self, properties: &[PropertySchema]) -> Self {
        Self { large: Vec::new(), ..self.with_properties(properties) }
    }

    /// Returns the requirements of an enum over several types.
    pub fn all(types: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for one in types {
            all.schemas.extend(one.schemas);
            all.encrypted.extend(one.encrypted);
            all.unencrypted.extend(one.unencrypted);
            all.large.extend(one.large);
            all.spread = all.spread.or(one.spread);
            all.wide |= one.wide;
            all.indexes.extend(one.indexes);
        }
        all
    }

    /// Returns the types that expire.
    pub fn expiries(&self) -> Expiries {
        let expiry = |schema: &&'static Schema| Some((schema.entity_type(), schema.expiry.clone()?));
        Expiries::new(self.schemas.iter().filter_map(expiry))
    }

    /// Returns the properties with the times of expiry and deletion.
    pub fn times(&self) -> Vec<&str> {
        let expiries = self.schemas.iter().filter_map(|schema| schema.expiry.as_ref());
        expiries.flat_map(|expiry| expiry.names().map(|name| &**name)).collect()
    }

    fn with_properties(self, properties: &[PropertySchema]) -> Self {
        let names = |encrypted| properties.iter().filter(move |p| p.encrypted == encrypted).map(|p| p.name);
        Self { encrypted: names(true).collect(), unencrypted: names(false).collect(), ..self }
    }
}
