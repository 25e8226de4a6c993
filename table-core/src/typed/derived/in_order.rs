use crate::model::{
    EdmType, Entity, PackBuffer, PropertyDictionary, Raw, ValueError, ValueRef, split_row_value, split_value,
    tag,
};

/// Decodes properties that stand in the order in which a type writes them, which is the usual case: each is
/// found by one comparison, its name and type being known when this is compiled. Rows with numbers in place of dictionary
/// are decoded as they are.
///
/// Gives up, by `None`, on whatever else it meets. [`Slots`](super::Slots) then decodes the entity or
/// says what is wrong with it.
#[derive(Debug)]
pub struct InOrder<'a> {
    rest: &'a [u8],
    /// What the numbers in the rest stand for, if there are numbers.
    dictionary: Option<&'a PropertyDictionary>,
}

impl<'a> InOrder<'a> {
    /// Starts at the first property.
    #[inline]
    pub fn new(entity: &'a Entity) -> Self {
        let (rest, dictionary) = entity.properties().raw_or_numbered();
        Self { rest, dictionary }
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
        let value = match self.dictionary {
            None => named(self.rest, name),
            Some(dictionary) => dictionary.named(self.rest, name),
        };
        let Some((found, value)) = value else { return missing() };
        if found != tag(edm_type, ENCRYPT) {
            return None;
        }
        let (value, rest) = match self.dictionary {
            None => split_value(edm_type, value)?,
            Some(_) => split_row_value(edm_type, value)?,
        };
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
        match self.dictionary {
            _ if self.rest.is_empty() => Some(()),
            None => only_others(self.rest, names),
            Some(dictionary) => only_others_numbered(self.rest, dictionary, names),
        }
    }
}

/// The next property if it has this name: its tag, and the bytes from the value on.
#[inline(always)]
fn named<'a, const N: usize>(packed: &'a [u8], name: &[u8; N]) -> Option<(u8, &'a [u8])> {
    let (found, value) = packed.split_first()?;
    let (found_name, value) = value.split_first_chunk()?;
    (found_name == name).then_some((*found, value))
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

#[cold]
fn only_others_numbered(rest: &[u8], dictionary: &PropertyDictionary, names: &[&str]) -> Option<()> {
    let mut unpacked = PackBuffer::default();
    dictionary.unpack(rest, &mut unpacked)?;
    only_others(unpacked.as_bytes(), names)
}
