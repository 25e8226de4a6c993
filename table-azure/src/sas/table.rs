use chrono::{DateTime, Utc};
use table_core::model::{PartitionKey, TableName};
use table_core::query::Range;
use table_core::typed::{Discriminator, PartitionIn, RowBounds, RowPrefix, TableEntity};
use table_core::{Error, Result};

use super::common::{Limits, VERSION, limit_setters};
use super::{IpRange, SasProtocol, SasRange, SasToken, TablePermissions};
use crate::SharedKey;

/// A shared access signature for the entities of a table, or for a range of them.
///
/// Valid over https only, unless [`with_protocol`](Self::with_protocol) changes it.
///
/// <https://learn.microsoft.com/rest/api/storageservices/create-service-sas>
///
/// ```
/// use chrono::{TimeDelta, Utc};
/// use table_azure::SharedKey;
/// use table_azure::sas::{SasRange, TablePermissions, TableSas};
/// use table_core::model::{PartitionKey, TableName};
/// let orders = TableName::new("Orders")?;
/// let sas = TableSas::new(&orders, TablePermissions::READ, Utc::now() + TimeDelta::hours(1))
///     .within(SasRange::partition(&PartitionKey::new("contoso")?));
/// let token = sas.sign(&SharedKey::new("account", "a2V5")?)?;
/// assert!(token.as_str().contains("spk=contoso&epk=contoso"));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableSas {
    table: TableName,
    permissions: TablePermissions,
    policy: String,
    range: SasRange,
    limits: Limits,
}

impl TableSas {
    /// Permissions up to an expiry time, in whole seconds.
    pub fn new(table: &TableName, permissions: TablePermissions, expires: DateTime<Utc>) -> Self {
        Self { permissions, ..Self::bare(table, Limits::until(expires)) }
    }

    /// Uses an access policy that is stored with the table, where it can be changed and revoked.
    ///
    /// Set the values that the policy omits by [`with_permissions`](Self::with_permissions), `with_start` and
    /// [`with_expiry`](Self::with_expiry). The service refuses a value that both the policy and the signature set.
    pub fn by_policy(table: &TableName, policy: &str) -> Self {
        Self { policy: policy.to_owned(), ..Self::bare(table, Limits::default()) }
    }

    fn bare(table: &TableName, limits: Limits) -> Self {
        let permissions = TablePermissions::NONE;
        Self { table: table.clone(), permissions, policy: String::new(), range: SasRange::ALL, limits }
    }

    /// Sets the expiry time, in whole seconds.
    #[must_use]
    pub const fn with_expiry(mut self, expires: DateTime<Utc>) -> Self {
        self.limits.expiry = Some(expires);
        self
    }

    /// Sets the permissions.
    #[must_use]
    pub const fn with_permissions(mut self, permissions: TablePermissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Restricts the signature to a range of entities.
    #[must_use]
    pub fn within(mut self, range: SasRange) -> Self {
        self.range = range;
        self
    }

    /// Restricts the signature to the entities of `T` in one partition. It does not cover types with other
    /// row prefixes. It does cover types that differ only in a property, because the service checks keys
    /// only.
    ///
    /// # Errors
    /// Fails if the PartitionKey does not match the key template of `T`.
    pub fn within_partition<T: TableEntity>(self, partition: impl PartitionIn<T>) -> Result<Self> {
        self.within_rows_of::<T>(partition.partition_key(), Range::ALL)
    }

    /// Restricts the signature to the entities of `T` in one partition with these RowKeys. An open end stops
    /// at the last row of `T`, as far as [`within_partition`](Self::within_partition) can separate it from
    /// other types.
    ///
    /// # Errors
    /// Fails if a part of a RowKey cannot be encoded or if no RowKey of `T` is in the range; see also
    /// [`within_partition`](Self::within_partition).
    pub fn within_rows<T: TableEntity>(
        self,
        partition: impl PartitionIn<T>,
        rows: impl RowBounds<T>,
    ) -> Result<Self> {
        self.within_rows_of::<T>(partition.partition_key(), rows.into_range()?)
    }

    fn within_rows_of<T: TableEntity>(self, partition: &PartitionKey, rows: Range) -> Result<Self> {
        check_partition::<T>(partition)?;
        let rows = rows.intersect(all_rows::<T>()?);
        if rows.is_empty() {
            return Err(Error::invalid_request(format!(
                "no RowKey of {} is in the range; the signature would allow nothing",
                T::SCHEMA.rust_name
            )));
        }
        Ok(self.within(SasRange::partition(partition).rows(rows)?))
    }

    limit_setters!();

    /// Signs the permissions. Sends no request.
    ///
    /// # Errors
    /// Fails if the range ends at an empty key, which the protocol cannot express, or if a policy name or key
    /// has control characters.
    pub fn sign(&self, key: &SharedKey) -> Result<SasToken> {
        let range = self.range.fields()?;
        // A control character could end a line of the string to sign.
        if range.into_iter().chain([&*self.policy]).any(|field| field.contains(char::is_control)) {
            return Err(Error::invalid_request(
                "the policy name or a key of the range has control characters",
            ));
        }
        let signature = key.sign(&self.string_to_sign(key.account(), range));
        let [start_partition, start_row, end_partition, end_row] = range;
        Ok(SasToken::new(&[
            ("sv", VERSION),
            ("tn", &self.table.to_lowercase()),
            ("sp", &self.permissions.to_string()),
            ("st", &self.limits.start()),
            ("se", &self.limits.expiry()),
            ("si", &self.policy),
            ("sip", &self.limits.ip()),
            ("spr", self.limits.protocol()),
            ("spk", start_partition),
            ("srk", start_row),
            ("epk", end_partition),
            ("erk", end_row),
            ("sig", &signature),
        ]))
    }

    pub(super) fn string_to_sign(&self, account: &str, range: [&str; 4]) -> String {
        // Every field has its line, also an empty one, in this order:
        // <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#construct-the-signature-string>.
        // The service builds the same text from the parameters of the token; no line end follows the last line.
        let table = self.table.to_lowercase();
        let range = range.join("\n");
        format!(
            "{}\n{}\n{}\n/table/{account}/{table}\n{}\n{}\n{}\n{VERSION}\n{range}",
            self.permissions,
            self.limits.start(),
            self.limits.expiry(),
            self.policy,
            self.limits.ip(),
            self.limits.protocol()
        )
    }
}

/// The smallest range of RowKeys that contains every row of `T` in a partition.
fn all_rows<T: TableEntity>() -> Result<Range> {
    match &T::SCHEMA.discriminator {
        Discriminator::RowPrefix(prefix) => RowPrefix::<T>::new(&**prefix).into_range(),
        _ => Ok(Range::ALL),
    }
}

/// Checks the key: the type of a [`PartitionKey`] does not prove that it is one of `T`.
fn check_partition<T: TableEntity>(partition: &PartitionKey) -> Result<()> {
    match &T::SCHEMA.discriminator {
        Discriminator::PartitionPrefix(prefix) if !partition.as_str().starts_with(&**prefix) => {
            Err(Error::invalid_request(format!(
                "the partition {:?} has no entities of {}: their PartitionKeys start with {prefix:?}",
                partition.as_str(),
                T::SCHEMA.rust_name
            )))
        }
        _ => Ok(()),
    }
}
