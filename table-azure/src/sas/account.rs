use chrono::{DateTime, Utc};

use super::common::{Limits, VERSION};
use super::{AccountPermissions, AccountResources, IpRange, SasProtocol, SasToken};
use crate::SharedKey;

/// Rights on the tables of an account.
///
/// Over https alone unless [`over`](Self::over) says otherwise.
///
/// <https://learn.microsoft.com/rest/api/storageservices/create-account-sas>
///
/// ```
/// use chrono::{TimeDelta, Utc};
/// use table_azure::SharedKey;
/// use table_azure::sas::{AccountPermissions, AccountResources, AccountSas};
/// let reads = AccountPermissions::READ | AccountPermissions::LIST;
/// let sas = AccountSas::new(reads, AccountResources::ALL, Utc::now() + TimeDelta::hours(1));
/// let token = sas.sign(&SharedKey::new("account", "a2V5")?);
/// assert!(token.as_str().contains("sp=rl"));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AccountSas {
    permissions: AccountPermissions,
    resources: AccountResources,
    limits: Limits,
}

impl AccountSas {
    /// Rights until a time, to the second.
    pub fn new(permissions: AccountPermissions, resources: AccountResources, expires: DateTime<Utc>) -> Self {
        Self { permissions, resources, limits: Limits::until(expires) }
    }

    /// Not before a time. Clocks differ: leave it out for "now".
    #[must_use]
    pub const fn starting(mut self, start: DateTime<Utc>) -> Self {
        self.limits.start = Some(start);
        self
    }

    /// From these addresses alone.
    #[must_use]
    pub fn from_ip(mut self, ip: impl Into<IpRange>) -> Self {
        self.limits.ip = Some(ip.into());
        self
    }

    /// Over these protocols.
    #[must_use]
    pub const fn over(mut self, protocol: SasProtocol) -> Self {
        self.limits.protocol = protocol;
        self
    }

    /// Signs. No request.
    pub fn sign(&self, key: &SharedKey) -> SasToken {
        let signature = key.sign(&self.string_to_sign(key.account()));
        SasToken::new(&[
            ("sv", VERSION),
            ("ss", SERVICE),
            ("srt", &self.resources.to_string()),
            ("sp", &self.permissions.to_string()),
            ("st", &self.limits.start()),
            ("se", &self.limits.expiry()),
            ("sip", &self.limits.ip()),
            ("spr", self.limits.protocol()),
            ("sig", &signature),
        ])
    }

    pub(super) fn string_to_sign(&self, account: &str) -> String {
        let Self { permissions, resources, limits } = self;
        format!(
            "{account}\n{permissions}\n{SERVICE}\n{resources}\n{}\n{}\n{}\n{}\n{VERSION}\n",
            limits.start(),
            limits.expiry(),
            limits.ip(),
            limits.protocol()
        )
    }
}

/// The letter of the Table service.
const SERVICE: &str = "t";
