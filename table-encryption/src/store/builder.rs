use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use table_core::model::{Key, TableName};
use table_core::store::{Error, Result, TableStore};
use table_core::typed::FromEntity;

use super::rules::{Rules, TableRules, as_given};
use super::{EncryptedStore, Shared};
use crate::data_key::{CacheBounds, DataKeyBounds, DataKeys};
use crate::key::Keys;
use crate::v1::{Legacy, LegacyV1};

/// Times that an unconditional merge tries unless told otherwise.
const ATTEMPTS: u32 = 10;

/// What an [`EncryptedStore`] encrypts, requires and accepts.
///
/// ```
/// use std::sync::Arc;
/// use table_core::memory::MemoryStore;
/// use table_core::model::TableName;
/// use table_encryption::{AesKeyWrap, DataKeyBounds, EncryptedStore, KeyBytes, Keys};
/// let keys = Keys::new(Arc::new(AesKeyWrap::new("kek-2026", &KeyBytes::random(32)?)?));
/// let people = TableName::new("People")?;
/// let store = EncryptedStore::builder(MemoryStore::new(), keys)
///     .encrypt(&people, ["NationalId"])
///     .encrypt_where(&people, ["Salary"], |_partition, row, _property| row.starts_with("empid_"))
///     .require_encryption(&people)
///     .with_data_key_bounds(DataKeyBounds { max_writes: 10_000, ..DataKeyBounds::default() })
///     .build()?;
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Debug)]
pub struct EncryptedStoreBuilder<S> {
    inner: S,
    keys: Keys,
    rules: BTreeMap<String, TableRules>,
    bounds: DataKeyBounds,
    cache: CacheBounds,
    attempts: u32,
    legacy: Option<LegacyV1>,
}

impl<S: TableStore> EncryptedStoreBuilder<S> {
    pub(super) fn new(inner: S, keys: Keys) -> Self {
        Self {
            inner,
            keys,
            rules: BTreeMap::new(),
            bounds: DataKeyBounds::default(),
            cache: CacheBounds::default(),
            attempts: ATTEMPTS,
            legacy: None,
        }
    }

    /// Encrypts these properties of every entity in the table, marked or not. Filters on them are refused, and
    /// so is plaintext that is found in them.
    ///
    /// The patterns of `table-patterns` know the names
    /// ([`TableStore::encrypted_names`](table_core::store::TableStore::encrypted_names)): the payloads of index entries and copies in
    /// whatever table are encrypted too; sums, keys of indexes, plans of eventual transactions and blobs would show the
    /// values, and are refused. A derived type that has one of the names without `#[encrypt]` is refused when its table is opened.
    /// A property of the same name in *another* table is that table's: name it there, too.
    #[must_use]
    pub fn encrypt<N: Into<String>>(mut self, table: &TableName, names: impl IntoIterator<Item = N>) -> Self {
        let rules = self.rules_of(table);
        rules.names = std::mem::take(&mut rules.names).with_rule(names.into_iter().map(Into::into));
        self
    }

    fn rules_of(&mut self, table: &TableName) -> &mut TableRules {
        self.rules.entry(as_given(table)).or_default()
    }

    /// Encrypts these properties in the rows for which `resolver(partition, row, property)` answers true. It must
    /// always answer the same. The names are given beside it because a filter names no row: it is refused for all.
    ///
    /// A derived type whose rows the resolver chooses needs `#[encrypt]` on the field, or it cannot read them back. Wide and spread
    /// entities are encrypted where the resolver answers true for the entity's key or for the key of the stored row.
    #[must_use]
    pub fn encrypt_where<N: Into<String>>(
        mut self,
        table: &TableName,
        names: impl IntoIterator<Item = N>,
        resolver: impl Fn(&str, &str, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let rule = Arc::new(move |key: &Key, name: &str| resolver(key.partition(), key.row(), name));
        let rules = self.rules_of(table);
        rules.names = std::mem::take(&mut rules.names).with_row_rule(names.into_iter().map(Into::into), rule);
        self
    }

    /// Encrypts the `#[encrypt]` fields of a type in this table: for dynamic writers of the same table, and for
    /// a migration of rows that were written before the field was marked.
    #[must_use]
    pub fn encrypt_type<T: FromEntity>(self, table: &TableName) -> Self {
        let names: BTreeSet<String> = T::encrypted().into_iter().map(str::to_owned).collect();
        self.encrypt(table, names)
    }

    /// Refuses every entity of the table that has no header, and gives one to each that is written, even if nothing
    /// in it is encrypted: so stripping an entity of all that is encrypted is noticed. Costs each entity a header.
    #[must_use]
    pub fn require_encryption(mut self, table: &TableName) -> Self {
        self.rules_of(table).required = true;
        self
    }

    /// Refuses every filter on another property of the table than these, before it is sent: so no filter compares
    /// ciphertext, whatever this program has met. In turn these are not encrypted: a mark on one of them is refused. Keys and
    /// time can always be compared. Name also the properties that tell types apart (`EntityType`, `EntityVersion`).
    #[must_use]
    pub fn filter_only_by<N: Into<String>>(
        mut self,
        table: &TableName,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        self.rules_of(table).filter_only_by(names.into_iter().map(Into::into).collect());
        self
    }

    /// Declares a migration: what the rules for the table name is also read where it is still in plaintext, and comes
    /// back marked. Ends with it: as long as it lasts, one who can write to the table can put plaintext there.
    #[must_use]
    pub fn accept_plaintext(mut self, table: &TableName) -> Self {
        self.rules_of(table).accepts_plaintext = true;
        self
    }

    /// When new data keys are made.
    #[must_use]
    pub const fn with_data_key_bounds(mut self, bounds: DataKeyBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How many unwrapped data keys are kept.
    #[must_use]
    pub const fn with_cache_bounds(mut self, bounds: CacheBounds) -> Self {
        self.cache = bounds;
        self
    }

    /// How often an unconditional merge tries when others interfere; at least 1, and 10 unless told otherwise.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Reads the legacy format v1, and writes it where that is asked for.
    #[must_use]
    pub fn with_legacy_v1(mut self, legacy: LegacyV1) -> Self {
        self.legacy = Some(legacy);
        self
    }

    /// The store.
    ///
    /// # Errors
    /// Two keys have one id; a key id or algorithm does not fit a header; a legacy key has the id of a v2 key; a bound is zero; a
    /// property is to be encrypted and to be compared.
    pub fn build(self) -> Result<EncryptedStore<S>> {
        self.keys.check()?;
        if self.bounds.max_writes == 0 {
            return Err(Error::invalid_request(
                "a data key that serves no write: `max_writes` must be at least 1",
            ));
        }
        let sensitive = self.inner.profile().case_sensitive_tables;
        let legacy = self.legacy.map(|l| Legacy::new(l, &self.keys, sensitive, self.cache)).transpose()?;
        let id = |name: &str| if sensitive { name.to_owned() } else { name.to_ascii_lowercase() };
        let rules = Rules::new(self.rules, id);
        if let Some((table, name)) = rules.contradiction() {
            return Err(Error::invalid_request(format!(
                "the property '{name}' of '{table}' is to be encrypted, and filters are to compare it: they cannot"
            )));
        }
        let shared = Shared {
            keys: Arc::new(DataKeys::new(self.keys, self.bounds, self.cache)),
            rules,
            legacy,
            attempts: self.attempts,
        };
        Ok(EncryptedStore::from_parts(self.inner, shared))
    }
}
