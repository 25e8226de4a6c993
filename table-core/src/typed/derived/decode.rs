use crate::model::property::text;
use crate::model::{EdmType, Entity, PackedProperty, Properties, ValueError, ValueRef};
use crate::store::{Error, Result};
use crate::typed::split::{BadPart, Parts, count_name};
use crate::typed::{Property, PropertyGroup, PropertySchema};

/// The properties of one entity by their position in a type. One pass over the packed bytes finds them.
///
/// `names` are in the order in which the type writes them, so the next stored property usually has the next name. In
/// another order, each property costs a search.
pub struct Slots<'a, const N: usize> {
    owner: &'static str,
    names: &'static [&'static str; N],
    /// The text in front of all names: the prefix of a flattened group.
    prefix: &'a str,
    entity: &'a Entity,
    found: [Option<PackedProperty<'a>>; N],
}

/// Returns the position of a name in `names`. Searches from `next` on, then from the start.
#[inline]
fn position_of<const N: usize>(names: &[&str; N], next: usize, name: &[u8]) -> Option<usize> {
    let matches = |i: &usize| names[*i].as_bytes() == name;
    (next..N)
        .find(matches)
        .or_else(|| (0..next.min(N)).find(matches))
}

impl<const N: usize> std::fmt::Debug for Slots<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots")
            .field("owner", &self.owner)
            .field("names", self.names)
            .finish_non_exhaustive()
    }
}

impl<'a, const N: usize> Slots<'a, N> {
    /// Finds the properties. If a name occurs twice, the first property is used.
    pub fn scan(
        owner: &'static str,
        names: &'static [&'static str; N],
        entity: &'a Entity,
    ) -> Self {
        Self::scan_prefixed(owner, names, entity, "")
    }

    /// Finds the properties whose names start with a prefix.
    pub fn scan_prefixed(
        owner: &'static str,
        names: &'static [&'static str; N],
        entity: &'a Entity,
        prefix: &'a str,
    ) -> Self {
        let mut found = [None; N];
        let mut rest = entity.properties().as_packed();
        let mut next = 0;
        while let Some(property) = PackedProperty::split(&mut rest) {
            let Some(name) = property.name.strip_prefix(prefix.as_bytes()) else {
                continue;
            };
            let Some(position) = position_of(names, next, name) else {
                continue;
            };
            if found[position].is_none() {
                found[position] = Some(property);
            }
            // The next stored property is most likely the next field, so the search for it starts there.
            next = position + 1;
        }
        Self {
            owner,
            names,
            prefix,
            entity,
            found,
        }
    }

    /// Reads the fields of a flattened group. `prefix` is the text in front of the names within this type.
    ///
    /// # Errors
    /// Fails if a property is missing or does not fit.
    pub fn group<G: PropertyGroup>(&self, prefix: &str) -> Result<G> {
        match (self.prefix, prefix) {
            (prefix, "") | ("", prefix) => G::read(self.entity, self.owner, prefix),
            (outer, inner) => G::read(self.entity, self.owner, &format!("{outer}{inner}")),
        }
    }

    /// Reads a property with the functions of its codec. For an absent property it calls `missing`; `expected` is for the
    /// error.
    ///
    /// # Errors
    /// Fails if the property is missing or has another type, or if only one of property and field is marked for
    /// encryption.
    #[inline]
    pub fn get<T, const ENCRYPT: bool>(
        &self,
        position: usize,
        expected: EdmType,
        read: impl FnOnce(ValueRef<'a>) -> Result<T, ValueError>,
        missing: impl FnOnce() -> Option<T>,
    ) -> Result<T> {
        match self.read::<T, ENCRYPT>(position, read)? {
            Some(value) => Ok(value),
            None => missing().ok_or_else(|| self.absent(position, expected)),
        }
    }

    /// Reads a property that older rows have under another name. `positions` are the positions of the name and of the aliases: the first
    /// property that exists counts.
    ///
    /// # Errors
    /// Returns the errors of [`get`](Self::get).
    pub fn get_renamed<T, const ENCRYPT: bool>(
        &self,
        positions: &[usize],
        expected: EdmType,
        read: impl FnOnce(ValueRef<'a>) -> Result<T, ValueError>,
        missing: impl FnOnce() -> Option<T>,
    ) -> Result<T> {
        let position = positions
            .iter()
            .copied()
            .find(|position| self.found[*position].is_some())
            .unwrap_or(positions[0]);
        self.get::<T, ENCRYPT>(position, expected, read, missing)
    }

    /// Reads a value that may be in several properties. `positions` are the positions of the name and of the aliases.
    ///
    /// # Errors
    /// Fails if a part is missing or damaged, or if the entity has the value whole and in parts; also returns the errors of
    /// [`get`](Self::get).
    pub fn get_split<T, const ENCRYPT: bool>(
        &self,
        positions: &[usize],
        expected: EdmType,
        read: impl for<'v> FnOnce(ValueRef<'v>) -> Result<T, ValueError>,
        missing: impl FnOnce() -> Option<T>,
    ) -> Result<T> {
        for &position in positions {
            let name = format!("{}{}", self.prefix, self.names[position]);
            let parts = match (self.found[position], Parts::find(self.entity, &name)) {
                (None, None) => continue,
                (Some(_), None) => {
                    return self.get::<T, ENCRYPT>(position, expected, read, missing);
                }
                (Some(_), Some(_)) => {
                    let found = "both: another program has changed one of them; write the whole entity again";
                    return Err(self.mismatch(
                        position,
                        format!("one property or '{}'", count_name(&name)),
                        found,
                    ));
                }
                (None, Some(parts)) => parts,
            };
            return match parts.read(&name, expected, ENCRYPT, read) {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => Err(self.refused(position, &error, ENCRYPT.then_some(expected))),
                Err(BadPart {
                    property,
                    expected,
                    found,
                }) => Err(Error::decode(
                    self.owner,
                    self.entity.key(),
                    property,
                    expected,
                    found,
                )),
            };
        }
        missing().ok_or_else(|| self.absent(positions[0], expected))
    }

    /// Reads a property, or returns the default if it is absent.
    ///
    /// # Errors
    /// Fails if the property has another type or another mark.
    #[inline]
    pub fn get_or<T, const ENCRYPT: bool>(
        &self,
        position: usize,
        read: impl FnOnce(ValueRef<'a>) -> Result<T, ValueError>,
        default: impl FnOnce() -> T,
    ) -> Result<T> {
        Ok(self
            .read::<T, ENCRYPT>(position, read)?
            .unwrap_or_else(default))
    }

    #[inline]
    fn read<T, const ENCRYPT: bool>(
        &self,
        position: usize,
        read: impl FnOnce(ValueRef<'a>) -> Result<T, ValueError>,
    ) -> Result<Option<T>> {
        let Some(property) = self.found[position] else {
            return Ok(None);
        };
        if property.is_encrypted() != ENCRYPT {
            return Err(self.wrong_mark(position, ENCRYPT));
        }
        let Some(value) = property.decode() else {
            return Err(self.damaged(position));
        };
        match read(value) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(self.refused(position, &error, ENCRYPT.then_some(value.edm_type()))),
        }
    }

    /// Checks the discriminator.
    ///
    /// # Errors
    /// Fails if the entity has another type or no discriminator.
    pub fn check_type(&self, position: usize, type_name: &str) -> Result<()> {
        let found = self
            .read::<_, false>(position, text)?
            .ok_or_else(|| self.absent(position, EdmType::String))?;
        if found == type_name {
            return Ok(());
        }
        Err(self.mismatch(
            position,
            format!("the type {type_name:?}"),
            format!("{found:?}"),
        ))
    }

    /// Whether the entity is stored in an older schema version. `position` is the position of the version property; the
    /// property with the earliest reader version must follow it.
    ///
    /// # Errors
    /// Fails if the entity is stored in a later version that this version cannot read.
    pub fn is_older(&self, position: usize, version: u32) -> Result<bool> {
        let stored = self.read::<_, false>(position, u32::read)?.unwrap_or(1);
        if stored <= version {
            return Ok(stored < version);
        }
        if self
            .read::<_, false>(position + 1, u32::read)?
            .is_some_and(|reader| reader <= version)
        {
            return Ok(false);
        }
        let expected =
            format!("at most version {version}, the latest version that this program can read");
        Err(self.mismatch(position, expected, stored))
    }

    /// Checks that the entity is stored in this schema version, or in a later version that this version reads.
    ///
    /// # Errors
    /// Fails if the entity is stored in another version.
    pub fn check_version(&self, position: usize, version: u32) -> Result<()> {
        if !self.is_older(position, version)? {
            return Ok(());
        }
        Err(self.mismatch(
            position,
            format!("version {version}"),
            "an older version, which this type cannot read: run `upgrade_all` with the entity type",
        ))
    }

    /// Returns the properties that belong neither to this type nor to its flattened groups.
    pub fn rest(&self, groups: &[&[PropertySchema]]) -> Properties {
        let known = |name: &str| {
            self.names.contains(&name)
                || groups
                    .iter()
                    .any(|group| group.iter().any(|p| p.has_name(name)))
        };
        let mut rest = self.entity.properties().clone();
        rest.retain(|p| !known(p.name()));
        rest
    }

    #[cold]
    fn absent(&self, position: usize, expected: EdmType) -> Error {
        let name = format!("{}{}", self.prefix, self.names[position]);
        let found = match self.entity.get(&count_name(&name)) {
            Some(_) => "the value in several properties: mark the field `#[entity(split)]`",
            None => {
                "no such property; if older rows do not have it, make the field an `Option`, give it a `default`, or declare a \
                 new schema `version`"
            }
        };
        self.mismatch(position, expected.name(), found)
    }

    #[cold]
    fn damaged(&self, position: usize) -> Error {
        self.mismatch(position, "a whole value", "damaged bytes")
    }

    #[cold]
    fn wrong_mark(&self, position: usize, encrypt: bool) -> Error {
        let (expected, found) = marks(encrypt);
        self.mismatch(position, expected, found)
    }

    /// Returns the error for a value that the codec refuses. For a marked property it shows only the type.
    #[cold]
    fn refused(&self, position: usize, error: &ValueError, secret: Option<EdmType>) -> Error {
        match secret {
            None => self.mismatch(position, error.expected(), error.found()),
            Some(edm) => self.mismatch(
                position,
                error.expected(),
                format_args!("another {edm} (secret)"),
            ),
        }
    }

    #[cold]
    fn mismatch(
        &self,
        position: usize,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Error {
        let (name, key) = (self.names[position], self.entity.key());
        Error::decode(
            self.owner,
            key,
            format!("{}{name}", self.prefix),
            expected,
            found.to_string(),
        )
    }
}

/// Returns the expected and the found property for a wrong mark.
pub(in crate::typed) const fn marks(encrypt: bool) -> (&'static str, &'static str) {
    let (marked, plain) = ("an encrypted property", "a property that is not encrypted");
    if encrypt {
        (marked, plain)
    } else {
        (plain, marked)
    }
}
