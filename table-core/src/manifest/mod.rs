//! The manifest of a table: its index definitions and the layouts of its entity types, as data.
//!
//! An [`IndexDefinition`] is complete: it says where the entries are, how their keys are computed from an entity, and
//! which properties they contain. Derived types, dynamic indexes and manifest rows use the same definition.
//! [`IndexDefinition::entry_keys`] returns the same keys as derived code, byte for byte. So any program can maintain an
//! index whose definition it has read.
//!
//! `docs/manifest.md` describes the format: every word of a [`KeyTemplate`] and the JSON of a definition.

mod definition;
mod evaluate;
mod expiry;
mod explain;
mod kinds;
mod layout;
mod lowercase;
mod plain;
mod stored;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod value;

use std::borrow::Cow;

pub use definition::IndexState;
#[doc(hidden)]
pub use definition::can_collide;
pub use definition::{EntityType, IndexDefinition, IndexKeys};
pub use evaluate::Evaluator;
pub(crate) use evaluate::entity_key_error;
#[doc(hidden)]
pub use expiry::Expiries;
pub use expiry::Expiry;
#[doc(hidden)]
pub use explain::KnownType;
pub use kinds::{Discriminator, Overflow, Payload, Placement, Shape, Uniqueness};
pub use layout::Layout;
pub use lowercase::LOWERCASE_UNICODE;
#[doc(hidden)]
pub use lowercase::lowercase;
#[doc(hidden)]
pub use plain::WriteTarget;
pub(crate) use stored::consents_to;
#[doc(hidden)]
pub use stored::index_name;
pub use stored::{Consent, Manifest, RefusedRow, StoredIndex, StoredType};
pub use template::{KeySegment, KeyTemplate, PartEncoding, PartSource, TemplatePart, Transform};
pub(crate) use value::first_chars;

/// The format of definitions that this library writes, and the latest format that it can evaluate.
pub const FORMAT: i32 = 1;

/// A text in a definition: borrowed if it is a constant of the program, owned if it was read from a manifest.
pub type Text = Cow<'static, str>;

/// Names of properties.
pub type Names = Cow<'static, [Text]>;

/// Collects names.
fn names<N: Into<Text>>(names: impl IntoIterator<Item = N>) -> Names {
    Cow::Owned(names.into_iter().map(Into::into).collect())
}

/// Returns the text; usable in constant expressions.
pub(crate) const fn str_of(text: &Text) -> &str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => text.as_str(),
    }
}
