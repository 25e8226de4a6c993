use crate::model::property::text;
use crate::model::{EdmType, Entity, Properties, Raw, ValueError, ValueRef};
use crate::store::{Error, Result};
use crate::typed::{Property, PropertySchema};

/// The stored properties of one entity, found by one pass over its packed bytes.
///
/// `names` are in the order in which they are written, so that the next one is usually the right
/// one; any other order costs a search.
pub struct Slots<'a, const N: usize> {
    owner: &'static str,
    names: &'static [&'static str; N],
    entity: &'a Entity,
    found: [Option<Raw<'a>>; N],
}

/// The place of a name, looked for from `next` on and then from the start.
#[inline]
fn place<const N: usize>(names: &[&str; N], next: usize, name: &[u8]) -> Option<usize> {
    let is_it = |i: &usize| names[*i].as_bytes() == name;
    (next..N).find(is_it).or_else(|| (0..next.min(N)).find(is_it))
}

impl<const N: usize> std::fmt::Debug for Slots<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("owner", &self.owner).field("names", self.names).finish_non_exhaustive()
    }
}

impl<'a, const N: usize> Slots<'a, N> {
    /// Finds the properties; the first of a name counts.
    pub fn scan(owner: &'static str, names: &'static [&'static str; N], entity: &'a Entity) -> Self {
        let mut found = [None; N];
        let mut rest = entity.properties().as_packed();
        let mut next = 0;
        while let Some(raw) = Raw::split(&mut rest) {
            let Some(place) = place(names, next, raw.name) else { continue };
            if found[place].is_none() {
                found[place] = Some(raw);
            }
            next = place + 1;
        }
        Self { owner, names, entity, found }
    }

    /// The type that is read, for messages.
    pub const fn owner(&self) -> &'static str {
        self.owner
    }

    /// Reads a property by the functions of its codec; an absent one of the `expected` type by
    /// `missing`.
    ///
    /// # Errors
    /// It is missing, of another type, or marked for encryption where the field is not (or the
    /// other way round).
    #[inline]
    pub fn get<T, const ENCRYPT: bool>(
        &self,
        place: usize,
        expected: EdmType,
        read: impl FnOnce(ValueRef<'a>) -> Result<T, ValueError>,
        missing: impl FnOnce() -> Option<T>,
    ) -> Result<T> {
        match self.read::<T, ENCRYPT>(place, read)? {
            Some(value) => Ok(value),
            None => missing().ok_or_else(|| self.absent(place, expected)),
        }
    }

    /// Reads a property that has a default.
    ///
    /// # Errors
    /// As for [`get`](Self::get), unless it is missing.
    #[inline]
    pub fn get_or<T, const ENCRYPT: bool>(
        &self,
        place: usize,
        read: impl FnOnce(ValueRef<'a>) -> Result<T, ValueError>,
        default: impl FnOnce() -> T,
    ) -> Result<T> {
        Ok(self.read::<T, ENCRYPT>(place, read)?.unwrap_or_else(default))
    }

    #[inline]
    fn read<T, const ENCRYPT: bool>(
        &self,
        place: usize,
        read: impl FnOnce(ValueRef<'a>) -> Result<T, ValueError>,
    ) -> Result<Option<T>> {
        let Some(raw) = self.found[place] else { return Ok(None) };
        if raw.is_encrypted() != ENCRYPT {
            return Err(self.wrong_mark(place, ENCRYPT));
        }
        let Some(value) = raw.value() else { return Err(self.damaged(place)) };
        match read(value) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(self.wrong(place, &error, ENCRYPT.then_some(value.edm_type()))),
        }
    }

    /// Checks the discriminator.
    ///
    /// # Errors
    /// The entity is of another type, or tells none.
    pub fn check_type(&self, place: usize, type_name: &str) -> Result<()> {
        let found = self.read::<_, false>(place, text)?.ok_or_else(|| self.absent(place, EdmType::String))?;
        if found == type_name {
            return Ok(());
        }
        Err(self.mismatch(place, format!("the type {type_name:?}"), format!("{found:?}")))
    }

    /// Whether the entity was stored in an older version of its schema. The earliest version that reads it has the place after
    /// that of the version.
    ///
    /// # Errors
    /// It was stored in a newer one that does not say that this one reads it: this program cannot know what its properties mean.
    pub fn is_older(&self, place: usize, version: u32) -> Result<bool> {
        let stored = self.read::<_, false>(place, u32::read)?.unwrap_or(1);
        if stored <= version {
            return Ok(stored < version);
        }
        if self.read::<_, false>(place + 1, u32::read)?.is_some_and(|reader| reader <= version) {
            return Ok(false);
        }
        let expected = format!("at most version {version}, the newest that this program knows");
        Err(self.mismatch(place, expected, stored))
    }

    /// Checks that the entity was stored in this version of its schema.
    ///
    /// # Errors
    /// It was stored in another one.
    pub fn check_version(&self, place: usize, version: u32) -> Result<()> {
        if !self.is_older(place, version)? {
            return Ok(());
        }
        Err(self.mismatch(place, format!("version {version}"), "an older one that this type cannot read: `upgrade_all` of the table of whole entities rewrites such rows"))
    }

    /// The properties that are neither of this type nor of its flattened groups.
    pub fn rest(&self, groups: &[&[PropertySchema]]) -> Properties {
        let known = |name: &str| {
            self.names.contains(&name) || groups.iter().any(|group| group.iter().any(|p| p.name == name))
        };
        let mut rest = self.entity.properties().clone();
        rest.retain(|p| !known(p.name()));
        rest
    }

    #[cold]
    fn absent(&self, place: usize, expected: EdmType) -> Error {
        self.mismatch(place, expected.name(), "no such property")
    }

    #[cold]
    fn damaged(&self, place: usize) -> Error {
        self.mismatch(place, "a whole value", "damaged bytes")
    }

    #[cold]
    fn wrong_mark(&self, place: usize, encrypt: bool) -> Error {
        let (marked, plain) = ("an encrypted property", "one that is not encrypted");
        let (expected, found) = if encrypt { (marked, plain) } else { (plain, marked) };
        self.mismatch(place, expected, found)
    }

    /// A marked value is never shown: only its type is.
    #[cold]
    fn wrong(&self, place: usize, error: &ValueError, secret: Option<EdmType>) -> Error {
        match secret {
            None => self.mismatch(place, error.expected(), error.found()),
            Some(edm) => {
                self.mismatch(place, error.expected(), format_args!("another {edm}, which is secret"))
            }
        }
    }

    #[cold]
    fn mismatch(&self, place: usize, expected: impl Into<String>, found: impl std::fmt::Display) -> Error {
        let (name, key) = (self.names[place], self.entity.key());
        Error::decode(self.owner, key, name, expected, found.to_string())
    }
}
