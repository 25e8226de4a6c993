use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request, Url};

/// The text of an error and its causes, without SAS signatures. (`reqwest` prints whole URLs.)
#[derive(Debug)]
pub(super) struct Cause(String);

impl Cause {
    pub(super) fn of(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            let cause_text = cause.to_string();
            // Some errors print their cause themselves.
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            next = cause.source();
        }
        Self(without_signatures(&text))
    }

    /// Returns the error's text, preceded by `what` failed.
    pub(super) fn within(&self, what: &str) -> String {
        if self.0.starts_with(what) { self.0.clone() } else { format!("{what}: {self}") }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

/// Replaces the value of every `sig=`.
fn without_signatures(text: &str) -> String {
    let mut parts = text.split("sig=");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // The characters of base64 and of percent-encoding. What follows is not a part of the signature and may
        // explain the error.
        let end =
            part.find(|c: char| !(c.is_ascii_alphanumeric() || "%+/=-_".contains(c))).unwrap_or(part.len());
        out.push_str("sig=REDACTED");
        out.push_str(&part[end..]);
    }
    out
}

// Removes PartitionKeys and RowKeys, which are part of URLs, from what `azure_core` logs and traces.

/// The real URL of a request whose `Request` has a URL for the logs.
pub(super) struct SentTo(pub(super) Url);

/// The last policy. After it, the request is logged; then [`bounded`](super::bounded) restores the real URL
/// and sends the request.
#[derive(Debug)]
pub(crate) struct HideKeys;

#[expect(elided_lifetimes_in_paths, reason = "`async_trait` would name a lifetime that the trait does not")]
#[async_trait]
impl Policy for HideKeys {
    async fn send(&self, ctx: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        let Some(hidden) = without_keys(request.url()) else {
            return next[0].send(ctx, request, &next[1..]).await;
        };
        let address = std::mem::replace(request.url_mut(), hidden);
        let ctx = ctx.to_borrowed().with_value(SentTo(address.clone()));
        let answer = next[0].send(&ctx, request, &next[1..]).await;
        *request.url_mut() = address;
        answer
    }
}

/// Returns the URL without the entity keys in its path; `None` if the path has no keys.
fn without_keys(url: &Url) -> Option<Url> {
    let path = hidden_path(url.path())?;
    let mut url = url.clone();
    url.set_path(&path);
    Some(url)
}

/// Returns a URL as text without entity keys.
pub(super) fn hidden_text(url: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(address, query)| (address, Some(query)));
    let address = hidden_path(address).unwrap_or_else(|| address.to_owned());
    query.map_or_else(|| address.clone(), |query| format!("{address}?{query}"))
}

/// Replaces the text between the parentheses of `Table(PartitionKey='…',RowKey='…')`. A key contains neither
/// `/` nor an unencoded parenthesis.
fn hidden_path(path: &str) -> Option<String> {
    let (before, _) = path.split_once("(PartitionKey=")?;
    Some(format!("{before}(PartitionKey='REDACTED',RowKey='REDACTED')"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_not_shown() {
        let text = "error for url (http://h/T?sv=1&sig=a%2Bb%3D&se=2): refused, sig=x";
        assert_eq!(
            without_signatures(text),
            "error for url (http://h/T?sv=1&sig=REDACTED&se=2): refused, sig=REDACTED"
        );
    }

    #[test]
    fn keys_are_removed_from_paths_only() {
        for (url, expected) in [
            (
                "http://h/acc/T(PartitionKey='a',RowKey='b')?$select=A",
                "http://h/acc/T(PartitionKey='REDACTED',RowKey='REDACTED')?$select=A",
            ),
            (
                "http://h/acc/T(PartitionKey='',RowKey='')",
                "http://h/acc/T(PartitionKey='REDACTED',RowKey='REDACTED')",
            ),
            ("http://h/T()?$top=1", "http://h/T()?$top=1"),
            ("http://h/Tables('T')", "http://h/Tables('T')"),
        ] {
            assert_eq!(hidden_text(url), expected);
            let parsed: Url = url.parse().unwrap();
            let hidden = without_keys(&parsed).map_or_else(|| url.to_owned(), |hidden| hidden.to_string());
            assert_eq!(hidden, expected);
        }
    }
}
