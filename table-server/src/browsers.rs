//! Requests of pages in browsers of this machine: which are of this machine, and which are of other sites.
//!
//! A page of another site reaches a server on this machine in two ways. It can send requests to `127.0.0.1`, of which browsers show it no
//! answer; a simple POST is carried out nevertheless. And a site can give its own name the address 127.0.0.1 (DNS rebinding); then the page
//! also reads the answers.

use std::net::IpAddr;

use http::HeaderMap;

use crate::cors::{self, CorsRule};
use crate::request::header;

/// Headers by which a proxy tells the server that it has passed a request on; every name that starts with `x-forwarded-` is one too.
const OF_PROXIES: [&str; 3] = ["forwarded", "via", "x-real-ip"];

/// Whether a request came through a proxy that says so.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        name.starts_with("x-forwarded-") || OF_PROXIES.contains(&name)
    })
}

/// Returns the name or the address in a host, without the port.
pub(crate) fn name_of_host(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a host with this name is this machine, for every resolver: no site can have such a name.
/// <https://www.rfc-editor.org/rfc/rfc6761#section-6.3>
pub(crate) fn is_loopback_name(name: &str) -> bool {
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    if let Ok(ip) = address.parse::<IpAddr>() {
        return ip.to_canonical().is_loopback();
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether a request may be of a page of another site. Browsers set these headers and pages cannot: <https://www.w3.org/TR/fetch-metadata/>,
/// <https://www.rfc-editor.org/rfc/rfc6454#section-7>. A program sends none. `own` is the origin of the server.
pub(crate) fn is_of_another_site(headers: &HeaderMap, own: &str) -> bool {
    match headers.get("origin") {
        Some(origin) => !origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()),
        None => {
            let site = header(headers, "sec-fetch-site").unwrap_or_default();
            !["", "none", "same-origin"].contains(&site)
        }
    }
}

/// Whether the rules of an account name the origin of a request, so that the account has admitted its pages.
pub(crate) fn is_admitted(rules: &[CorsRule], headers: &HeaderMap, method: &str) -> bool {
    header(headers, "origin").is_some_and(|origin| cors::names_origin(rules, origin, method))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::headers;

    #[test]
    fn names_of_this_machine_are_recognized() {
        for host in [
            "localhost",
            "LocalHost:80",
            "localhost.:80",
            "devstoreaccount1.table.localhost:10002",
            "127.0.0.1",
            "127.0.0.1:10002",
            "127.9.9.9",
            "[::1]",
            "[::1]:10002",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(is_loopback_name(name_of_host(host)), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:10002",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "0.0.0.0",
            "10.0.0.1:10002",
            "[::]",
            "localhost:x",
        ] {
            assert!(!is_loopback_name(name_of_host(host)), "{host}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_recognized() {
        let own = "http://127.0.0.1:10002";
        for own_request in [
            &[][..],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin")],
            &[("origin", own), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(
                !is_of_another_site(&headers(own_request), own),
                "{own_request:?}"
            );
        }
        for other in [
            &[("origin", "https://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "")],
            &[("origin", "http://127.0.0.1:3000")],
            &[
                ("origin", "https://evil.example"),
                ("sec-fetch-site", "none"),
            ],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
            ],
        ] {
            assert!(is_of_another_site(&headers(other), own), "{other:?}");
        }
    }

    #[test]
    fn proxies_are_recognized() {
        assert!(!is_forwarded(&headers(&[
            ("host", "localhost"),
            ("accept", "*/*")
        ])));
        for name in [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-server",
            "forwarded",
            "via",
            "x-real-ip",
        ] {
            assert!(is_forwarded(&headers(&[(name, "x")])), "{name}");
        }
    }
}
