//! Key parts: values as text that sorts and can be parsed again.
//!
//! `docs/key-encoding.md` lists every encoding. A template such as `"{department}_{id:06}"` describes a key;
//! the derive macro checks it, [`KeyBuilder`] writes such a key and [`KeyParser`] parses it.

mod builder;
mod double;
mod escape;
mod hour;
mod number;
mod parser;
mod part_type;
mod text;
mod time;
mod writer;

pub use std::cmp::Reverse;

pub use builder::{KeyBuilder, PartFormat};
pub use hour::Hour;
pub use number::ReverseKeyPart;
pub use parser::KeyParser;
pub use part_type::KeyPartType;
pub use text::TextKeyPart;
pub use writer::{KeyText, KeyWriter};

use super::ValueError;

/// A value that can be part of a PartitionKey or RowKey.
///
/// Derive it for unit enums (text) and for newtypes of a key part. Encodings are canonical: `decode` accepts
/// exactly the texts that `encode` writes, so a key and its parts always agree.
///
/// ```
/// use table_core::model::{KeyPart, KeyText, KeyWriter, ValueError};
///
/// /// A grid square, three letters and digits wide.
/// struct Square([char; 3]);
///
/// impl KeyPart for Square {
///     const WIDTH: Option<usize> = Some(3);
///     const ENCODING: &'static str = "grid square";
///
///     fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
///         out.text(&self.0.iter().collect::<String>());
///         Ok(())
///     }
///
///     fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
///         let text = text.text()?;
///         let chars: Vec<char> = text.chars().collect();
///         chars.try_into().map(Self).map_err(|_| ValueError::new("3 characters", text))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    label = "not a key part",
    note = "integers, `f64`, `bool`, `String`, `Uuid`, `NaiveDate`, times and `Reverse` of numbers and times can; \
            derive `KeyPart` for a newtype or a unit enum",
    note = "an `Option` cannot: every entity has its whole key"
)]
pub trait KeyPart: Sized {
    /// The number of ASCII characters of every value; `None` if it varies.
    const WIDTH: Option<usize>;
    /// Whether a template may set the width: `{id:06}`.
    const PADS: bool = false;
    /// The library's encoding of the text, or [`KeyPartType::Custom`] for the type's own encoding. An index with a
    /// custom part in its keys is *opaque*: only programs that have the type can maintain it.
    const PART_TYPE: KeyPartType = KeyPartType::Custom;
    /// Whether the encoding is that of [`PART_TYPE`](Self::PART_TYPE) in descending order. True for
    /// [`Reverse`].
    const REVERSED: bool = false;
    /// The name of a custom encoding. The name is part of an index definition, so that a changed encoding is
    /// detected: choose a new name whenever the output of `encode` changes.
    const ENCODING: &'static str = "custom";

    /// Writes the value.
    ///
    /// # Errors
    /// Fails if the value does not fit the width or the range of the encoding.
    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError>;

    /// Parses the value.
    ///
    /// # Errors
    /// Fails if the text is not the encoding of a value.
    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError>;
}

#[cfg(test)]
mod tests;
