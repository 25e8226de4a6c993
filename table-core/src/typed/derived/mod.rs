//! What the derive macros generate calls to. Not for others: it may change with any version.

mod check;
mod decode;
mod definition;
mod encode;
mod in_order;
mod index;
mod resolve;
mod transform;
mod upgrade;

pub use check::{Projected, can_be_large, distinct, is_distinct_from, joined, projected, same_type};
pub use decode::Slots;
pub use definition::{encoding, key_encoding, literal, part, reversed, text};
pub use encode::{Encoder, debug_patch};
pub use in_order::InOrder;
pub use index::{indexes, push_entry_key};
pub use resolve::{
    check_projected, encrypted, filter_all, is_a, is_told, large, no_text, no_variant, select, select_all,
    unencrypted,
};
pub use transform::{Day, ListElement, TextPart, TimePart, date, descending, hour, lower, prefix};
pub use upgrade::upgrade;

pub use super::index::EntriesBuilder;
pub use super::prefix_builder::{PrefixBuilder, PrefixOf};

use crate::model::{Entity, Key};
use crate::store::Result;

/// The fields that a type's keys give, for the type itself and its projections.
pub trait KeyFields {
    /// A struct with a field for each.
    type Fields;

    /// Reads them.
    ///
    /// # Errors
    /// The key does not fit the templates.
    fn key_fields(key: &Key) -> Result<Self::Fields>;
}

/// Several properties of an entity, as a struct: `#[entity(flatten)]`. Derive it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a group of properties",
    note = "derive `PropertyGroup` for it, to flatten it into an entity"
)]
pub trait PropertyGroup: Sized + Send + Sync + 'static {
    /// The properties, in the order they are written.
    const PROPERTIES: &'static [crate::typed::PropertySchema];

    /// Appends the properties.
    ///
    /// # Errors
    /// A value cannot be stored.
    #[doc(hidden)]
    fn write(&self, encoder: &mut Encoder) -> Result<()>;

    /// Reads the properties out of an entity; `owner` is for messages.
    ///
    /// # Errors
    /// A property is missing or does not fit.
    #[doc(hidden)]
    fn read(entity: &Entity, owner: &'static str) -> Result<Self>;
}
