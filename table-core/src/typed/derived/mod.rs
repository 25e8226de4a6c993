//! Functions for the code that the derive macros generate. Not public API: they may change with any version.

mod check;
mod decode;
mod definition;
mod encode;
mod in_order;
mod resolve;
mod transform;

pub(super) use check::NamePieces;
pub use check::{
    Projected, are_distinct, are_parts_free, avoids, can_be_large, can_be_split, can_be_summed,
    has_extremes, is_distinct_from, joined, prefixed, prefixed_bytes, prefixed_names, projected,
    same_type,
};
pub use decode::Slots;
pub(super) use decode::marks;
pub use definition::{encoding, key_encoding, literal, part, push_entry_key, reversed, text};
pub use encode::{Encoder, debug_patch};
pub use in_order::InOrder;
pub use resolve::{
    check_projected, filter_all, has_discriminator, is_a, lost_value, no_number, no_text,
    no_variant, number_of, select, select_all, text_of, upgrade,
};
pub use transform::{
    Day, ExpiryTime, ListElement, TextPart, TimePart, date, descending, hour, lower, prefix,
};

pub use super::index::EntriesBuilder;
pub use super::row_prefix::{PrefixBuilder, PrefixOf};

use crate::model::{Entity, Key};
use crate::store::Result;

/// Decodes the key fields of a type, for the type and its projections.
pub trait KeyFields {
    /// A struct with the key fields.
    type Fields;

    /// Decodes the fields from a key. The error has a text only with `described`.
    ///
    /// # Errors
    /// Fails if the key does not fit the templates.
    fn parse_key(key: &Key, described: bool) -> Result<Self::Fields>;

    /// Decodes the fields from a key.
    ///
    /// # Errors
    /// Fails if the key does not fit the templates.
    fn key_fields(key: &Key) -> Result<Self::Fields> {
        Self::parse_key(key, true)
    }

    /// Decodes the fields from a key; `None` if the key does not fit the templates.
    fn fitting_key_fields(key: &Key) -> Option<Self::Fields> {
        Self::parse_key(key, false).ok()
    }
}

/// A struct whose fields are properties of an entity: `#[entity(flatten)]`. Derive it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a group of properties",
    note = "derive `PropertyGroup` for it, to flatten it into an entity"
)]
pub trait PropertyGroup: Sized + Send + Sync + 'static {
    /// The properties, in the order in which they are written.
    const PROPERTIES: &'static [crate::typed::PropertySchema];

    /// Appends the properties.
    ///
    /// # Errors
    /// Fails if a value cannot be stored.
    #[doc(hidden)]
    fn write(&self, encoder: &mut Encoder) -> Result<()>;

    /// Reads the properties from an entity. `owner` is the name of the type for errors, `prefix` the text in front of the names.
    ///
    /// # Errors
    /// Fails if a property is missing or does not fit.
    #[doc(hidden)]
    fn read(entity: &Entity, owner: &'static str, prefix: &str) -> Result<Self>;
}
