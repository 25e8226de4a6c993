//! `Authorization: SharedKey` and `SharedKeyLite`.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key>

use chrono::{DateTime, TimeDelta};

use super::Credentials;
use crate::account::Account;
use crate::errors::{Failure, Result};
use crate::request::header;

/// Maximum age or earliness of a request ("no older than 15 minutes by the time it reaches the service").
const SKEW: TimeDelta = TimeDelta::minutes(15);

pub(super) fn check(credentials: &Credentials<'_>, account: &Account) -> Result<()> {
    let malformed = || {
        Failure::new(
            http::StatusCode::BAD_REQUEST,
            "InvalidAuthenticationInfo",
            "The authentication information was not provided in the correct format. Verify the value of Authorization header.",
        )
    };
    let authorization = header(credentials.headers, "authorization").ok_or_else(malformed)?;
    let (scheme, credential) = authorization.split_once(' ').ok_or_else(malformed)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Err(token_refused(header(credentials.headers, "x-ms-version")));
    }
    let (name, signature) = credential.trim().split_once(':').ok_or_else(malformed)?;
    let lite = match scheme {
        "SharedKey" => false,
        "SharedKeyLite" => true,
        _ => return Err(malformed()),
    };
    // The signed date bounds how long a recorded request can be sent again.
    let date = date(credentials)?;
    let text = string_to_sign(credentials, account.name(), date, lite)?;
    if name == account.name() && account.has_signed(&text, signature) {
        return Ok(());
    }
    Err(Failure::unauthenticated(
        "the signature does not match this request with any key of the account",
    ))
}

/// The service's answer to a token that it does not accept. Before this version, the service knew no tokens.
fn token_refused(version: Option<&str>) -> Failure {
    if version.is_some_and(|version| version < "2020-12-06") {
        return Failure::unauthenticated("the version of the request (x-ms-version) has no tokens");
    }
    Failure::new(
        http::StatusCode::UNAUTHORIZED,
        "InvalidAuthenticationInfo",
        "Server failed to authenticate the request. Please refer to the information in the www-authenticate header. This server \
         accepts no tokens of Microsoft Entra ID: use an account key or a shared access signature.",
    )
}

/// Returns the signed date: `x-ms-date`, or `Date` if that is missing.
fn date<'a>(credentials: &Credentials<'a>) -> Result<&'a str> {
    let headers = credentials.headers;
    let date = header(headers, "x-ms-date").or_else(|| header(headers, "date"));
    let date =
        date.ok_or_else(|| Failure::unauthenticated("neither x-ms-date nor Date is specified"))?;
    let time = DateTime::parse_from_rfc2822(date)
        .map_err(|_| Failure::unauthenticated("the date is not in the RFC 1123 format"))?;
    if (credentials.now - time.to_utc()).abs() > SKEW {
        return Err(Failure::unauthenticated(
            "the date differs by more than 15 minutes from the server's clock",
        ));
    }
    Ok(date)
}

fn string_to_sign(
    credentials: &Credentials<'_>,
    account: &str,
    date: &str,
    lite: bool,
) -> Result<String> {
    // The path as it was sent: clients sign it before a proxy or this server decodes it. Headers are not signed except for these, and of
    // the query only `comp`: <https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key#table-service-shared-key-authorization>.
    let path = &credentials.address.raw_path;
    let comp = credentials.address.parameters.get("comp")?;
    let comp = comp.map(|comp| format!("?comp={comp}")).unwrap_or_default();
    if lite {
        return Ok(format!("{date}\n/{account}{path}{comp}"));
    }
    let method = credentials.method.as_str();
    let md5 = header(credentials.headers, "content-md5").unwrap_or_default();
    let content_type = header(credentials.headers, "content-type").unwrap_or_default();
    Ok(format!(
        "{method}\n{md5}\n{content_type}\n{date}\n/{account}{path}{comp}"
    ))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;
    use crate::address::Address;

    const DATE: &str = "Sun, 11 Oct 2009 19:52:39 GMT";

    fn attempt(
        path: &str,
        headers: &[(&'static str, &str)],
        minutes: i64,
    ) -> Result<(), &'static str> {
        let (path, query) = path
            .split_once('?')
            .map_or((path, None), |(path, query)| (path, Some(query)));
        let address =
            Address::parse("http", "testaccount1.table.local", path, query, |_| true).unwrap();
        let pair =
            |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
        let headers: HeaderMap = headers.iter().map(pair).collect();
        let now =
            DateTime::parse_from_rfc2822(DATE).unwrap().to_utc() + TimeDelta::minutes(minutes);
        let credentials = Credentials {
            method: &Method::GET,
            address: &address,
            headers: &headers,
            peer: [127, 0, 0, 1].into(),
            secure: false,
            now,
        };
        check(&credentials, &Account::new("testaccount1", "a2V5").unwrap()).map_err(|f| f.code)
    }

    /// The strings to sign are the documentation's example; the key is made up. Python's `hmac` computed the
    /// signatures.
    const TABLES: &str = "SharedKey testaccount1:0XNddghDhtfA5PA3/C6B3onQP9E/OaX+QqQCcpLyRQs=";
    const POLICIES: &str = "SharedKey testaccount1:YgTNSyEiJTfm9E0zoSCTsV1f/rP6Fu/1UlHX4N5+HB0=";

    #[test]
    fn a_valid_signature_is_accepted_for_its_request_only() {
        let right = [("authorization", TABLES), ("x-ms-date", DATE)];
        assert_eq!(attempt("/Tables", &right, 0), Ok(()));
        assert_eq!(
            attempt("/Tables", &[("authorization", TABLES), ("date", DATE)], 0),
            Ok(())
        );
        assert_eq!(
            attempt(
                "/T?comp=acl",
                &[("authorization", POLICIES), ("date", DATE)],
                0
            ),
            Ok(())
        );
        for (path, headers) in [
            (
                "/Tables2",
                vec![("authorization", TABLES), ("x-ms-date", DATE)],
            ),
            ("/T", vec![("authorization", POLICIES), ("x-ms-date", DATE)]),
            (
                "/Tables",
                vec![
                    ("authorization", TABLES),
                    ("x-ms-date", DATE),
                    ("content-type", "text/plain"),
                ],
            ),
            (
                "/Tables",
                vec![
                    ("authorization", TABLES),
                    ("x-ms-date", "Sun, 11 Oct 2009 19:52:40 GMT"),
                ],
            ),
            (
                "/Tables",
                vec![
                    ("authorization", &TABLES.replace("account1", "account2")),
                    ("date", DATE),
                ],
            ),
            (
                "/Tables",
                vec![
                    ("authorization", &TABLES.replace("0X", "1X")),
                    ("date", DATE),
                ],
            ),
            ("/Tables", vec![("authorization", TABLES)]),
            (
                "/Tables",
                vec![("authorization", TABLES), ("date", "yesterday")],
            ),
        ] {
            assert_eq!(
                attempt(path, &headers, 0),
                Err("AuthenticationFailed"),
                "{path} {headers:?}"
            );
        }
    }

    #[test]
    fn old_and_early_requests_are_refused() {
        let headers = [("authorization", TABLES), ("x-ms-date", DATE)];
        assert_eq!(attempt("/Tables", &headers, 15), Ok(()));
        assert_eq!(attempt("/Tables", &headers, -15), Ok(()));
        assert_eq!(
            attempt("/Tables", &headers, 16),
            Err("AuthenticationFailed")
        );
        assert_eq!(
            attempt("/Tables", &headers, -16),
            Err("AuthenticationFailed")
        );
    }

    #[test]
    fn shared_key_lite_signs_date_and_resource() {
        let account = Account::new("testaccount1", "a2V5").unwrap();
        let text = format!("{DATE}\n/testaccount1/Tables");
        // Computed by `printf … | openssl dgst -sha256 -hmac key -binary | base64`.
        let signature = "g8a+/QhZy6KQ3Bv5y0LnBm+2JoYY2psj2HH2tFPTUI0=";
        assert!(account.has_signed(&text, signature));
        let header = format!("SharedKeyLite testaccount1:{signature}");
        assert_eq!(
            attempt("/Tables", &[("authorization", &header), ("date", DATE)], 0),
            Ok(())
        );
    }

    #[test]
    fn other_schemes_have_their_own_errors() {
        let of = |value| attempt("/Tables", &[("authorization", value), ("date", DATE)], 0);
        assert_eq!(of("Bearer abc"), Err("InvalidAuthenticationInfo"));
        let old = [
            ("authorization", "Bearer abc"),
            ("date", DATE),
            ("x-ms-version", "2019-07-07"),
        ];
        assert_eq!(attempt("/Tables", &old, 0), Err("AuthenticationFailed"));
        for wrong in ["", "SharedKey", "SharedKey abc", "Basic a:b"] {
            assert_eq!(of(wrong), Err("InvalidAuthenticationInfo"), "{wrong}");
        }
    }
}
