use crate::model::Raw;
use crate::model::{EdmType, Entity, ValueError, ValueRef, split_value, tag};

/// Decodes properties that stand in the order in which a type writes them, which is the usual case: each is
/// found by one comparison, its name and type being known when this is compiled.
///
/// Gives up, by `None`, on whatever else it meets. [`Slots`](super::Slots) then decodes the entity or
/// says what is wrong with it.
#[derive(Debug)]
pub struct InOrder<'a> {
    rest: &'a [u8],
}

impl<'a> InOrder<'a> {
    /// Starts at the first property.
    #[inline]
    pub fn new(entity: &'a Entity) -> Self {
        Self { rest: entity.properties().as_packed() }
    }

    /// Reads the next property if it has this name, which is preceded by its length; otherwise it is absent.
    #[inline(always)]
    pub fn get<T, const ENCRYPT: bool, const N: usize>(
        &mut self,
        name: &[u8; N],
        edm_type: EdmType,
        read: impl FnOnce(ValueRef<'a>) -> Result<T, ValueError>,
        missing: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        let Some((found, value)) = self.rest.split_first() else { return missing() };
        let Some((found_name, value)) = value.split_first_chunk() else { return missing() };
        if found_name != name {
            return missing();
        }
        if *found != tag(edm_type, ENCRYPT) {
            return None;
        }
        let (value, rest) = split_value(edm_type, value)?;
        self.rest = rest;
        read(value).ok()
    }

    /// Whether the next property is this text.
    #[inline]
    pub fn is_text<const N: usize>(&mut self, name: &[u8; N], text: &str) -> Option<()> {
        let found = self.get::<_, false, N>(name, EdmType::String, Ok, || None)?;
        (found == ValueRef::String(text)).then_some(())
    }

    /// Whether the next property is this schema version.
    #[inline]
    pub fn is_version<const N: usize>(&mut self, name: &[u8; N], version: u32) -> Option<()> {
        let found = self.get::<_, false, N>(name, EdmType::Int32, Ok, || None)?;
        (found == ValueRef::Int32(version.cast_signed())).then_some(())
    }

    /// Ends. What is left must be none of the type's properties: one of them would stand out of order.
    #[inline]
    pub fn finish(self, names: &[&str]) -> Option<()> {
        if self.rest.is_empty() { Some(()) } else { only_others(self.rest, names) }
    }
}

fn only_others(mut rest: &[u8], names: &[&str]) -> Option<()> {
    while !rest.is_empty() {
        let raw = Raw::split(&mut rest)?;
        if names.iter().any(|name| name.as_bytes() == raw.name) {
            return None;
        }
    }
    Some(())
}
