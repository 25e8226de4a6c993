use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::headers::{AUTHORIZATION, CONTENT_TYPE, HeaderName};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request, Url};
use chrono::Utc;

use crate::SharedKey;
use crate::auth::{DATE, http_date};

/// Signs requests to queues. Their string to sign has more lines than that of table requests.
///
/// <https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key#blob-queue-and-file-services-shared-key-authorization>
#[derive(Debug)]
pub(super) struct QueueKeyPolicy(pub(super) SharedKey);

#[expect(elided_lifetimes_in_paths, reason = "`async_trait` would name a lifetime that the trait does not")]
#[async_trait]
impl Policy for QueueKeyPolicy {
    async fn send(&self, ctx: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        request.insert_header(DATE, http_date(Utc::now()));
        let text = string_to_sign(request, self.0.account());
        let authorization = format!("SharedKey {}:{}", self.0.account(), self.0.sign(&text));
        request.insert_header(AUTHORIZATION, authorization);
        next[0].send(ctx, request, &next[1..]).await
    }
}

/// The lines: verb, standard headers (queue requests set two of them), `x-ms-*` headers, resource.
fn string_to_sign(request: &Request, account: &str) -> String {
    // From version 2015-02-21 on, a length of zero is an empty line.
    let length = request.body().len().filter(|length| *length > 0);
    let length = length.map(|length| length.to_string()).unwrap_or_default();
    let content_type = request.headers().get_optional_str(&CONTENT_TYPE).unwrap_or_default();
    format!(
        // Verb, Content-Encoding, Content-Language, Content-Length, Content-MD5, Content-Type, Date,
        // If-Modified-Since, If-Match, If-None-Match, If-Unmodified-Since, Range. `Date` is empty because `x-ms-date`
        // is among the headers that follow.
        "{}\n\n\n{length}\n\n{content_type}\n\n\n\n\n\n\n{}{}",
        request.method(),
        canonical_headers(request),
        canonical_resource(request.url(), account)
    )
}

fn canonical_headers(request: &Request) -> String {
    let ours = |name: &HeaderName| name.as_str().starts_with("x-ms-");
    // Sorted by name, as the string to sign needs them. `azure_core` has the names in lower case.
    let headers: BTreeMap<_, _> = request
        .headers()
        .iter()
        .filter(|(name, _)| ours(name))
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    headers.into_iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect()
}

fn canonical_resource(url: &Url, account: &str) -> String {
    let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in url.query_pairs() {
        // Decoded values, in contrast to the path, which is signed as it is sent.
        query.entry(name.to_lowercase()).or_default().push(value.into_owned());
    }
    let mut text = format!("/{account}{}", url.path());
    for (name, mut values) in query {
        values.sort();
        text.push_str(&format!("\n{name}:{}", values.join(",")));
    }
    text
}

#[cfg(test)]
mod tests {
    use azure_core::http::Method;

    use super::*;

    #[test]
    fn the_string_to_sign_has_the_documented_lines() {
        let url = "http://h/acc/jobs/messages?visibilitytimeout=5&NumOfMessages=2".parse().unwrap();
        let mut request = Request::new(url, Method::Post);
        request.insert_header("x-ms-version", "2026-04-06");
        request.insert_header("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT");
        request.insert_header("content-type", "application/xml");
        request.insert_header("user-agent", "me");
        request.set_body("<x/>");
        assert_eq!(
            string_to_sign(&request, "acc"),
            "POST\n\n\n4\n\napplication/xml\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n\
            x-ms-version:2026-04-06\n/acc/acc/jobs/messages\nnumofmessages:2\nvisibilitytimeout:5"
        );
    }
}
