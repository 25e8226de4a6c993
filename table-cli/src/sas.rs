//! `tables sas`.

use std::net::Ipv4Addr;
use std::ops::Bound;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use clap::{Args, Subcommand};
use serde_json::json;
use table_azure::AzureTableStore;
use table_azure::sas::{
    AccountPermissions, AccountResources, AccountSas, IpRange, SasProtocol, SasRange, SasToken,
    TablePermissions, TableSas,
};
use table_core::model::{PartitionKey, TableName, Ticks, key_order};
use table_core::query::Range;

use crate::failure::{Failure, Result};
use crate::output::{print, print_json};
use crate::selection::{partition_key, row_key};
use crate::store::StoreName;

/// The arguments of `tables sas`.
#[derive(Debug, Args)]
pub(crate) struct SasArgs {
    #[command(subcommand)]
    scope: Scope,
}

#[derive(Debug, Subcommand)]
enum Scope {
    /// Sign for a table, one of its partitions, or a range of rows
    Table(Box<TableArgs>),
    /// Sign for every table of the account
    Account(AccountArgs),
}

const TABLE_PERMISSIONS: &str = "\
Permissions, one letter each:
  r  get and query entities
  a  insert entities
  u  replace and merge entities; with a also insert-or-replace and insert-or-merge
  d  delete entities

A signature covers every row with the keys, index entries too. Without a range it covers the partitions up to ~~: neither the manifest of the table nor partitions whose keys start with a character after ~, such as é. Whoever may add rows to the manifest can add index definitions and expiries, by which other programs act; programs that maintain indexes need it. Give --with-manifest to programs of the table's owner alone.";

const ACCOUNT_PERMISSIONS: &str = "\
Permissions, one letter each:
  r  get and query entities          w  create tables, set their policies
  a  insert entities                 d  delete tables and entities
  u  replace and merge entities      l  list the tables
                                     c  create tables
Resources, one letter each:
  s  the account: the list of its tables
  c  tables: creating and deleting them
  o  entities";

#[derive(Debug, Args)]
#[command(after_help = TABLE_PERMISSIONS)]
struct TableArgs {
    /// An account with its key: azure, azurite, env:NAME or file:PATH
    store: StoreName,
    /// The table
    table: TableName,
    /// What the holder may do: letters of r, a, u, d
    #[arg(long, value_name = "LETTERS", required_unless_present = "policy")]
    permissions: Option<TablePermissions>,
    /// When the signature ends: a time such as 2026-01-31T00:00:00Z, or after a duration such as 8h or 7d
    #[arg(long, value_name = "TIME", required_unless_present = "policy")]
    expires: Option<Moment>,
    /// Only the partition with this PartitionKey
    #[arg(long, value_name = "P", conflicts_with = "from_partition", value_parser = partition_key)]
    partition: Option<String>,
    /// Only the rows of the partition whose RowKey starts with this text
    #[arg(long, value_name = "R", requires = "partition", conflicts_with_all = ["from_row", "to_row"], value_parser = row_key)]
    row_prefix: Option<String>,
    /// Only the rows of the partition from this RowKey on
    #[arg(long, value_name = "R", requires = "partition", value_parser = row_key)]
    from_row: Option<String>,
    /// Only the rows of the partition up to this RowKey, with it
    #[arg(long, value_name = "R", requires = "partition", value_parser = row_key)]
    to_row: Option<String>,
    /// Also the manifest of the table and every other partition after `~~`: for programs of the table's owner
    #[arg(long, conflicts_with_all = ["partition", "from_partition"])]
    with_manifest: bool,
    /// Only the partitions from this PartitionKey on
    #[arg(long, value_name = "P", requires = "to_partition", value_parser = partition_key)]
    from_partition: Option<String>,
    /// Only the partitions up to this PartitionKey, with it
    #[arg(long, value_name = "P", requires = "from_partition", value_parser = partition_key)]
    to_partition: Option<String>,
    /// A stored access policy of the table, which has the values that are not given, and by which the signature is revoked
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    #[command(flatten)]
    limits: Limits,
}

#[derive(Debug, Args)]
#[command(after_help = ACCOUNT_PERMISSIONS)]
struct AccountArgs {
    /// An account with its key: azure, azurite, env:NAME or file:PATH
    store: StoreName,
    /// What the holder may do: letters of r, w, d, l, a, c, u
    #[arg(long, value_name = "LETTERS")]
    permissions: AccountPermissions,
    /// What the permissions are for: letters of s, c, o
    #[arg(long, value_name = "LETTERS", default_value = "sco")]
    resources: AccountResources,
    /// When the signature ends: a time such as 2026-01-31T00:00:00Z, or after a duration such as 8h or 7d
    #[arg(long, value_name = "TIME")]
    expires: Moment,
    #[command(flatten)]
    limits: Limits,
}

/// The options of every signature.
#[derive(Debug, Args)]
struct Limits {
    /// When the signature begins, if it is not valid at once; clocks differ by minutes
    #[arg(long, value_name = "TIME")]
    starts: Option<Moment>,
    /// Only requests from this IPv4 address, or from a range A-B
    #[arg(long, value_name = "ADDRESS", value_parser = addresses)]
    ip: Option<IpRange>,
    /// Print JSON with the URL, the endpoint and the times
    #[arg(long)]
    json: bool,
}

/// A time, or a duration from now.
#[derive(Clone, Copy, Debug)]
enum Moment {
    At(DateTime<Utc>),
    After(Duration),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse::<Ticks>() {
            return Ok(Self::At(time.to_datetime()));
        }
        humantime::parse_duration(text)
            .map(Self::After)
            .map_err(|_| {
                "use a time such as 2026-01-31T00:00:00Z, or a duration such as 8h, 7d or 30m"
                    .to_owned()
            })
    }
}

impl Moment {
    /// The time in whole seconds, as signatures have it.
    fn after(self, now: DateTime<Utc>) -> Result<DateTime<Utc>> {
        match self {
            Self::At(time) => Some(time),
            Self::After(duration) => TimeDelta::from_std(duration)
                .ok()
                .and_then(|delta| now.checked_add_signed(delta)),
        }
        .map(|time| time.trunc_subsecs(0))
        .ok_or_else(|| Failure::misuse("the duration is too long"))
    }
}

fn addresses(text: &str) -> Result<IpRange, String> {
    let address = |text: &str| {
        text.trim().parse::<Ipv4Addr>().map_err(|_| {
            "use an IPv4 address such as 192.0.2.1, or a range such as 192.0.2.1-192.0.2.9"
                .to_owned()
        })
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = IpRange {
        first: address(first)?,
        last: address(last)?,
    };
    match range.first <= range.last {
        true => Ok(range),
        false => Err("the range of addresses ends before it starts".to_owned()),
    }
}

impl SasArgs {
    /// Signs with the account key, and prints the URL. Sends no request.
    pub(crate) fn run(&self) -> Result<()> {
        match &self.scope {
            Scope::Table(table) => table.run(),
            Scope::Account(account) => account.run(),
        }
    }
}

impl TableArgs {
    fn run(&self) -> Result<()> {
        let (table, range) = (&self.table, self.range()?);
        if self.permissions == Some(TablePermissions::NONE) {
            return Err(Failure::misuse(
                "--permissions has no letter: the signature would allow nothing",
            ));
        }
        let account = self.store.account()?;
        let times = Times::new(&self.limits, self.expires)?;
        // What the policy has must not be in the signature too: the service refuses a value from both.
        let mut sas = match (&self.policy, times.expires) {
            (Some(policy), _) => TableSas::by_policy(table, policy),
            (None, Some(expires)) => TableSas::new(table, TablePermissions::NONE, expires),
            (None, None) => return Err(Failure::misuse("give --expires")),
        }
        .with_permissions(self.permissions.unwrap_or_default())
        .with_range(range)
        .with_protocol(protocol(&account));
        if let Some(expires) = times.expires {
            sas = sas.with_expiry(expires);
        }
        if let Some(starts) = times.starts {
            sas = sas.with_start(starts);
        }
        if let Some(ip) = self.limits.ip {
            sas = sas.with_ip(ip);
        }
        print_url(
            &account,
            &account.sign(&sas).map_err(Failure::misuse)?,
            &times,
            self.limits.json,
        )
    }

    fn range(&self) -> Result<SasRange> {
        let key = |text: &str| PartitionKey::new(text).map_err(Failure::misuse);
        if let (Some(first), Some(last)) = (&self.from_partition, &self.to_partition) {
            if key_order::compare(first, last).is_gt() {
                return Err(Failure::misuse(
                    "--to-partition is before --from-partition: no partition is in the range",
                ));
            }
            return Ok(SasRange::partitions(&key(first)?, &key(last)?));
        }
        let Some(partition) = &self.partition else {
            return Ok(if self.with_manifest {
                SasRange::ALL
            } else {
                SasRange::without_manifest()
            });
        };
        let partition = SasRange::partition(&key(partition)?);
        let rows = match &self.row_prefix {
            Some(prefix) => Range {
                from: Bound::Included(prefix.clone()),
                to: key_order::prefix_end(prefix).map_or(Bound::Unbounded, Bound::Excluded),
            },
            None => Range {
                from: self
                    .from_row
                    .clone()
                    .map_or(Bound::Unbounded, Bound::Included),
                to: self
                    .to_row
                    .clone()
                    .map_or(Bound::Unbounded, Bound::Included),
            },
        };
        if rows.is_empty() {
            return Err(Failure::misuse(
                "--to-row is before --from-row: no row is in the range",
            ));
        }
        partition.rows(rows).map_err(Failure::misuse)
    }
}

impl AccountArgs {
    fn run(&self) -> Result<()> {
        if self.permissions == AccountPermissions::NONE || self.resources == AccountResources::NONE
        {
            return Err(Failure::misuse(
                "--permissions and --resources need a letter each: the signature would allow nothing",
            ));
        }
        let account = self.store.account()?;
        let times = Times::new(&self.limits, Some(self.expires))?;
        let expires = times
            .expires
            .ok_or_else(|| Failure::misuse("give --expires"))?;
        let sas = AccountSas::new(self.permissions, self.resources, expires)
            .with_protocol(protocol(&account));
        let sas = times.starts.into_iter().fold(sas, AccountSas::with_start);
        let sas = self.limits.ip.into_iter().fold(sas, AccountSas::with_ip);
        print_url(
            &account,
            &account.sign_account(&sas).map_err(Failure::misuse)?,
            &times,
            self.limits.json,
        )
    }
}

/// The times of a signature.
struct Times {
    starts: Option<DateTime<Utc>>,
    expires: Option<DateTime<Utc>>,
}

impl Times {
    fn new(limits: &Limits, expires: Option<Moment>) -> Result<Self> {
        // One time for both: between a start and an end that are durations is exactly their difference.
        let now = Utc::now();
        let starts = limits.starts.map(|time| time.after(now)).transpose()?;
        let expires = expires.map(|time| time.after(now)).transpose()?;
        if let Some(expires) = expires.filter(|expires| *expires <= starts.unwrap_or(now)) {
            return Err(Failure::misuse(format!(
                "the signature would never be valid: it ends at {}, before it starts",
                time_text(expires)
            )));
        }
        Ok(Self { starts, expires })
    }
}

fn time_text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
}

/// An emulator on this machine may have no certificate.
fn protocol(account: &AzureTableStore) -> SasProtocol {
    if account.endpoint().starts_with("http://") {
        SasProtocol::HttpsAndHttp
    } else {
        SasProtocol::HttpsOnly
    }
}

/// Prints the URL, which is a secret: it is all that the command is for.
fn print_url(
    account: &AzureTableStore,
    token: &SasToken,
    times: &Times,
    is_json: bool,
) -> Result<()> {
    let url = token.url(account.endpoint());
    if is_json {
        let report = json!({
            "url": url, "endpoint": account.endpoint(), "token": token.as_str(), "starts": times.starts.map(time_text),
            "expires": times.expires.map(time_text),
        });
        return print_json(&report);
    }
    print(&format!("{url}\n"))
}
