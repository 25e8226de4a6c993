use chrono::{DateTime, Utc};

use super::common::{Limits, VERSION, limit_setters};
use super::{AccountPermissions, AccountResources, AccountServices, IpRange, SasProtocol, SasToken};
use crate::SharedKey;

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
///     .from_ip("203.0.113.7".parse::<std::net::Ipv4Addr>().expect("an address"));
/// let token = sas.sign(&SharedKey::new("account", "a2V5")?);
/// assert!(token.as_str().contains("sp=rl"));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AccountSas {
    permissions: AccountPermissions,
    resources: AccountResources,
    services: AccountServices,
    limits: Limits,
}

impl AccountSas {
    /// Permissions up to an expiry time, in whole seconds.
    pub fn new(permissions: AccountPermissions, resources: AccountResources, expires: DateTime<Utc>) -> Self {
        Self { permissions, resources, services: AccountServices::TABLE, limits: Limits::until(expires) }
    }

    /// Sets the services that the signature is for. Default: tables only.
    #[must_use]
    pub const fn with_services(mut self, services: AccountServices) -> Self {
        self.services = services;
        self
    }

    limit_setters!();

    /// Signs the permissions. Sends no request.
    pub fn sign(&self, key: &SharedKey) -> SasToken {
        let signature = key.sign(&self.string_to_sign(key.account()));
        SasToken::new(&[
            ("sv", VERSION),
            ("ss", &self.services.to_string()),
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
        // Every field has its line, also an empty one, and a line end follows the last one:
        // <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string>.
        let Self { permissions, resources, services, limits } = self;
        format!(
            "{account}\n{permissions}\n{services}\n{resources}\n{}\n{}\n{}\n{}\n{VERSION}\n",
            limits.start(),
            limits.expiry(),
            limits.ip(),
            limits.protocol()
        )
    }
}
