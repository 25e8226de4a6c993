//! How the value of a slot is stored in properties.

use serde::Serialize;
use serde::de::DeserializeOwned;
use table_core::model::{EdmType, Entity, Properties, ValueError};
use table_core::store::limits::{BINARY_BYTES, STRING_UNITS};
use table_core::store::{Error, Result};
use table_core::typed::{Codec, Json, Plain, Property, PropertyGroup, PropertySink};

/// Stores the value of a slot as properties of its row.
///
/// | codec | values |
/// |---|---|
/// | [`Plain`] | numbers, booleans, times, strings: any `Property` except an `Option` |
/// | [`Grouped`] | a small struct that derives `PropertyGroup`: one property per field, named slot + field |
/// | [`Json`] | any value that serializes to JSON, as one string |
///
/// No value means "missing": a slot without a value has no property, and a merge cannot remove a property.
pub trait SlotCodec<V>: Send + Sync + 'static {
    /// The names of a slot's properties, without the slot's name in front.
    fn suffixes() -> Vec<&'static str>;

    /// The [`suffixes`](Self::suffixes) of properties that must be encrypted.
    fn encrypted() -> Vec<&'static str> {
        Vec::new()
    }

    /// An upper bound of the stored size of a value, without its property names, in bytes.
    fn max_bytes() -> usize;

    /// Adds the properties of a slot's value to a row.
    ///
    /// # Errors
    /// A value that cannot be stored.
    fn write(slot: &str, value: &V, row: &mut Properties) -> Result<()>;

    /// Reads the value of a slot from its row; `None` if the slot is missing.
    ///
    /// # Errors
    /// A stored value of another type.
    fn read(slot: &str, row: &Entity) -> Result<Option<V>>;
}

impl<V: Property> SlotCodec<V> for Plain {
    fn suffixes() -> Vec<&'static str> {
        const {
            assert!(
                !V::OPTIONAL,
                "a slot without a value is missing: use the type without `Option`"
            );
        };
        vec![""]
    }

    fn max_bytes() -> usize {
        max_size(V::TYPE)
    }

    fn write(slot: &str, value: &V, row: &mut Properties) -> Result<()> {
        value
            .write(PropertySink::new(row, slot, false))
            .map_err(|e| unstorable(slot, &e))
    }

    fn read(slot: &str, row: &Entity) -> Result<Option<V>> {
        row.get(slot)
            .map(V::read)
            .transpose()
            .map_err(|e| type_mismatch(slot, row, &e))
    }
}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> SlotCodec<V> for Json {
    fn suffixes() -> Vec<&'static str> {
        vec![""]
    }

    fn max_bytes() -> usize {
        max_size(EdmType::String)
    }

    fn write(slot: &str, value: &V, row: &mut Properties) -> Result<()> {
        let before = row.as_packed().len();
        <Self as Codec<V>>::write(value, PropertySink::new(row, slot, false))
            .map_err(|e| unstorable(slot, &e))?;
        // The codec writes `null` as no property, and a merge would then leave the old value.
        if row.as_packed().len() == before {
            return Err(Error::invalid_value(
                slot,
                "`null` cannot be merged: remove the value with `clear`",
            ));
        }
        Ok(())
    }

    fn read(slot: &str, row: &Entity) -> Result<Option<V>> {
        row.get(slot)
            .map(<Self as Codec<V>>::read)
            .transpose()
            .map_err(|e| type_mismatch(slot, row, &e))
    }
}

/// Stores a struct as one property per field: `H07Count`, `H07Mean`.
///
/// A merge must replace every field of the earlier value, so every field is always written. A struct with an `Option`
/// therefore does not compile; store it as [`Json`].
#[derive(Clone, Copy, Debug)]
pub struct Grouped;

impl<V: PropertyGroup> SlotCodec<V> for Grouped {
    fn suffixes() -> Vec<&'static str> {
        const {
            assert!(
                has_no_options::<V>(),
                "a merge cannot remove the property of an `Option`: store the struct as `Json`"
            );
        };
        V::PROPERTIES.iter().map(|p| p.name).collect()
    }

    fn encrypted() -> Vec<&'static str> {
        V::PROPERTIES
            .iter()
            .filter(|p| p.encrypted)
            .map(|p| p.name)
            .collect()
    }

    fn max_bytes() -> usize {
        V::PROPERTIES.iter().map(|p| max_size(p.edm_type)).sum()
    }

    fn write(slot: &str, value: &V, row: &mut Properties) -> Result<()> {
        for p in &table_core::typed::Record::to_properties(value)? {
            row.push(&format!("{slot}{}", p.name()), p.value(), p.is_encrypted());
        }
        Ok(())
    }

    fn read(slot: &str, row: &Entity) -> Result<Option<V>> {
        let mut fields = Properties::new();
        for suffix in <Self as SlotCodec<V>>::suffixes() {
            if let Some(p) = row.properties().find(&format!("{slot}{suffix}")) {
                fields.push(suffix, p.value(), p.is_encrypted());
            }
        }
        if fields.is_empty() {
            return Ok(None);
        }
        V::read(
            &Entity::from_parts(row.key().clone(), fields),
            std::any::type_name::<V>(),
            "",
        )
        .map(Some)
    }
}

/// A loop over indexes, because iterators do not run at compile time.
const fn has_no_options<V: PropertyGroup>() -> bool {
    let mut i = 0;
    while i < V::PROPERTIES.len() {
        if V::PROPERTIES[i].optional {
            return false;
        }
        i += 1;
    }
    true
}

/// An upper bound of the size of a value of a type as the service counts it, in bytes. Stored series depend on the number: do not change it.
const fn max_size(edm: EdmType) -> usize {
    match edm {
        EdmType::String => 4 + 2 * STRING_UNITS,
        EdmType::Binary => 4 + BINARY_BYTES,
        _ => 16,
    }
}

fn unstorable(slot: &str, error: &ValueError) -> Error {
    Error::invalid_value(
        slot,
        format!("expected {}, found {}", error.expected(), error.found()),
    )
}

fn type_mismatch(slot: &str, row: &Entity, error: &ValueError) -> Error {
    Error::decode(
        "data series",
        row.key(),
        slot,
        error.expected(),
        error.found(),
    )
}
