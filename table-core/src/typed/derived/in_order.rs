use crate::model::{
    EdmType, Entity, PackBuffer, PackedProperty, PropertyDictionary, ValueError, ValueRef,
    split_row_value, split_value, tag,
};

/// Decodes properties that are stored in the order in which the type writes them. This is the usual case: the next stored
/// property is compared with the next field, whose name and type are constants. Numbered rows are decoded without
/// conversion.
///
/// In every other case a method returns `None`. [`Slots`](super::Slots) then decodes the entity or returns the error.
#[derive(Debug)]
pub struct InOrder<'a> {
    /// The bytes of the properties that are not decoded yet.
    rest: &'a [u8],
    /// The dictionary of a numbered row.
    dictionary: Option<&'a PropertyDictionary>,
}

impl<'a> InOrder<'a> {
    /// Starts at the first property.
    #[inline]
    pub fn new(entity: &'a Entity) -> Self {
        let (rest, dictionary) = entity.properties().raw_or_numbered();
        Self { rest, dictionary }
    }

    /// Reads the next property if it has this name; otherwise the property is absent. `name` starts with the length of the
    /// name, as in the packed form.
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
        let Some((found, value)) = value else {
            return missing();
        };
        // Another type or mark: another client wrote the row, or a field has changed. `Slots` knows the conversions and the
        // errors.
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

    /// Reads the next property. Returns `None` unless it has this name and text.
    #[inline]
    pub fn is_text<const N: usize>(&mut self, name: &[u8; N], text: &str) -> Option<()> {
        let found = self.get::<_, false, N>(name, EdmType::String, Ok, || None)?;
        (found == ValueRef::String(text)).then_some(())
    }

    /// Reads the next property. Returns `None` unless it has this name and is this schema version.
    #[inline]
    pub fn is_version<const N: usize>(&mut self, name: &[u8; N], version: u32) -> Option<()> {
        let found = self.get::<_, false, N>(name, EdmType::Int32, Ok, || None)?;
        (found == ValueRef::Int32(version.cast_signed())).then_some(())
    }

    /// Checks that the remaining properties are not properties of the type. Such a property would be out of order.
    #[inline]
    pub fn finish(self, names: &[&str]) -> Option<()> {
        match self.dictionary {
            _ if self.rest.is_empty() => Some(()),
            None => check_only_others(self.rest, names),
            Some(dictionary) => check_only_others_numbered(self.rest, dictionary, names),
        }
    }
}

/// If the next property has this name, returns its tag and the bytes from the value on.
#[inline(always)]
fn named<'a, const N: usize>(packed: &'a [u8], name: &[u8; N]) -> Option<(u8, &'a [u8])> {
    let (found, value) = packed.split_first()?;
    // Length and name are compared as one array of a constant length: a few comparisons of words, without a call of
    // `memcmp`.
    let (found_name, value) = value.split_first_chunk()?;
    (found_name == name).then_some((*found, value))
}

/// Returns `None` if one of the packed properties has one of the names.
fn check_only_others(mut rest: &[u8], names: &[&str]) -> Option<()> {
    while !rest.is_empty() {
        let property = PackedProperty::split(&mut rest)?;
        if names.iter().any(|name| name.as_bytes() == property.name) {
            return None;
        }
    }
    Some(())
}

#[cold]
fn check_only_others_numbered(
    rest: &[u8],
    dictionary: &PropertyDictionary,
    names: &[&str],
) -> Option<()> {
    let mut unpacked = PackBuffer::default();
    dictionary.unpack(rest, &mut unpacked)?;
    check_only_others(unpacked.as_bytes(), names)
}
