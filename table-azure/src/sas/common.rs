use std::fmt;
use std::net::Ipv4Addr;

use chrono::{DateTime, SecondsFormat, Utc};

/// The version of the string to sign. From 2020-12-06 on, an account SAS has one more line, for the encryption scope of blobs
/// (<https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string>).
pub(super) const VERSION: &str = "2019-02-02";

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
        Self { first: only, last: only }
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
macro_rules! limit_setters {
    () => {
        /// Sets the start of validity. For "now", leave it unset: clocks differ.
        #[must_use]
        pub const fn with_start(mut self, start: DateTime<Utc>) -> Self {
            self.limits.start = Some(start);
            self
        }

        /// Restricts the signature to these client addresses.
        #[must_use]
        pub fn from_ip(mut self, ip: impl Into<IpRange>) -> Self {
            self.limits.ip = Some(ip.into());
            self
        }

        /// Sets the protocols that the signature is valid for.
        #[must_use]
        pub const fn with_protocol(mut self, protocol: SasProtocol) -> Self {
            self.limits.protocol = protocol;
            self
        }
    };
}

pub(super) use limit_setters;

/// The restrictions that account SAS and table SAS share.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    pub(super) start: Option<DateTime<Utc>>,
    pub(super) expiry: Option<DateTime<Utc>>,
    pub(super) ip: Option<IpRange>,
    pub(super) protocol: SasProtocol,
}

impl Limits {
    pub(super) fn until(expiry: DateTime<Utc>) -> Self {
        Self { expiry: Some(expiry), ..Self::default() }
    }

    pub(super) fn start(&self) -> String {
        self.start.map(time).unwrap_or_default()
    }

    pub(super) fn expiry(&self) -> String {
        self.expiry.map(time).unwrap_or_default()
    }

    pub(super) fn ip(&self) -> String {
        self.ip.map(|ip| ip.to_string()).unwrap_or_default()
    }

    pub(super) const fn protocol(&self) -> &'static str {
        self.protocol.as_str()
    }
}

fn time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
