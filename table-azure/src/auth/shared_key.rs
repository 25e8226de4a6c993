use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::headers::{AUTHORIZATION, CONTENT_TYPE, HeaderName};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Datelike as _, Timelike as _, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use table_core::{Error, Result};
use zeroize::Zeroizing;

use crate::rest::text;

/// An account name and one of the account's keys. `Debug` does not print the key, and no copy of its bytes beyond the caller's text
/// outlives this value.
///
/// ```
/// use table_azure::SharedKey;
/// let key = SharedKey::new("devstoreaccount1", "c2VjcmV0")?;
/// assert_eq!(format!("{key:?}"), "SharedKey(devstoreaccount1)");
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone)]
pub struct SharedKey {
    account: Arc<str>,
    mac: Hmac<Sha256>,
    emulator: Option<Emulator>,
}

/// The emulators. Their keys are published, so they are not secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emulator {
    Storage,
    CosmosDb,
}

/// <https://learn.microsoft.com/azure/storage/common/storage-use-azurite#well-known-storage-account-and-key>
pub(super) const STORAGE_EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// <https://learn.microsoft.com/azure/cosmos-db/emulator#authentication>
const COSMOS_EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

impl SharedKey {
    /// Creates a key from the account name and the base64 text that the portal shows.
    ///
    /// # Errors
    /// Fails if the key is not base64.
    pub fn new(account: impl Into<Arc<str>>, key: &str) -> Result<Self> {
        let invalid = || {
            Error::invalid_argument(
                "the account key is not base64; copy the whole key, as the portal shows it",
            )
        };
        let emulator = match key {
            STORAGE_EMULATOR_KEY => Some(Emulator::Storage),
            COSMOS_EMULATOR_KEY => Some(Emulator::CosmosDb),
            _ => None,
        };
        let key = Zeroizing::new(STANDARD.decode(key).map_err(|_| invalid())?);
        // The key is hashed once, here. Each signature starts with a copy of the keyed state.
        let mac = Hmac::new_from_slice(&key).map_err(|_| invalid())?;
        Ok(Self {
            account: account.into(),
            mac,
            emulator,
        })
    }

    /// Returns the emulator that this public key belongs to, if any.
    pub(crate) const fn emulator(&self) -> Option<Emulator> {
        self.emulator
    }

    /// Returns the account name.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// Returns the base64 of the HMAC-SHA256 of `text`. Every signature of the service has this form.
    pub(crate) fn sign(&self, text: &str) -> String {
        self.sign_parts(&[text])
    }

    /// Like [`sign`](Self::sign), for a text given in parts.
    fn sign_parts(&self, parts: &[&str]) -> String {
        let mut mac = self.mac.clone();
        parts.iter().for_each(|part| mac.update(part.as_bytes()));
        STANDARD.encode(mac.finalize().into_bytes())
    }

    /// Returns the `Authorization` header of a Table service request.
    ///
    /// <https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key#table-service-shared-key-authorization>
    fn authorization(
        &self,
        verb: &str,
        content_type: &str,
        date: &str,
        path: &str,
        comp: Option<&str>,
    ) -> String {
        // The lines of the string to sign: verb, Content-MD5 (not sent, hence empty), Content-Type, date, resource.
        // The date is that of `x-ms-date`, which the service takes in place of `Date`. The resource is `/`, the
        // account, and the path as it is sent, still encoded. With an emulator, whose paths start with the account,
        // the resource contains the account twice. Of the query only `comp` is signed.
        let comp = comp.map_or(["", ""], |comp| ["?comp=", comp]);
        let text = [
            verb,
            "\n\n",
            content_type,
            "\n",
            date,
            "\n/",
            self.account(),
            path,
            comp[0],
            comp[1],
        ];
        ["SharedKey ", self.account(), ":", &self.sign_parts(&text)].concat()
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey({})", self.account)
    }
}

/// Sets the date and the signature of every attempt.
#[derive(Debug)]
pub(crate) struct SharedKeyPolicy(pub(crate) SharedKey);

pub(crate) const X_MS_DATE: HeaderName = HeaderName::from_static("x-ms-date");

#[expect(
    elided_lifetimes_in_paths,
    reason = "`async_trait` would name a lifetime that the trait does not"
)]
#[async_trait]
impl Policy for SharedKeyPolicy {
    async fn send(
        &self,
        ctx: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        // Every attempt needs a new date: the service refuses a date that is more than 15 minutes old.
        let date = http_date(Utc::now());
        let content_type = text(request.headers(), &CONTENT_TYPE).unwrap_or_default();
        let url = request.url();
        let comp = url
            .query_pairs()
            .find(|(name, _)| name == "comp")
            .map(|(_, value)| value);
        let verb = request.method().as_str();
        let authorization =
            self.0
                .authorization(verb, content_type, &date, url.path(), comp.as_deref());
        request.insert_header(X_MS_DATE, date);
        request.insert_header(AUTHORIZATION, authorization);
        next[0].send(ctx, request, &next[1..]).await
    }
}

/// Formats a time as an HTTP date (RFC 1123).
pub(crate) fn http_date(time: DateTime<Utc>) -> String {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    // Several times faster than `chrono`'s formats; every request needs a date.
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
        DAYS[time.weekday().num_days_from_monday() as usize],
        time.day(),
        MONTHS[time.month0() as usize],
        time.year(),
        time.hour(),
        time.minute(),
        time.second(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The string to sign is the documentation's example; the key is made up. Python's `hmac` computed the
    /// expected signatures.
    #[test]
    fn signs_verb_type_date_and_resource() {
        let key = SharedKey::new("testaccount1", "a2V5").unwrap();
        let date = "Sun, 11 Oct 2009 19:52:39 GMT";
        let header = key.authorization("GET", "", date, "/Tables", None);
        assert_eq!(
            header,
            "SharedKey testaccount1:0XNddghDhtfA5PA3/C6B3onQP9E/OaX+QqQCcpLyRQs="
        );
        let header = key.authorization("GET", "", date, "/T", Some("acl"));
        assert_eq!(
            header,
            "SharedKey testaccount1:YgTNSyEiJTfm9E0zoSCTsV1f/rP6Fu/1UlHX4N5+HB0="
        );
    }

    /// RFC 4231, test case 2.
    #[test]
    fn the_signature_is_hmac_sha256() {
        let key = SharedKey::new("a", &STANDARD.encode("Jefe")).unwrap();
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let signature = STANDARD
            .decode(key.sign("what do ya want for nothing?"))
            .unwrap();
        assert_eq!(
            signature
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect::<String>(),
            expected
        );
    }

    #[test]
    fn dates_are_rfc_1123() {
        assert_eq!(
            http_date(DateTime::UNIX_EPOCH),
            "Thu, 01 Jan 1970 00:00:00 GMT"
        );
        for days in 0..800 {
            let time =
                DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(days * 86_399 + 1_700_000_000);
            assert_eq!(
                http_date(time),
                time.format("%a, %d %b %Y %H:%M:%S GMT").to_string()
            );
        }
    }

    #[test]
    fn a_key_that_is_not_base64_is_refused_without_showing_it() {
        let message = SharedKey::new("a", "se7en!").unwrap_err().to_string();
        assert!(message.contains("base64") && !message.contains("se7en"));
    }
}
