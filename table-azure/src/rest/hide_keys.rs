//! Removes PartitionKeys and RowKeys, which are part of URLs, from what `azure_core` logs and traces.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request, Url};

/// The real URL of a request whose `Request` has a URL for the logs.
pub(super) struct SentTo(pub(super) Url);

/// The last policy. After it, the request is logged; then [`bounded`](fn@super::bounded) restores the real URL
/// and sends the request.
#[derive(Debug)]
pub(crate) struct HideKeys;

#[expect(
    elided_lifetimes_in_paths,
    reason = "`async_trait` would name a lifetime that the trait does not"
)]
#[async_trait]
impl Policy for HideKeys {
    async fn send(
        &self,
        ctx: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
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

/// Returns a URL as text without entity keys in its path. `azure_core` masks the values of query parameters, such as `$filter`.
pub(super) fn hidden_text(url: &str) -> String {
    let (address, query) = url
        .split_once('?')
        .map_or((url, None), |(address, query)| (address, Some(query)));
    let address = hidden_path(address).unwrap_or_else(|| address.to_owned());
    query.map_or_else(|| address.clone(), |query| format!("{address}?{query}"))
}

/// Replaces the text between the parentheses of `Table(PartitionKey='…',RowKey='…')`. A key contains neither
/// `/` nor an unencoded parenthesis.
fn hidden_path(path: &str) -> Option<String> {
    let (before, _) = path.split_once("(PartitionKey=")?;
    Some(format!(
        "{before}(PartitionKey='REDACTED',RowKey='REDACTED')"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_removed_from_paths() {
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
            let hidden =
                without_keys(&parsed).map_or_else(|| url.to_owned(), |hidden| hidden.to_string());
            assert_eq!(hidden, expected);
        }
    }
}
