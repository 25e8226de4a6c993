use std::borrow::Cow;
use std::sync::Arc;

use uuid::Uuid;

use super::{KeyPart, KeyPartType, KeyText, KeyWriter};
use crate::model::ValueError;

/// A key part that is text, so that queries by prefix are possible.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not text, so its key part has no prefixes",
    note = "pass the whole value, or end the prefix before this part"
)]
pub trait TextKeyPart: KeyPart {}

macro_rules! text {
    ($($text:ty),*) => {$(
        impl KeyPart for $text {
            const WIDTH: Option<usize> = None;
            const PART_TYPE: KeyPartType = KeyPartType::Text;

            fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
                out.text(self);
                Ok(())
            }

            #[inline]
            fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
                text.text().map(Into::into)
            }
        }

        impl TextKeyPart for $text {}
    )*};
}

text!(String, Box<str>, Arc<str>, Cow<'static, str>);

impl KeyPart for Uuid {
    const WIDTH: Option<usize> = Some(uuid::fmt::Hyphenated::LENGTH);
    const PART_TYPE: KeyPartType = KeyPartType::Uuid;

    fn encode(&self, out: &mut KeyWriter) -> Result<(), ValueError> {
        out.text(self.hyphenated().encode_lower(&mut Self::encode_buffer()));
        Ok(())
    }

    fn decode(text: &KeyText<'_>) -> Result<Self, ValueError> {
        let wrong = || text.expected("a UUID in lower case with hyphens");
        let uuid = Self::try_parse(text.as_str()).map_err(|_| wrong())?;
        let canonical = uuid.hyphenated().encode_lower(&mut Self::encode_buffer()) == text.as_str();
        canonical.then_some(uuid).ok_or_else(wrong)
    }
}
