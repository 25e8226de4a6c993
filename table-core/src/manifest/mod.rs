//! What a table says of itself, as data: the definitions of its indexes and the types of its entities.
//!
//! An [`IndexDefinition`] is complete: where entries are, how their keys come from an entity, what they hold. Derived types,
//! dynamic indexes and the rows of a manifest have the same definition. [`IndexDefinition::entry_keys`] gives the keys of a
//! stored entity, byte for byte those that derived code gives, so that any program can keep an index whose definition it reads.
//!
//! `docs/manifest.md` describes the format: every word of a [`KeyTemplate`] and the JSON of a definition.

mod collide;
mod definition;
mod evaluate;
mod kinds;
mod layout;
mod lowercase;
mod part;
mod plain;
mod state;
mod stored;
mod stored_type;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod value;

use std::borrow::Cow;

pub use collide::can_collide;
pub use definition::{EntityType, IndexDefinition, IndexKeys};
pub use evaluate::Evaluator;
pub(crate) use evaluate::could_be_entity;
pub use kinds::{Discriminator, Overflow, Payload, Placement, Shape, Uniqueness};
pub use layout::Layout;
pub use lowercase::{LOWERCASE_UNICODE, lowercase};
pub use part::{PartEncoding, PartSource, TemplatePart, Transform};
pub use plain::Touched;
pub use state::IndexState;
pub(crate) use stored::told_by;
pub use stored::{Manifest, StoredIndex, index_name};
pub use stored_type::StoredType;
pub use template::{KeySegment, KeyTemplate};
pub(crate) use value::first_chars;

/// The format of definitions that this library writes, and the newest that it can evaluate.
pub const FORMAT: u32 = 1;

/// Text of a definition: borrowed where a program has it, owned where it was read.
pub type Text = Cow<'static, str>;

/// Names of properties.
pub type Names = Cow<'static, [Text]>;

/// Names from anything that holds texts.
fn names<N: Into<Text>>(names: impl IntoIterator<Item = N>) -> Names {
    Cow::Owned(names.into_iter().map(Into::into).collect())
}

/// The text, in constants.
pub(crate) const fn str_of(text: &Text) -> &str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => text.as_str(),
    }
}
