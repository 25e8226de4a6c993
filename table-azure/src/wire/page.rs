//! Answers with many items: entities of a query, names of tables.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use table_core::Result;
use table_core::model::{Entity, TableName};

use super::decode::{EntitySeed, Text, from_slice};

/// Reads the entities of a page.
///
/// # Errors
/// The bytes are not the JSON of a page, or a value is not of its annotated type.
pub fn decode_entities(json: &[u8]) -> Result<Vec<Entity>> {
    from_slice(json, Listing::<Entity>::default())
}

/// Reads the names of a page of tables.
///
/// # Errors
/// The bytes are not the JSON of such a page, or a name is not one of a table.
pub fn decode_table_names(json: &[u8]) -> Result<Vec<TableName>> {
    from_slice(json, Listing::<Named>::default())?.into_iter().map(|named| TableName::new(named.0)).collect()
}

/// `{"odata.metadata": …, "value": [item, …]}`.
struct Listing<T>(PhantomData<T>);

/// What a listing holds.
trait Item: Sized {
    /// The next item of the array; the one before it tells how much room it may need.
    fn next<'de, A: SeqAccess<'de>>(seq: &mut A, last: Option<&Self>) -> Result<Option<Self>, A::Error>;
}

impl Item for Entity {
    fn next<'de, A: SeqAccess<'de>>(seq: &mut A, last: Option<&Self>) -> Result<Option<Self>, A::Error> {
        let capacity = last.map_or(256, |entity| entity.properties().as_packed().len());
        seq.next_element_seed(EntitySeed { capacity })
    }
}

/// The text of `TableName` in an entry of a listing.
struct Named(String);

impl Item for Named {
    fn next<'de, A: SeqAccess<'de>>(seq: &mut A, _: Option<&Self>) -> Result<Option<Self>, A::Error> {
        seq.next_element_seed(NamedSeed)
    }
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Item> DeserializeSeed<'de> for Listing<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Item> Visitor<'de> for Listing<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the array `value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<T>, A::Error> {
        let mut items = None;
        while let Some(name) = map.next_key_seed(Text)? {
            if name == "value" {
                items = Some(map.next_value_seed(Items(PhantomData))?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        items.ok_or_else(|| serde::de::Error::missing_field("value"))
    }
}

struct Items<T>(PhantomData<T>);

impl<'de, T: Item> DeserializeSeed<'de> for Items<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Item> Visitor<'de> for Items<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = T::next(&mut seq, items.last())? {
            items.push(item);
        }
        Ok(items)
    }
}

struct NamedSeed;

impl<'de> DeserializeSeed<'de> for NamedSeed {
    type Value = Named;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Named, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NamedSeed {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the text `TableName`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named, A::Error> {
        let mut table = None;
        while let Some(name) = map.next_key_seed(Text)? {
            if name == "TableName" {
                table = Some(Named(map.next_value_seed(Text)?.into_owned()));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        table.ok_or_else(|| serde::de::Error::missing_field("TableName"))
    }
}
