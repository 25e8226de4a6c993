//! Authorization by account keys and by signatures made with them.

mod permit;
mod range;
mod sas;
mod shared_key;

use std::net::IpAddr;

use chrono::{DateTime, Utc};
use http::{HeaderMap, Method};

pub(crate) use permit::{Action, Permit};
#[cfg(test)]
pub(crate) use range::Bound;
pub(crate) use range::KeyRange;
#[cfg(fuzzing)]
pub(crate) use sas::string_to_sign;

use crate::address::Address;
use crate::errors::{Failure, Result};
use crate::tenant::Tenant;

/// The parts of a request that authorization uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials<'a> {
    pub(crate) method: &'a Method,
    pub(crate) address: &'a Address,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) peer: IpAddr,
    /// Whether the connection is encrypted.
    pub(crate) secure: bool,
    pub(crate) now: DateTime<Utc>,
}

impl Credentials<'_> {
    /// Returns what the request's credential allows.
    pub(crate) async fn check(&self, tenant: &Tenant) -> Result<Permit> {
        let has_signature = self.address.parameters.has("sig");
        if self.headers.contains_key(http::header::AUTHORIZATION) {
            match shared_key::check(self, &tenant.account) {
                Ok(()) => return Ok(Permit::Owner),
                // A request with a valid SAS would be allowed without the header, so the header takes nothing away. Clients sign paths in
                // several ways, and some send both.
                Err(failure) if !has_signature => return Err(failure),
                Err(_) => {}
            }
        }
        if has_signature {
            return sas::check(self, tenant).await;
        }
        Err(Failure::new(
            http::StatusCode::UNAUTHORIZED,
            "NoAuthenticationInformation",
            "Server failed to authenticate the request. The request has no Authorization header and no shared access signature.",
        ))
    }
}
