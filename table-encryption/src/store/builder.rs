use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use table_core::model::{Key, TableName};
use table_core::store::{Error, Result, TableStore};
use table_core::typed::FromEntity;

use super::rules::{Rules, TableRules};
use super::{EncryptedStore, Shared};
use crate::data_key::{CacheBounds, DataKeyBounds, DataKeys};
use crate::key::Keys;
use crate::v1::{Legacy, LegacyV1};

/// Default number of attempts of an unconditional merge.
const ATTEMPTS: u32 = 10;

/// Options of an [`EncryptedStore`]: properties to encrypt, requirements and exceptions.
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

    /// Encrypts these properties of every entity in the table, marked or not. Filters on them are refused,
    /// and so is plaintext that is read in them.
    ///
    /// The patterns of `table-patterns` know the names
    /// ([`StoreContext::encrypted_names`](table_core::store::StoreContext::encrypted_names)). They also encrypt
    /// payloads of index entries and copies in any table. They refuse uses that would show the values: sums,
    /// index keys, plans of eventual transactions, and blobs. A derived type with a field of this name and
    /// without `#[encrypt]` is refused when its table is opened. A property of the same name in *another*
    /// table is separate: declare it for that table too.
    #[must_use]
    pub fn encrypt<N: Into<String>>(
        mut self,
        table: &TableName,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        let rules = self.rules_of(table);
        rules.names = std::mem::take(&mut rules.names).with_rule(names.into_iter().map(Into::into));
        self
    }

    fn rules_of(&mut self, table: &TableName) -> &mut TableRules {
        self.rules.entry(as_given(table)).or_default()
    }

    /// Encrypts these properties in the rows for which `resolver(partition, row, property)` returns true. The
    /// result must never change. The names are given separately because a filter names no row: filters on
    /// them are refused for all rows.
    ///
    /// A derived type whose rows the resolver selects needs `#[encrypt]` on the field; otherwise it cannot
    /// read them. Wide and spread entities are encrypted if the resolver returns true for the entity's key or
    /// for the key of the stored row.
    #[must_use]
    pub fn encrypt_where<N: Into<String>>(
        mut self,
        table: &TableName,
        names: impl IntoIterator<Item = N>,
        resolver: impl Fn(&str, &str, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let rule =
            Arc::new(move |key: &Key, name: &str| resolver(key.partition(), key.row(), name));
        let rules = self.rules_of(table);
        rules.names =
            std::mem::take(&mut rules.names).with_row_rule(names.into_iter().map(Into::into), rule);
        self
    }

    /// Encrypts the `#[encrypt]` fields of a type in this table. Use it for dynamic writers of the same
    /// table, and to migrate rows that were written before the field was marked.
    #[must_use]
    pub fn encrypt_type<T: FromEntity>(self, table: &TableName) -> Self {
        let names: BTreeSet<String> = T::requirements()
            .encrypted
            .into_iter()
            .map(str::to_owned)
            .collect();
        self.encrypt(table, names)
    }

    /// Requires a header in every entity of the table, and writes one even if nothing in the entity is
    /// encrypted. So an entity that was stripped of all its encrypted properties is detected. Each entity
    /// grows by a header.
    #[must_use]
    pub fn require_encryption(mut self, table: &TableName) -> Self {
        self.rules_of(table).required = true;
        self
    }

    /// Refuses every filter on a property of the table that is not listed, before it is sent. So no filter
    /// compares ciphertext, also for properties that this program has never read. The listed properties
    /// cannot be encrypted: a mark on one of them is refused. Keys and Timestamp can always be compared. Also
    /// list the properties that distinguish types (`EntityType`, `EntityVersion`, `EntityReader`).
    #[must_use]
    pub fn filter_only_by<N: Into<String>>(
        mut self,
        table: &TableName,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        self.rules_of(table)
            .filter_only_by(names.into_iter().map(Into::into).collect());
        self
    }

    /// Allows plaintext during a migration: properties named by the table's rules are also read in plaintext,
    /// and are marked when read. Remove this after the migration; until then, anyone who can write to the
    /// table can store plaintext in their place.
    #[must_use]
    pub fn accept_plaintext(mut self, table: &TableName) -> Self {
        self.rules_of(table).accepts_plaintext = true;
        self
    }

    /// Sets when a new data key is created.
    #[must_use]
    pub const fn with_data_key_bounds(mut self, bounds: DataKeyBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets the bounds of the cache of unwrapped data keys.
    #[must_use]
    pub const fn with_cache_bounds(mut self, bounds: CacheBounds) -> Self {
        self.cache = bounds;
        self
    }

    /// Sets the maximum number of attempts of an unconditional merge under contention; at least 1, default
    /// 10.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Reads the legacy format v1, and writes it in tables where that is requested.
    #[must_use]
    pub fn with_legacy_v1(mut self, legacy: LegacyV1) -> Self {
        self.legacy = Some(legacy);
        self
    }

    /// Creates the store.
    ///
    /// # Errors
    /// Fails if two keys have the same id; if a key id or algorithm does not fit a header; if a legacy key
    /// has the id of a v2 key; if `max_writes` is zero; or if a property is both encrypted and listed for filters.
    pub fn build(self) -> Result<EncryptedStore<S>> {
        self.keys.check()?;
        if self.bounds.max_writes == 0 {
            return Err(Error::invalid_argument(
                "`max_writes` is 0; it must be at least 1",
            ));
        }
        let sensitive = self.inner.profile().case_sensitive_tables;
        let legacy = self
            .legacy
            .map(|l| Legacy::new(l, &self.keys, sensitive, self.cache))
            .transpose()?;
        let id = |name: &str| {
            if sensitive {
                name.to_owned()
            } else {
                name.to_ascii_lowercase()
            }
        };
        let rules = Rules::new(self.rules, id);
        // Together they would allow a filter that compares ciphertext and finds nothing.
        if let Some((table, name)) = rules.contradiction() {
            return Err(Error::invalid_declaration(format!(
                "the property '{name}' of '{table}' is encrypted by a rule and listed in `filter_only_by`; filters cannot compare it"
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

/// Returns the name by which rules are collected before the profile is known.
pub(super) fn as_given(table: &TableName) -> String {
    table.to_string()
}
