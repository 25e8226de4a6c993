//! A parsed request: its verb, its condition, its table and key.

use http::{HeaderMap, Method, StatusCode};
use table_core::model::{ETag, IfMatch, Key, TableName};

use crate::address::{Address, Resource};
use crate::answer::Answer;
use crate::errors::{Failure, Result, table_name};
use crate::limits::AnswerMemory;
use crate::settings::is_hidden_table;
use crate::tenant::Tenant;
use crate::wire::{JsonFormat, Metadata};

/// The operation of a request, whatever HTTP verb carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Merge,
    Delete,
    Options,
    Other,
}

/// The header in which a POST names another verb.
const TUNNELLED: &str = "x-http-method";

impl Verb {
    /// Returns the verb of a request. `X-HTTP-Method` of a POST takes precedence.
    pub(crate) fn of(method: &Method, headers: &HeaderMap) -> Result<Self> {
        let bad =
            |code, message: &'static str| Err(Failure::new(StatusCode::BAD_REQUEST, code, message));
        // Clients behind proxies that let only GET and POST pass send the other verbs in this header.
        let mut tunnelled = headers.get_all(TUNNELLED).iter();
        match (tunnelled.next(), tunnelled.next()) {
            (None, _) => Ok(Self::named(method.as_str())),
            (Some(_), Some(_)) => bad(
                "XMethodIncorrectCount",
                "More than one X-HTTP-Method is specified.",
            ),
            (Some(_), None) if method != Method::POST => bad(
                "XMethodNotUsingPost",
                "The request uses X-HTTP-Method with an HTTP verb other than POST.",
            ),
            (Some(verb), None) => match Self::named(verb.to_str().unwrap_or_default()) {
                verb @ (Self::Put | Self::Merge | Self::Delete) => Ok(verb),
                _ => bad(
                    "XMethodIncorrectValue",
                    "The specified X-HTTP-Method is invalid.",
                ),
            },
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "MERGE" | "PATCH" => Self::Merge,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }
}

/// A request whose URL and verb are parsed, alone or in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) verb: Verb,
    pub(crate) address: &'a Address,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) level: Metadata,
    /// The memory of answers that clients have not read.
    pub(crate) answer_memory: &'a AnswerMemory,
}

impl<'a> Request<'a> {
    /// Returns the format of JSON in the response.
    pub(crate) fn format(&self) -> JsonFormat<'a> {
        // An option that occurs twice was refused when the projection was read.
        let select = self.address.parameters.get("$select").ok().flatten();
        JsonFormat {
            level: self.level,
            account: &self.address.account,
            root: &self.address.root,
            select,
        }
    }

    /// Returns a response with JSON, and reserves its memory.
    pub(crate) fn json(&self, body: Vec<u8>) -> Result<Answer> {
        let memory = self.answer_memory.reserve(body.len())?;
        let mut answer = Answer::new(StatusCode::OK).with_body(self.level.content_type(), body);
        answer.memory.extend(memory);
        Ok(answer)
    }

    /// Whether the response to an insert shall contain the entity: the header `Prefer`.
    pub(crate) fn prefers_content(&self) -> bool {
        !header(self.headers, "prefer")
            .is_some_and(|prefer| prefer.to_ascii_lowercase().contains("return-no-content"))
    }
}

/// Refuses writes to the secondary endpoint, and to accounts that are served for reading only.
pub(crate) fn check_writable(tenant: &Tenant, address: &Address) -> Result<()> {
    let message = match (address.is_secondary, tenant.is_read_only) {
        (true, _) => "Write operations to the secondary location are not allowed.",
        (false, true) => {
            "The account being accessed does not have sufficient permissions to execute this operation: the server serves it for \
             reading only."
        }
        (false, false) => return Ok(()),
    };
    Err(Failure::new(
        StatusCode::FORBIDDEN,
        "InsufficientAccountPermissions",
        message,
    ))
}

/// Returns a header that is text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Headers by which the server recognizes the sender of a request. Only the first of several would be checked, and a proxy may read the last.
const SINGLE: [&str; 4] = ["host", "origin", "sec-fetch-site", "authorization"];

/// Refuses a request that has one of these headers twice: <https://www.rfc-editor.org/rfc/rfc9112#section-3.2>.
pub(crate) fn check_single_headers(headers: &HeaderMap) -> Result<()> {
    let is_repeated = |name: &&&str| headers.get_all(**name).iter().nth(1).is_some();
    match SINGLE.iter().find(is_repeated) {
        Some(name) => Err(Failure::invalid_header(
            name,
            "the request has it more than once",
        )),
        None => Ok(()),
    }
}

/// Parses the table name of a URL. The server's own table counts as absent.
pub(crate) fn table(name: &str) -> Result<TableName> {
    let table = table_name(name)?;
    if is_hidden_table(&table) {
        Err(Failure::table_not_found())
    } else {
        Ok(table)
    }
}

/// Returns the table and key of an entity's URL.
pub(crate) fn entity(resource: &Resource) -> Result<(TableName, Key)> {
    match resource {
        Resource::Entity(name, partition, row) => Ok((table(name)?, Key::new(partition, row)?)),
        _ => Err(Failure::invalid_uri()),
    }
}

/// Returns the condition of a write.
///
/// # Errors
/// Fails if the condition is malformed or of a kind that writes do not support.
pub(crate) fn condition(headers: &HeaderMap) -> Result<Option<IfMatch>> {
    if headers.contains_key("if-none-match") {
        return Err(Failure::invalid_input(
            "If-None-Match HTTP header cannot be specified for this operation.",
        ));
    }
    let Some(value) = headers.get("if-match") else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(Some(IfMatch::Any));
    }
    // Every ETag of the service is weak.
    let quoted = text.strip_prefix("W/").or_else(|| text.strip_prefix("w/"));
    let inner = quoted.and_then(|quoted| quoted.strip_prefix('"')?.strip_suffix('"'));
    let inner = inner
        .filter(|inner| !inner.contains('"') && headers.get_all("if-match").iter().count() == 1);
    let Some(inner) = inner else {
        return Err(Failure::invalid_input(format!(
            "The etag value '{text}' specified in one of the request headers is not valid. Please make sure only one etag \
             value is specified and is valid."
        )));
    };
    Ok(Some(IfMatch::Exactly(ETag::from(&*format!(
        "W/\"{inner}\""
    )))))
}

/// The headers of a test.
#[cfg(test)]
pub(crate) fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair =
        |(name, value): &(&'static str, &str)| (name.parse().unwrap(), value.parse().unwrap());
    pairs.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_tunnelled_through_post_only() {
        let of = |method: &str, pairs| {
            Verb::of(&method.parse().unwrap(), &headers(pairs)).map_err(|f| f.code)
        };
        assert_eq!(of("MERGE", &[]), Ok(Verb::Merge));
        assert_eq!(of("PATCH", &[]), Ok(Verb::Merge));
        assert_eq!(of("POST", &[("x-http-method", "MERGE")]), Ok(Verb::Merge));
        assert_eq!(
            of("PUT", &[("x-http-method", "MERGE")]),
            Err("XMethodNotUsingPost")
        );
        assert_eq!(
            of("POST", &[("x-http-method", "GET")]),
            Err("XMethodIncorrectValue")
        );
        let twice = headers(&[("x-http-method", "PUT")]);
        let mut twice = twice;
        twice.append("x-http-method", "PUT".parse().unwrap());
        assert_eq!(
            Verb::of(&Method::POST, &twice).unwrap_err().code,
            "XMethodIncorrectCount"
        );
    }

    #[test]
    fn conditions_are_etags_or_a_star() {
        let of = |value| condition(&headers(&[("if-match", value)])).map_err(|f| f.code);
        assert_eq!(of("*"), Ok(Some(IfMatch::Any)));
        assert_eq!(
            of("W/\"a\""),
            Ok(Some(IfMatch::Exactly(ETag::from("W/\"a\""))))
        );
        assert_eq!(
            of("w/\"a\""),
            Ok(Some(IfMatch::Exactly(ETag::from("W/\"a\""))))
        );
        for wrong in ["", "a", "W/a", "W/\"a\", W/\"b\"", "\"a", "\"a\""] {
            assert_eq!(of(wrong), Err("InvalidInput"), "{wrong}");
        }
        assert_eq!(condition(&headers(&[])).unwrap(), None);
        assert!(condition(&headers(&[("if-none-match", "*")])).is_err());
    }
}
