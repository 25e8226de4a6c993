use std::fmt;

use super::packed::Raw;
use crate::model::ValueRef;

/// A property in its [`Properties`](super::Properties).
#[derive(Clone, Copy, PartialEq)]
pub struct PropertyRef<'a> {
    pub(super) name: &'a str,
    pub(super) value: ValueRef<'a>,
    pub(super) encrypted: bool,
}

impl<'a> PropertyRef<'a> {
    /// Returns the name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the value.
    pub const fn value(&self) -> ValueRef<'a> {
        self.value
    }

    /// Whether the property must be stored encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.encrypted
    }
}

impl fmt::Debug for PropertyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("PropertyRef");
        out.field("name", &self.name);
        if self.encrypted {
            out.field("value", &"<to encrypt>").finish()
        } else {
            out.field("value", &self.value).finish()
        }
    }
}

/// An iterator over properties; see [`Properties::iter`](super::Properties::iter).
#[derive(Clone)]
pub struct PropertiesIter<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Iterator for PropertiesIter<'a> {
    type Item = PropertyRef<'a>;

    fn next(&mut self) -> Option<PropertyRef<'a>> {
        Raw::split(&mut self.rest).and_then(Raw::parse)
    }
}

impl fmt::Debug for PropertiesIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
