//! Shared access signatures: permissions on tables that are limited in scope and time and can be given to
//! others.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::{BitOr, Bound};
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use table_core::model::{Key, PartitionKey, SYSTEM_PREFIX, TableName, key_order};
use table_core::query::Range;
use table_core::typed::{Discriminator, PartitionIn, RowBounds, RowPrefix, TableEntity};
use table_core::{Error, Result};

use crate::SharedKey;

/// Defines a set of flags that is written as letters in a fixed order. The service refuses a token whose
/// letters have another order (<https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-permissions>).
macro_rules! letters {
    ($(#[$doc:meta])* $name:ident, $noun:literal: $($(#[$flag_doc:meta])* $flag:ident = $bit:literal, $letter:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(u16);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            /// All flags.
            pub const ALL: Self = Self($((1 << $bit))|*);
            $($(#[$flag_doc])* pub const $flag: Self = Self(1 << $bit);)*

            /// The letters, in the order that the service requires.
            const LETTERS: &'static [(char, Self)] = &[$(($letter, Self::$flag)),*];

            /// Whether this set contains every flag of `other`.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        /// Writes the letters of the protocol.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut set = Self::LETTERS.iter().filter(|(_, flag)| self.contains(*flag));
                set.try_for_each(|(letter, _)| fmt::Write::write_char(f, *letter))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                text.chars().try_fold(Self::NONE, |all, letter| {
                    let known = Self::LETTERS.iter().find(|(l, _)| *l == letter);
                    let unknown = || Error::invalid_argument(format!(concat!("{:?} is not a letter of ", $noun), letter));
                    known.map(|(_, flag)| all | *flag).ok_or_else(unknown)
                })
            }
        }
    };
}

letters! {
    /// Permissions on the entities of a table.
    ///
    /// ```
    /// use table_azure::sas::TablePermissions;
    /// let both = TablePermissions::UPDATE | TablePermissions::READ;
    /// assert_eq!(both.to_string(), "ru");
    /// ```
    TablePermissions, "a table's permissions":
    /// Get and query entities.
    READ = 0, 'r';
    /// Insert entities. An upsert needs `UPDATE` too.
    ADD = 1, 'a';
    /// Replace and merge entities. An upsert needs `ADD` too.
    UPDATE = 2, 'u';
    /// Delete entities.
    DELETE = 3, 'd';
}

letters! {
    /// Permissions on the tables of an account, and on its queues.
    AccountPermissions, "an account's permissions":
    /// Get and query entities; peek at messages.
    READ = 0, 'r';
    /// Create tables and queues, set properties and stored policies.
    WRITE = 1, 'w';
    /// Delete tables, queues and entities.
    DELETE = 2, 'd';
    /// List tables and queues.
    LIST = 3, 'l';
    /// Insert entities. An upsert needs `UPDATE` too. Send messages.
    ADD = 4, 'a';
    /// Create tables and queues.
    CREATE = 5, 'c';
    /// Replace and merge entities. An upsert needs `ADD` too. Renew messages.
    UPDATE = 6, 'u';
    /// Receive and delete messages.
    PROCESS = 7, 'p';
}

letters! {
    /// The services of an account that a signature covers.
    AccountServices, "an account's services":
    /// Queues.
    QUEUE = 0, 'q';
    /// Tables.
    TABLE = 1, 't';
}

letters! {
    /// The resource types of an account that a signature covers.
    AccountResources, "an account's resources":
    /// The service: properties, statistics, listing the tables.
    SERVICE = 0, 's';
    /// Tables and queues: creating, deleting, stored access policies.
    TABLE = 1, 'c';
    /// Entities and messages. Azurite also requires `TABLE` to renew or delete a message.
    ENTITY = 2, 'o';
}

/// The version of the string to sign. From 2020-12-06 on, an account SAS has one more line, for the encryption scope of blobs
/// (<https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string>).
const VERSION: &str = "2019-02-02";

/// The client addresses that a signature is valid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    /// First address.
    pub first: Ipv4Addr,
    /// Last address.
    pub last: Ipv4Addr,
}

impl From<Ipv4Addr> for IpRange {
    fn from(only: Ipv4Addr) -> Self {
        Self {
            first: only,
            last: only,
        }
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// The protocols that a signature is valid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SasProtocol {
    /// Encrypted connections only.
    #[default]
    HttpsOnly,
    /// Encrypted and unencrypted connections. The emulator needs this.
    HttpsAndHttp,
}

impl SasProtocol {
    const fn as_str(self) -> &'static str {
        match self {
            Self::HttpsOnly => "https",
            Self::HttpsAndHttp => "https,http",
        }
    }
}

/// Setters that account SAS and table SAS share.
macro_rules! restriction_setters {
    () => {
        /// Sets the start of validity. For "now", leave it unset: clocks differ.
        #[must_use]
        pub const fn with_start(mut self, start: DateTime<Utc>) -> Self {
            self.restrictions.start = Some(start);
            self
        }

        /// Restricts the signature to these client addresses.
        #[must_use]
        pub fn with_ip(mut self, ip: impl Into<IpRange>) -> Self {
            self.restrictions.ip = Some(ip.into());
            self
        }

        /// Sets the protocols that the signature is valid for.
        #[must_use]
        pub const fn with_protocol(mut self, protocol: SasProtocol) -> Self {
            self.restrictions.protocol = protocol;
            self
        }
    };
}

/// The restrictions that account SAS and table SAS share.
#[derive(Clone, Debug, Default)]
struct Restrictions {
    start: Option<DateTime<Utc>>,
    /// `None` only for a table SAS whose stored access policy sets the end.
    expiry: Option<DateTime<Utc>>,
    ip: Option<IpRange>,
    protocol: SasProtocol,
}

impl Restrictions {
    fn until(expiry: DateTime<Utc>) -> Self {
        Self {
            expiry: Some(expiry),
            ..Self::default()
        }
    }

    fn start(&self) -> String {
        self.start.map(format_time).unwrap_or_default()
    }

    fn expiry(&self) -> String {
        self.expiry.map(format_time).unwrap_or_default()
    }

    fn ip(&self) -> String {
        self.ip.map(|ip| ip.to_string()).unwrap_or_default()
    }

    const fn protocol(&self) -> &'static str {
        self.protocol.as_str()
    }
}

/// Formats a time in whole seconds, for example `2026-01-31T12:00:00Z`
/// (<https://learn.microsoft.com/rest/api/storageservices/formatting-datetime-values>). The string to sign and the token contain the same
/// text.
fn format_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A signed query string. Anyone who has it has its permissions, so [`Debug`](fmt::Debug) does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SasToken(String);

impl SasToken {
    /// Builds the query string from names and values, without empty values.
    fn new(fields: &[(&str, &str)]) -> Self {
        let given = fields.iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> = given
            // Encodes all but letters and digits. A `+` in a signature would otherwise be read as a space.
            .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
            .collect();
        Self(pairs.join("&"))
    }

    /// Returns the query string, without a leading `?`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the endpoint with the signature, as [`with_sas`](crate::AzureTableStore::with_sas) expects it.
    pub fn url(&self, endpoint: &str) -> String {
        format!("{}/?{}", endpoint.trim_end_matches('/'), self.0)
    }
}

impl fmt::Debug for SasToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SasToken")
    }
}

/// The range of entities that a signature covers, in the service's order, with both ends included.
///
/// A bound of the RowKey applies together with the PartitionKey of the same end. A range over several
/// partitions therefore does not bound the RowKeys in each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SasRange {
    start_partition: Option<String>,
    start_row: Option<String>,
    end_partition: Option<String>,
    end_row: Option<String>,
}

impl SasRange {
    /// The whole table, with its manifest. A client that may add rows to the manifest can add index definitions, expiries and other rows
    /// by which programs act: give this range to programs of the table's owner alone.
    pub const ALL: Self = Self {
        start_partition: None,
        start_row: None,
        end_partition: None,
        end_row: None,
    };

    /// The partitions up to `~~`, without the manifest and the other system partitions, which follow. Partitions whose keys start
    /// with a character after `~`, such as `é` or `北`, are not covered either: the service has one range for a signature.
    pub fn without_manifest() -> Self {
        Self {
            end_partition: Some(SYSTEM_PREFIX.to_owned()),
            ..Self::ALL
        }
    }

    /// One partition.
    pub fn partition(partition: &PartitionKey) -> Self {
        Self::partitions(partition, partition)
    }

    /// All partitions from `first` to `last`.
    pub fn partitions(first: &PartitionKey, last: &PartitionKey) -> Self {
        let text = |key: &PartitionKey| Some(key.as_str().to_owned());
        Self {
            start_partition: text(first),
            end_partition: text(last),
            ..Self::ALL
        }
    }

    /// All entities from `first` to `last`.
    pub fn entities(first: &Key, last: &Key) -> Self {
        Self {
            start_partition: Some(first.partition().to_owned()),
            start_row: Some(first.row().to_owned()),
            end_partition: Some(last.partition().to_owned()),
            end_row: Some(last.row().to_owned()),
        }
    }

    /// Restricts one partition to a range of RowKeys. If the range excludes its end, the signature ends just
    /// before it: at the end with its last character replaced by the preceding one, plus one U+FFFF. The
    /// signature then omits the few rows in between, and never covers a row outside the range.
    ///
    /// # Errors
    /// Fails if the range is not one partition.
    ///
    /// ```
    /// use table_azure::sas::SasRange;
    /// use table_core::model::PartitionKey;
    /// use table_core::query::{Filter, Query};
    /// let rows = Query::new().with_filter(Filter::starts_with(Filter::ROW_KEY, "order_")).bounds().row;
    /// let orders = SasRange::partition(&PartitionKey::new("contoso")?).rows(rows)?;
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn rows(mut self, rows: Range) -> Result<Self> {
        if self.start_partition.is_none() || self.start_partition != self.end_partition {
            return Err(Error::misuse(
                "a range of RowKeys needs one partition; restrict the signature to a partition first",
            ));
        }
        self.start_row = match rows.from {
            Bound::Included(text) => Some(text),
            // Both ends of a SAS are included. The next RowKey after a text is the text followed by the smallest character.
            Bound::Excluded(text) => Some(format!("{text}{SMALLEST_CHAR}")),
            Bound::Unbounded => None,
        };
        self.end_row = match rows.to {
            Bound::Included(text) => Some(text),
            Bound::Excluded(text) => Some(end_before(&text)?),
            Bound::Unbounded => None,
        };
        Ok(self)
    }
}

impl SasRange {
    /// Returns the four fields; a missing bound is an empty field.
    ///
    /// # Errors
    /// Fails for an end at the empty key: the protocol would read it as "no end" and allow everything. Fails for a RowKey without the
    /// PartitionKey of the same end: the service refuses such a signature.
    fn fields(&self) -> Result<[&str; 4]> {
        // The token omits empty parameters, and a range without an end is unbounded.
        if [&self.end_partition, &self.end_row]
            .into_iter()
            .any(|end| end.as_deref() == Some(""))
        {
            return Err(Error::invalid_argument(
                "a signature cannot end at an empty key: the service would read it as 'no end'",
            ));
        }
        // <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#specify-table-access-ranges>: `startpk` must
        // accompany `startrk`.
        let has_text =
            |field: &Option<String>| field.as_deref().is_some_and(|text| !text.is_empty());
        if has_text(&self.start_row) && !has_text(&self.start_partition) {
            return Err(Error::invalid_argument(
                "a signature cannot start at a RowKey in the partition with the empty PartitionKey: the service refuses it; start at \
                 another partition, or at the start of the table",
            ));
        }
        let fields = [
            &self.start_partition,
            &self.start_row,
            &self.end_partition,
            &self.end_row,
        ];
        Ok(fields.map(|field| field.as_deref().unwrap_or_default()))
    }
}

/// The smallest character of a key: the service refuses control characters in keys.
const SMALLEST_CHAR: char = ' ';

/// Returns a RowKey before `end`, as the included end of a range. Between the two are only RowKeys that start with the returned text and go
/// on after its U+FFFF.
fn end_before(end: &str) -> Result<String> {
    key_order::key_text_before(end)
        .ok_or_else(|| Error::invalid_argument("no RowKey precedes the empty RowKey"))
}

/// A shared access signature for the tables of an account, and optionally for its queues.
///
/// Valid over https only, unless [`with_protocol`](Self::with_protocol) changes it.
///
/// <https://learn.microsoft.com/rest/api/storageservices/create-account-sas>
///
/// ```
/// use chrono::{TimeDelta, Utc};
/// use table_azure::SharedKey;
/// use table_azure::sas::{AccountPermissions, AccountResources, AccountSas, AccountServices};
/// let reads = AccountPermissions::READ | AccountPermissions::LIST;
/// let sas = AccountSas::new(reads, AccountResources::ALL, Utc::now() + TimeDelta::hours(1))
///     .with_services(AccountServices::TABLE | AccountServices::QUEUE)
///     .with_ip("203.0.113.7".parse::<std::net::Ipv4Addr>().expect("an address"));
/// let token = sas.sign(&SharedKey::new("account", "a2V5")?);
/// assert!(token.as_str().contains("sp=rl"));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AccountSas {
    permissions: AccountPermissions,
    resources: AccountResources,
    services: AccountServices,
    restrictions: Restrictions,
}

impl AccountSas {
    /// Permissions up to an expiry time, in whole seconds.
    pub fn new(
        permissions: AccountPermissions,
        resources: AccountResources,
        expires: DateTime<Utc>,
    ) -> Self {
        Self {
            permissions,
            resources,
            services: AccountServices::TABLE,
            restrictions: Restrictions::until(expires),
        }
    }

    /// Sets the services that the signature is for. Default: tables only.
    #[must_use]
    pub const fn with_services(mut self, services: AccountServices) -> Self {
        self.services = services;
        self
    }

    restriction_setters!();

    /// Signs the permissions. Sends no request.
    pub fn sign(&self, key: &SharedKey) -> SasToken {
        let signature = key.sign(&self.string_to_sign(key.account()));
        SasToken::new(&[
            ("sv", VERSION),
            ("ss", &self.services.to_string()),
            ("srt", &self.resources.to_string()),
            ("sp", &self.permissions.to_string()),
            ("st", &self.restrictions.start()),
            ("se", &self.restrictions.expiry()),
            ("sip", &self.restrictions.ip()),
            ("spr", self.restrictions.protocol()),
            ("sig", &signature),
        ])
    }

    fn string_to_sign(&self, account: &str) -> String {
        // Every field has its line, also an empty one, and a line end follows the last one:
        // <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string>.
        let Self {
            permissions,
            resources,
            services,
            restrictions,
        } = self;
        format!(
            "{account}\n{permissions}\n{services}\n{resources}\n{}\n{}\n{}\n{}\n{VERSION}\n",
            restrictions.start(),
            restrictions.expiry(),
            restrictions.ip(),
            restrictions.protocol()
        )
    }
}

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
///     .with_range(SasRange::partition(&PartitionKey::new("contoso")?));
/// let token = sas.sign(&SharedKey::new("account", "a2V5")?)?;
/// assert!(token.as_str().contains("spk=contoso&epk=contoso"));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableSas {
    table: TableName,
    permissions: TablePermissions,
    /// The id of a stored access policy; empty without a policy.
    policy: String,
    range: SasRange,
    restrictions: Restrictions,
}

impl TableSas {
    /// Permissions up to an expiry time, in whole seconds.
    pub fn new(table: &TableName, permissions: TablePermissions, expires: DateTime<Utc>) -> Self {
        Self {
            permissions,
            ..Self::without_permissions(table, Restrictions::until(expires))
        }
    }

    /// Uses an access policy that is stored with the table, where it can be changed and revoked.
    ///
    /// Set the values that the policy omits by [`with_permissions`](Self::with_permissions), `with_start` and
    /// [`with_expiry`](Self::with_expiry). The service refuses a value that both the policy and the signature set.
    pub fn by_policy(table: &TableName, policy: &str) -> Self {
        Self {
            policy: policy.to_owned(),
            ..Self::without_permissions(table, Restrictions::default())
        }
    }

    fn without_permissions(table: &TableName, restrictions: Restrictions) -> Self {
        let permissions = TablePermissions::NONE;
        let range = SasRange::without_manifest();
        Self {
            table: table.clone(),
            permissions,
            policy: String::new(),
            range,
            restrictions,
        }
    }

    /// Sets the expiry time, in whole seconds.
    #[must_use]
    pub const fn with_expiry(mut self, expires: DateTime<Utc>) -> Self {
        self.restrictions.expiry = Some(expires);
        self
    }

    /// Sets the permissions.
    #[must_use]
    pub const fn with_permissions(mut self, permissions: TablePermissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Sets the range of entities. The default is [`SasRange::without_manifest`]. Programs that maintain indexes, or that write the
    /// first entity of a type, need the manifest too: [`SasRange::ALL`]. A program with less is told so by its first write.
    #[must_use]
    pub fn with_range(mut self, range: SasRange) -> Self {
        self.range = range;
        self
    }

    /// Restricts the signature to the entities of `T` in one partition. It does not cover types with other
    /// row prefixes. It does cover types that differ only in a property, because the service checks keys
    /// only.
    ///
    /// # Errors
    /// Fails if `T` has a `discriminator(partition_prefix)` and the PartitionKey does not start with the prefix.
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
            return Err(Error::invalid_argument(format!(
                "no RowKey of {} is in the range; the signature would allow nothing",
                T::SCHEMA.rust_name
            )));
        }
        Ok(self.with_range(SasRange::partition(partition).rows(rows)?))
    }

    restriction_setters!();

    /// Signs the permissions. Sends no request.
    ///
    /// # Errors
    /// Fails if the range ends at an empty key, or starts at a RowKey in the partition with the empty PartitionKey: the protocol cannot
    /// express them. Fails if a policy name or key has control characters.
    pub fn sign(&self, key: &SharedKey) -> Result<SasToken> {
        let range = self.range.fields()?;
        // A control character could end a line of the string to sign.
        if range
            .into_iter()
            .chain([&*self.policy])
            .any(|field| field.contains(char::is_control))
        {
            return Err(Error::invalid_argument(
                "the policy name or a key of the range has control characters",
            ));
        }
        let signature = key.sign(&self.string_to_sign(key.account(), range));
        let [start_partition, start_row, end_partition, end_row] = range;
        Ok(SasToken::new(&[
            ("sv", VERSION),
            ("tn", &self.table.to_lowercase()),
            ("sp", &self.permissions.to_string()),
            ("st", &self.restrictions.start()),
            ("se", &self.restrictions.expiry()),
            ("si", &self.policy),
            ("sip", &self.restrictions.ip()),
            ("spr", self.restrictions.protocol()),
            ("spk", start_partition),
            ("srk", start_row),
            ("epk", end_partition),
            ("erk", end_row),
            ("sig", &signature),
        ]))
    }

    fn string_to_sign(&self, account: &str, range: [&str; 4]) -> String {
        // Every field has its line, also an empty one, in this order:
        // <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#construct-the-signature-string>.
        // The service builds the same text from the parameters of the token; no line end follows the last line.
        let table = self.table.to_lowercase();
        let range = range.join("\n");
        format!(
            "{}\n{}\n{}\n/table/{account}/{table}\n{}\n{}\n{}\n{VERSION}\n{range}",
            self.permissions,
            self.restrictions.start(),
            self.restrictions.expiry(),
            self.policy,
            self.restrictions.ip(),
            self.restrictions.protocol()
        )
    }
}

/// The RowKeys with the row prefix of `T`; every RowKey if `T` has no row prefix.
fn all_rows<T: TableEntity>() -> Result<Range> {
    match &T::SCHEMA.discriminator {
        Discriminator::RowPrefix(prefix) => RowPrefix::<T>::escaped(&**prefix).into_range(),
        _ => Ok(Range::ALL),
    }
}

/// Checks the key: the type of a [`PartitionKey`] does not prove that it is one of `T`.
fn check_partition<T: TableEntity>(partition: &PartitionKey) -> Result<()> {
    match &T::SCHEMA.discriminator {
        Discriminator::PartitionPrefix(prefix) if !partition.as_str().starts_with(&**prefix) => {
            Err(Error::invalid_argument(format!(
                "the partition {:?} has no entities of {}: their PartitionKeys start with {prefix:?}",
                partition.as_str(),
                T::SCHEMA.rust_name
            )))
        }
        _ => Ok(()),
    }
}
