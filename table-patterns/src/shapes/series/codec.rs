use serde::Serialize;
use serde::de::DeserializeOwned;
use table_core::model::{EdmType, Entity, Properties, ValueError};
use table_core::store::limits::{BINARY_BYTES, STRING_UNITS};
use table_core::store::{Error, Result};
use table_core::typed::{Codec, Json, Plain, Property, PropertyGroup, PropertySink};

/// How the value of a slot is stored in its row.
///
/// | codec | values |
/// |---|---|
/// | [`Plain`] | numbers, booleans, times, texts: any `Property` but an `Option` |
/// | [`Grouped`] | a small struct that derives `PropertyGroup`: a property per field, named slot + field |
/// | [`Json`] | anything with a JSON form, as one text |
///
/// There is no value for "absent": a slot that is not set is missing, and a merge cannot clear one.
pub trait SlotCodec<V>: Send + Sync + 'static {
    /// The properties of a slot: their names behind the slot's.
    fn suffixes() -> Vec<&'static str>;

    /// Those of the [`suffixes`](Self::suffixes) whose properties must be encrypted.
    fn encrypted() -> Vec<&'static str> {
        Vec::new()
    }

    /// The bytes of the largest value in a store.
    fn max_bytes() -> usize;

    /// Appends the value of a slot.
    ///
    /// # Errors
    /// The value cannot be stored.
    fn write(slot: &str, value: &V, row: &mut Properties) -> Result<()>;

    /// The value of a slot in its row.
    ///
    /// # Errors
    /// What is stored does not fit the type.
    fn read(slot: &str, row: &Entity) -> Result<Option<V>>;
}

impl<V: Property> SlotCodec<V> for Plain {
    fn suffixes() -> Vec<&'static str> {
        const { assert!(!V::OPTIONAL, "a slot that is not set is missing: take the type without `Option`") };
        vec![""]
    }

    fn max_bytes() -> usize {
        largest(V::TYPE)
    }

    fn write(slot: &str, value: &V, row: &mut Properties) -> Result<()> {
        value.write(PropertySink::new(row, slot, false)).map_err(|e| refused(slot, &e))
    }

    fn read(slot: &str, row: &Entity) -> Result<Option<V>> {
        row.get(slot).map(V::read).transpose().map_err(|e| misfit(slot, row, &e))
    }
}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> SlotCodec<V> for Json {
    fn suffixes() -> Vec<&'static str> {
        vec![""]
    }

    fn max_bytes() -> usize {
        largest(EdmType::String)
    }

    fn write(slot: &str, value: &V, row: &mut Properties) -> Result<()> {
        let before = row.as_packed().len();
        <Self as Codec<V>>::write(value, PropertySink::new(row, slot, false))
            .map_err(|e| refused(slot, &e))?;
        if row.as_packed().len() == before {
            return Err(Error::invalid_value(slot, "`null` cannot be merged; `clear` the slot"));
        }
        Ok(())
    }

    fn read(slot: &str, row: &Entity) -> Result<Option<V>> {
        row.get(slot).map(<Self as Codec<V>>::read).transpose().map_err(|e| misfit(slot, row, &e))
    }
}

/// Stores a struct as one property per field: `H07Count`, `H07Mean`.
///
/// Every field is always written, so that a merge leaves nothing of an earlier value: a struct with an
/// `Option` does not compile; store it as [`Json`].
#[derive(Clone, Copy, Debug)]
pub struct Grouped;

impl<V: PropertyGroup> SlotCodec<V> for Grouped {
    fn suffixes() -> Vec<&'static str> {
        const { assert!(all_present::<V>(), "a merge cannot clear an `Option`: store the struct as `Json`") };
        V::PROPERTIES.iter().map(|p| p.name).collect()
    }

    fn encrypted() -> Vec<&'static str> {
        V::PROPERTIES.iter().filter(|p| p.encrypted).map(|p| p.name).collect()
    }

    fn max_bytes() -> usize {
        V::PROPERTIES.iter().map(|p| largest(p.edm_type)).sum()
    }

    fn write(slot: &str, value: &V, row: &mut Properties) -> Result<()> {
        for p in &table_core::typed::Record::to_properties(value)? {
            row.push(&format!("{slot}{}", p.name()), p.value(), p.is_encrypted());
        }
        Ok(())
    }

    fn read(slot: &str, row: &Entity) -> Result<Option<V>> {
        let mut fields = Properties::new();
        for suffix in Self::suffixes_of::<V>() {
            if let Some(p) = row.properties().find(&format!("{slot}{suffix}")) {
                fields.push(suffix, p.value(), p.is_encrypted());
            }
        }
        if fields.is_empty() {
            return Ok(None);
        }
        V::read(&Entity::from_parts(row.key().clone(), fields), std::any::type_name::<V>()).map(Some)
    }
}

impl Grouped {
    fn suffixes_of<V: PropertyGroup>() -> impl Iterator<Item = &'static str> {
        V::PROPERTIES.iter().map(|p| p.name)
    }
}

const fn all_present<V: PropertyGroup>() -> bool {
    let mut i = 0;
    while i < V::PROPERTIES.len() {
        if V::PROPERTIES[i].optional {
            return false;
        }
        i += 1;
    }
    true
}

/// The bytes of the largest value of a type, as the service counts them.
const fn largest(edm: EdmType) -> usize {
    match edm {
        EdmType::String => 4 + 2 * STRING_UNITS,
        EdmType::Binary => 4 + BINARY_BYTES,
        _ => 16,
    }
}

fn refused(slot: &str, error: &ValueError) -> Error {
    Error::invalid_value(slot, format!("expected {}, found {}", error.expected(), error.found()))
}

fn misfit(slot: &str, row: &Entity, error: &ValueError) -> Error {
    Error::decode("data series", row.key(), slot, error.expected(), error.found())
}
