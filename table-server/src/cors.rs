//! Cross-origin requests: the account's rules and their evaluation.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/cross-origin-resource-sharing--cors--support-for-the-azure-storage-services>

use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::errors::{Failure, Result};
use crate::request::header;

/// A rule. Lists are separated by commas, or are `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct CorsRule {
    pub(crate) allowed_origins: String,
    pub(crate) allowed_methods: String,
    pub(crate) max_age_in_seconds: u32,
    pub(crate) exposed_headers: String,
    pub(crate) allowed_headers: String,
}

/// Maximum number of rules of an account.
const MAX_RULES: usize = 5;
/// Maximum bytes of the texts of all rules.
const MAX_BYTES: usize = 2 * 1024;
const MAX_ORIGIN_CHARS: usize = 256;
const METHODS: [&str; 8] = [
    "DELETE", "GET", "HEAD", "MERGE", "PATCH", "POST", "OPTIONS", "PUT",
];

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

/// Refuses rules that the service refuses.
pub(crate) fn check(rules: &[CorsRule]) -> Result<()> {
    let sizes = rules.iter().map(|r| {
        r.allowed_origins.len()
            + r.allowed_methods.len()
            + r.exposed_headers.len()
            + r.allowed_headers.len()
    });
    let origins = |rule: &CorsRule| {
        let mut origins = list(&rule.allowed_origins);
        !rule.allowed_origins.trim().is_empty()
            && origins.all(|origin| origin.len() <= MAX_ORIGIN_CHARS)
    };
    let methods = |rule: &CorsRule| {
        let mut methods = list(&rule.allowed_methods);
        !rule.allowed_methods.trim().is_empty()
            && methods.all(|method| {
                METHODS
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(method))
            })
    };
    let legal = rules.len() <= MAX_RULES
        && sizes.sum::<usize>() <= MAX_BYTES
        && rules.iter().all(|rule| origins(rule) && methods(rule));
    if legal {
        Ok(())
    } else {
        Err(Failure::invalid_xml())
    }
}

impl CorsRule {
    fn allows(&self, origin: &str, method: &str) -> bool {
        list(&self.allowed_origins).any(|allowed| allowed == "*" || allowed == origin)
            && list(&self.allowed_methods).any(|allowed| allowed.eq_ignore_ascii_case(method))
    }

    fn allows_headers(&self, requested: &str) -> bool {
        list(requested)
            .all(|header| list(&self.allowed_headers).any(|allowed| names(allowed, header)))
    }

    /// Whether every origin is allowed. Then responses do not depend on the origin.
    fn is_for_all(&self) -> bool {
        list(&self.allowed_origins).any(|allowed| allowed == "*")
    }

    fn set_origin(&self, origin: &str, answer: &mut Answer) {
        if self.is_for_all() {
            // Without `allow-credentials`, which browsers refuse together with `*`
            // (<https://fetch.spec.whatwg.org/#cors-protocol-and-credentials>).
            answer.set("access-control-allow-origin", "*");
        } else {
            answer.set("access-control-allow-origin", origin);
            answer.set("access-control-allow-credentials", "true");
            answer.set("vary", "Origin");
        }
    }
}

/// Whether a rule names an origin for a method.
pub(crate) fn names_origin(rules: &[CorsRule], origin: &str, method: &str) -> bool {
    rules.iter().any(|rule| rule.allows(origin, method))
}

/// Whether an item of a header list matches this header: by name, or by the prefix before a star.
fn names(item: &str, header: &str) -> bool {
    match item.strip_suffix('*') {
        Some(start) => header
            .get(..start.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(start)),
        None => item.eq_ignore_ascii_case(header),
    }
}

/// Returns the response to a preflight request.
pub(crate) fn preflight(rules: &[CorsRule], headers: &HeaderMap) -> Result<Answer> {
    let missing = |name: &str| {
        let message = format!("A required CORS header is not present. The request has no {name}.");
        Failure::new(StatusCode::BAD_REQUEST, "InvalidHeaderValue", message)
    };
    let origin = header(headers, "origin").ok_or_else(|| missing("Origin"))?;
    let method = header(headers, "access-control-request-method")
        .ok_or_else(|| missing("Access-Control-Request-Method"))?;
    let requested = header(headers, "access-control-request-headers").unwrap_or_default();
    let rule = rules
        .iter()
        .find(|rule| rule.allows(origin, method) && rule.allows_headers(requested));
    let rule = rule.ok_or_else(|| {
        Failure::new(
            StatusCode::FORBIDDEN,
            "CorsPreflightFailure",
            "CORS not enabled or no matching rule found for this request.",
        )
    })?;
    let mut answer = Answer::new(StatusCode::OK)
        .with("access-control-allow-methods", method)
        .with(
            "access-control-max-age",
            rule.max_age_in_seconds.to_string(),
        );
    if !requested.is_empty() {
        answer.set("access-control-allow-headers", requested);
    }
    rule.set_origin(origin, &mut answer);
    Ok(answer)
}

/// Adds the headers that a page of another origin needs to read the response.
pub(crate) fn expose(rules: &[CorsRule], origin: &str, method: &str, answer: &mut Answer) {
    let Some(rule) = rules.iter().find(|rule| rule.allows(origin, method)) else {
        // Also without a rule for this origin: a cache must not give this answer to a page of another origin.
        if rules.iter().any(|rule| !rule.is_for_all()) {
            answer.set("vary", "Origin");
        }
        return;
    };
    let exposed = |name: &&str| list(&rule.exposed_headers).any(|item| names(item, name));
    let found: Vec<&str> = answer
        .headers
        .keys()
        .map(http::HeaderName::as_str)
        .filter(exposed)
        .collect();
    let found = found.join(",");
    if !found.is_empty() {
        answer.set("access-control-expose-headers", &found);
    }
    rule.set_origin(origin, answer);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &str, methods: &str, headers: &str) -> CorsRule {
        CorsRule {
            allowed_origins: origins.to_owned(),
            allowed_methods: methods.to_owned(),
            max_age_in_seconds: 200,
            exposed_headers: "x-ms-*,ETag".to_owned(),
            allowed_headers: headers.to_owned(),
        }
    }

    fn requested(origin: &str, method: &str, headers: &str) -> HeaderMap {
        let mut map = HeaderMap::new();
        map.insert("origin", origin.parse().unwrap());
        map.insert("access-control-request-method", method.parse().unwrap());
        if !headers.is_empty() {
            map.insert("access-control-request-headers", headers.parse().unwrap());
        }
        map
    }

    /// The example in the documentation.
    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules = [
            rule(
                "http://www.contoso.com",
                "PUT,HEAD",
                "x-ms-meta-data*, x-ms-target",
            ),
            rule("*", "PUT,GET", "x-ms-meta*"),
            rule("http://www.contoso.com", "GET", "x-ms-client-request-id"),
        ];
        let allowed = |method, origin, headers| {
            let answer =
                preflight(&rules, &requested(origin, method, headers)).map_err(|f| f.code)?;
            Ok(answer.headers["access-control-allow-origin"]
                .to_str()
                .unwrap()
                .to_owned())
        };
        assert_eq!(
            allowed("PUT", "http://www.contoso.com", "x-ms-target"),
            Ok("http://www.contoso.com".to_owned())
        );
        assert_eq!(
            allowed("GET", "http://www.contoso.com", "x-ms-meta-data1"),
            Ok("*".to_owned())
        );
        assert_eq!(
            allowed("GET", "http://www.contoso.com", "x-ms-client-request-id"),
            Ok("http://www.contoso.com".to_owned())
        );
        for (method, origin, headers) in [
            ("GET", "http://www.fabrikam.com", "x-ms-client-request-id"),
            ("DELETE", "http://www.contoso.com", ""),
            ("PUT", "http://WWW.contoso.com", "x-ms-target"),
        ] {
            assert_eq!(
                allowed(method, origin, headers),
                Err("CorsPreflightFailure"),
                "{method} {origin}"
            );
        }
        assert_eq!(
            preflight(&[], &requested("http://a", "GET", ""))
                .unwrap_err()
                .status,
            StatusCode::FORBIDDEN
        );
        assert_eq!(
            preflight(&rules, &HeaderMap::new()).unwrap_err().status,
            StatusCode::BAD_REQUEST
        );
    }

    #[test]
    fn responses_list_the_exposed_headers_that_they_have() {
        let rules = [rule("http://a", "GET", "")];
        let mut answer = Answer::no_content()
            .with("x-ms-version", "1")
            .with("etag", "2")
            .with("location", "3");
        expose(&rules, "http://a", "GET", &mut answer);
        assert_eq!(
            answer.headers["access-control-expose-headers"],
            "x-ms-version,etag"
        );
        assert_eq!(answer.headers["access-control-allow-credentials"], "true");
        assert_eq!(answer.headers["vary"], "Origin");
        let mut other = Answer::no_content();
        expose(&rules, "http://b", "GET", &mut other);
        assert!(
            !other.headers.contains_key("access-control-allow-origin")
                && other.headers.contains_key("vary")
        );
    }

    #[test]
    fn rules_have_bounds() {
        assert!(check(&vec![rule("*", "GET", "*"); 5]).is_ok());
        assert!(check(&vec![rule("*", "GET", "*"); 6]).is_err());
        for wrong in [
            rule("", "GET", ""),
            rule("*", "", ""),
            rule("*", "BREW", ""),
            rule("*", "GET", &"x".repeat(3000)),
        ] {
            assert!(check(&[wrong]).is_err());
        }
    }
}
