//! Shared access signatures of the store's account.

use chrono::{DateTime, Utc};
use table_core::model::TableName;
use table_core::typed::{PartitionIn, RowBounds, TableEntity};
use table_core::{Error, Result};

use super::AzureTableStore;
use crate::SharedKey;
use crate::sas::{AccountSas, SasToken, TablePermissions, TableSas};

/// Shared access signatures.
impl AzureTableStore {
    /// Returns the address of the account, without a signature. [`SasToken::url`] adds one.
    pub fn endpoint(&self) -> &str {
        self.client().endpoint.root().as_str()
    }

    /// Signs permissions on the entities of `T` in one partition: the token gives no access to other
    /// partitions. Sends no request. The token is valid over https only; for other options build a
    /// [`TableSas`] and [`sign`](Self::sign) it.
    ///
    /// The service limits a signature by keys only. If `T` has a `discriminator(row_prefix)`, the token
    /// covers the entities of `T` and no others. Otherwise it covers the **whole partition**: entities of
    /// other types, index entries, and the rows of journals, queues and retries in that partition (their
    /// RowKeys begin with `~~`). To give permission to write or delete, use a row prefix, or store nothing
    /// else in the partition.
    ///
    /// # Errors
    /// Fails if the store has no account key or if the PartitionKey is empty, which a signature cannot
    /// express; see also [`TableSas::within_partition`].
    pub fn sas_for<T: TableEntity>(
        &self,
        table: &TableName,
        partition: impl PartitionIn<T>,
        permissions: TablePermissions,
        expires: DateTime<Utc>,
    ) -> Result<SasToken> {
        self.sign(&TableSas::new(table, permissions, expires).within_partition::<T>(partition)?)
    }

    /// Like [`sas_for`](Self::sas_for), for the entities with these RowKeys only.
    ///
    /// ```
    /// use chrono::{TimeDelta, Utc};
    /// use table_azure::sas::TablePermissions;
    /// use table_azure::{AzureTableStore, SharedKey};
    /// use table_core::model::TableName;
    /// use table_core::typed::TableEntity;
    /// #[derive(TableEntity)]
    /// #[entity(discriminator(row_prefix), row_key = "order_{year:04}_{number:06}")]
    /// struct Order {
    ///     #[partition_key]
    ///     tenant: String,
    ///     year: u16,
    ///     number: u32,
    /// }
    /// let key = SharedKey::new("account", "a2V5")?;
    /// let store = AzureTableStore::with_shared_key("https://account.table.core.windows.net", key, None)?;
    /// let (table, expires) = (TableName::new("Orders")?, Utc::now() + TimeDelta::hours(1));
    /// let (tenant, rows) = (Order::partition("contoso")?, Order::row_prefix().year(2026)..);
    /// let token = store.sas_for_rows::<Order>(&table, tenant, rows, TablePermissions::READ, expires)?;
    /// assert!(token.as_str().contains("spk=contoso&srk=order%5F2026%5F&epk=contoso&erk=order%5F%EF%BF%BF"));
    /// # Ok::<(), table_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`TableSas::within_rows`] and [`sas_for`](Self::sas_for).
    pub fn sas_for_rows<T: TableEntity>(
        &self,
        table: &TableName,
        partition: impl PartitionIn<T>,
        rows: impl RowBounds<T>,
        permissions: TablePermissions,
        expires: DateTime<Utc>,
    ) -> Result<SasToken> {
        self.sign(&TableSas::new(table, permissions, expires).within_rows::<T>(partition, rows)?)
    }

    /// Signs permissions on a table with the account key. Sends no request.
    ///
    /// # Errors
    /// Fails if the store has no account key; see also [`TableSas::sign`].
    pub fn sign(&self, sas: &TableSas) -> Result<SasToken> {
        sas.sign(self.account_key()?)
    }

    /// Signs permissions on the account with its key. Sends no request.
    ///
    /// # Errors
    /// Fails if the store has no account key.
    pub fn sign_account(&self, sas: &AccountSas) -> Result<SasToken> {
        self.account_key().map(|key| sas.sign(key))
    }

    fn account_key(&self) -> Result<&SharedKey> {
        let missing = || {
            Error::misuse(
                "only a store with an account key can sign; this store has a token or a SAS",
            )
        };
        self.key.as_ref().ok_or_else(missing)
    }
}
