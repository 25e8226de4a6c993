use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::model::{Entity, Key, Properties};

/// Decides for the key of a row and the name of a property whether the property is encrypted in that row. It must
/// always give the same answer for the same key and name.
pub type RowRule = Arc<dyn Fn(&Key, &str) -> bool + Send + Sync>;

/// The names of the properties that a store encrypts in one table
/// ([`StoreContext::encrypted_names`](super::StoreContext::encrypted_names)). A layer that derives index entries, sums, messages
/// or blobs from an entity marks these properties first, or refuses.
///
/// | names | source | encrypted in |
/// |---|---|---|
/// | [by rule](Self::with_rule) | the configuration of the store | every row, marked or not |
/// | [by row rule](Self::with_row_rule) | the configuration of the store | the rows that the rule chooses, marked or not |
/// | [known](Self::add_known) | marks: a type declares the name, or the store has written or read it encrypted | every row; plaintext is refused, unless a row rule has the name |
///
/// Cheap to clone: clones share the names.
///
/// ```
/// use std::sync::Arc;
/// use table_core::model::{Entity, Key};
/// use table_core::store::EncryptedNames;
/// let names = EncryptedNames::default()
///     .with_rule(["NationalId"])
///     .with_row_rule(["Salary"], Arc::new(|key: &Key, _: &str| key.row().starts_with("emp")));
/// let guest = Key::new("Sales", "guest7")?;
/// assert!(names.contains_at(&guest, "NationalId") && !names.contains_at(&guest, "Salary"));
/// assert!(names.contains("Salary"), "in other rows");
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct EncryptedNames(Option<Arc<Names>>);

type Set = BTreeSet<Arc<str>>;

#[derive(Clone, Default)]
struct Names {
    every_row: Set,
    by_row: Vec<(Set, RowRule)>,
    known: Set,
}

impl EncryptedNames {
    /// Adds names that are encrypted in every row.
    #[must_use]
    pub fn with_rule<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names_mut()
            .every_row
            .extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds names that are encrypted in the rows that `rule` chooses.
    #[must_use]
    pub fn with_row_rule<N: Into<Arc<str>>>(
        mut self,
        names: impl IntoIterator<Item = N>,
        rule: RowRule,
    ) -> Self {
        self.names_mut()
            .by_row
            .push((names.into_iter().map(Into::into).collect(), rule));
        self
    }

    /// Adds the names of another store, for an adapter around several encrypting stores.
    #[must_use]
    pub fn with_all_of(mut self, other: &Self) -> Self {
        let Some(other) = &other.0 else { return self };
        if self.0.is_none() {
            return Self(Some(Arc::clone(other)));
        }
        let names = self.names_mut();
        names.every_row.extend(other.every_row.iter().cloned());
        names.by_row.extend(other.by_row.iter().cloned());
        names.known.extend(other.known.iter().cloned());
        self
    }

    /// Adds a known name: a type declares it, or the store has written or read it encrypted.
    pub fn add_known(&mut self, name: &str) {
        if !self.known().contains(name) {
            self.names_mut().known.insert(name.into());
        }
    }

    /// Removes the known names and keeps the names of rules.
    pub fn clear_known(&mut self) {
        if !self.known().is_empty() {
            self.names_mut().known.clear();
        }
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether a mark has made the name known, whether or not a rule has it too.
    pub fn has_known(&self, name: &str) -> bool {
        self.known().contains(name)
    }

    /// Returns the number of known names.
    pub fn known_len(&self) -> usize {
        self.known().len()
    }

    /// Iterates over all names. A name with several sources occurs several times.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let by_row = self.by_row().iter().flat_map(|(names, _)| names);
        self.every_row()
            .iter()
            .chain(by_row)
            .chain(self.known())
            .map(|name| &**name)
    }

    /// Iterates over the names that a rule encrypts in every row.
    pub fn in_every_row(&self) -> impl Iterator<Item = &str> {
        self.every_row().iter().map(|name| &**name)
    }

    /// Iterates over the names that rules encrypt only in some rows.
    pub fn in_some_rows(&self) -> impl Iterator<Item = &str> {
        let names = self.by_row().iter().flat_map(|(names, _)| names);
        names
            .filter(|name| !self.every_row().contains(*name))
            .map(|name| &**name)
    }

    /// Whether the property is encrypted in any row.
    pub fn contains(&self, name: &str) -> bool {
        self.has_rule(name) || self.known().contains(name)
    }

    /// Whether a rule has the name, for all or some rows.
    pub fn has_rule(&self, name: &str) -> bool {
        self.every_row().contains(name) || self.has_row_rule(name)
    }

    /// Whether the property is encrypted in the row with this key. The rows of manifests and feeds are in plaintext: a property of the same
    /// name there is not the user's.
    pub fn contains_at(&self, key: &Key, name: &str) -> bool {
        !key.is_of_manifest_or_feed() && (self.rule_encrypts(key, name) || self.is_known(name))
    }

    /// Whether a rule encrypts the property in the row with this key.
    pub fn rule_encrypts(&self, key: &Key, name: &str) -> bool {
        self.every_row().contains(name)
            || self
                .by_row()
                .iter()
                .any(|(names, rule)| names.contains(name) && rule(key, name))
    }

    /// Whether the name is known and no rule has it: it is then encrypted in every row.
    pub fn is_known(&self, name: &str) -> bool {
        self.known().contains(name) && !self.has_rule(name)
    }

    /// Returns the first unmarked property of an entity that the store encrypts in this row.
    pub fn find_unmarked<'a>(&self, entity: &'a Entity) -> Option<&'a str> {
        self.0.as_ref()?;
        let mut unmarked = entity.properties().iter().filter(|p| !p.is_encrypted());
        unmarked
            .find(|p| self.contains_at(entity.key(), p.name()))
            .map(|p| p.name())
    }

    /// Marks the properties that the store encrypts in the row with this key.
    pub fn mark(&self, key: &Key, properties: &mut Properties) {
        if self.0.is_none() {
            return;
        }
        let unmarked = properties.iter().filter(|p| !p.is_encrypted());
        let found: Vec<_> = unmarked
            .filter(|p| self.contains_at(key, p.name()))
            .map(|p| (p.name().to_owned(), p.value().to_owned()))
            .collect();
        for (name, value) in found {
            properties.set_encrypted(&name, value);
        }
    }

    fn has_row_rule(&self, name: &str) -> bool {
        self.by_row().iter().any(|(names, _)| names.contains(name))
    }

    fn every_row(&self) -> &Set {
        self.0
            .as_ref()
            .map_or(const { &Set::new() }, |names| &names.every_row)
    }

    fn by_row(&self) -> &[(Set, RowRule)] {
        self.0.as_ref().map_or(&[], |names| &names.by_row)
    }

    fn known(&self) -> &Set {
        self.0
            .as_ref()
            .map_or(const { &Set::new() }, |names| &names.known)
    }

    /// Returns the names for modification. Copies them if clones share them.
    fn names_mut(&mut self) -> &mut Names {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl fmt::Debug for EncryptedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_row: Set = self
            .by_row()
            .iter()
            .flat_map(|(names, _)| names.iter().cloned())
            .collect();
        f.debug_struct("EncryptedNames")
            .field("every_row", self.every_row())
            .field("by_row", &by_row)
            .field("known", self.known())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(row: &str) -> Key {
        Key::new("p", row).unwrap()
    }

    fn names() -> EncryptedNames {
        let mut names = EncryptedNames::default()
            .with_rule(["Always"])
            .with_row_rule(
                ["Some"],
                Arc::new(|key: &Key, _: &str| key.row() == "secret"),
            );
        ["Known", "Some"]
            .iter()
            .for_each(|name| names.add_known(name));
        names
    }

    /// A row rule alone decides about its name, even if the name is known.
    #[test]
    fn rules_decide_before_known_names() {
        let names = names();
        let at = |row: &str| {
            ["Always", "Some", "Known", "Other"].map(|name| names.contains_at(&key(row), name))
        };
        assert_eq!(at("secret"), [true, true, true, false]);
        assert_eq!(at("open"), [true, false, true, false]);
        assert!(names.is_known("Known"));
        assert!(!names.is_known("Some"));
        assert_eq!(names.in_every_row().collect::<Vec<_>>(), ["Always"]);
        assert_eq!(names.in_some_rows().collect::<Vec<_>>(), ["Some"]);
        assert!(names.contains("Some"));
        assert!(!names.contains("Other"));
    }

    #[test]
    fn properties_are_marked_in_their_rows() {
        let entity = Entity::from(key("open"))
            .with("Always", 1)
            .with("Some", 2)
            .with("Known", 3)
            .with("Other", 4);
        assert_eq!(names().find_unmarked(&entity), Some("Always"));
        let (key, mut properties) = entity.into_parts();
        names().mark(&key, &mut properties);
        let marks: Vec<_> = properties.iter().map(|p| p.is_encrypted()).collect();
        assert_eq!(marks, [true, false, true, false]);
        assert_eq!(
            names().find_unmarked(&Entity::from_parts(key, properties)),
            None
        );
    }

    #[test]
    fn clones_do_not_change_with_their_original() {
        let mut original = names();
        let clone = original.clone();
        original.add_known("New");
        assert!(original.contains("New"));
        assert!(!clone.contains("New"));
        original.clear_known();
        assert_eq!(original.known_len(), 0);
        assert!(!original.contains("Known"));
        assert!(clone.contains("Known"));
        let both = EncryptedNames::default()
            .with_rule(["Inner"])
            .with_all_of(&clone);
        assert!(
            ["Inner", "Always", "Some", "Known"]
                .iter()
                .all(|name| both.contains(name))
        );
        assert!(EncryptedNames::default().is_empty());
        assert!(!both.is_empty());
    }
}
