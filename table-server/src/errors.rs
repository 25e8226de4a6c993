//! Error responses: status, code and message as in the service.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes>,
//! <https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes>

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use table_core::Error;
use table_core::model::TableName;
use table_core::store::{ErrorKind, LimitKind, Outcome};

use crate::answer::Answer;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The challenge of a request without a valid credential, in the service's form. The server has no tenant of Microsoft Entra ID and accepts no
/// token, so the address names none.
const CHALLENGE: &str = "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize \
                         resource_id=https://storage.azure.com";

/// A refused request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: Cow<'static, str>,
    /// The index of the failed operation in a group.
    pub(crate) index: Option<usize>,
    pub(crate) retry_after: Option<Duration>,
}

/// The format of an error response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    #[default]
    Json,
    Xml,
}

impl Failure {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            index: None,
            retry_after: None,
        }
    }

    /// Returns the error as that of an operation of a group.
    pub(crate) fn of_operation(mut self, index: usize) -> Self {
        // The first caller is the nearest to the operation, so its index stays.
        self.index = self.index.or(Some(index));
        self
    }

    pub(crate) fn invalid_input(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidInput", message)
    }

    pub(crate) fn invalid_xml() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "InvalidXmlDocument",
            "XML specified is not syntactically valid.",
        )
    }

    pub(crate) fn invalid_uri() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "InvalidUri",
            "The requested URI does not represent any resource on the server.",
        )
    }

    pub(crate) fn invalid_header(name: &str, reason: &str) -> Self {
        let message = format!(
            "The value for one of the HTTP headers is not in the correct format: {name}: {reason}"
        );
        Self::new(StatusCode::BAD_REQUEST, "InvalidHeaderValue", message)
    }

    pub(crate) fn missing_header(name: &str) -> Self {
        let message =
            format!("An HTTP header that's mandatory for this request is not specified: {name}.");
        Self::new(StatusCode::BAD_REQUEST, "MissingRequiredHeader", message)
    }

    pub(crate) fn invalid_parameter(name: &str, reason: &str) -> Self {
        let message = format!(
            "Value for one of the query parameters specified in the request URI is invalid: {name}: {reason}"
        );
        Self::new(
            StatusCode::BAD_REQUEST,
            "InvalidQueryParameterValue",
            message,
        )
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "The requested method is not allowed on the specified resource.",
        )
    }

    pub(crate) fn not_implemented(what: &str) -> Self {
        let message = format!(
            "The requested operation is not implemented on the specified resource: {what}."
        );
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    pub(crate) fn table_not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "TableNotFound",
            "The table specified does not exist.",
        )
    }

    pub(crate) fn resource_not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "ResourceNotFound",
            "The specified resource does not exist.",
        )
    }

    pub(crate) fn unauthenticated(reason: &str) -> Self {
        let message = format!(
            "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly \
             including the signature: {reason}."
        );
        Self::new(StatusCode::FORBIDDEN, "AuthenticationFailed", message)
    }

    pub(crate) fn unauthorized(code: &'static str, reason: &str) -> Self {
        let message =
            format!("This request is not authorized to perform this operation: {reason}.");
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    /// A table name that is too short, too long, or has characters that names may not have. Clients look for these texts.
    fn invalid_table_name(name: &str) -> Self {
        // Assumed: the length comes first, as in Azurite.
        let (code, message) = if (3..=63).contains(&name.len()) {
            (
                "InvalidResourceName",
                "The specifed resource name contains invalid characters.",
            )
        } else {
            (
                "OutOfRangeInput",
                "The specified resource name length is not within the permissible limits.",
            )
        };
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        let message = format!(
            "The request body is too large and exceeds the maximum permissible limit of {limit} bytes."
        );
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestBodyTooLarge",
            message,
        )
    }

    pub(crate) fn busy(retry_after: Option<Duration>) -> Self {
        let message =
            "The server is currently unable to receive requests. Please retry your request.";
        Self {
            retry_after,
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServerBusy", message)
        }
    }

    /// An error of the store. Its cause is logged and not sent to the client.
    pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Self {
        let cause = without_signatures(&cause.to_string());
        tracing::error!(target: "table_server", %cause, "the store failed");
        let message = "The server encountered an internal error. Please retry the request.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    fn timed_out() -> Self {
        let message = "The operation could not be completed within the permitted time.";
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "OperationTimedOut",
            message,
        )
    }

    /// Returns the response to a request that was refused as a whole.
    pub(crate) fn into_answer(self, format: ErrorFormat, request: &str) -> Answer {
        let message = without_signatures(&self.message);
        let message = format!(
            "{message}\nRequestId:{request}\nTime:{}",
            table_core::model::Ticks::now()
        );
        let message = self
            .index
            .map_or(message.clone(), |index| format!("{index}:{message}"));
        let answer = Answer::new(self.status).with("x-ms-error-code", self.code);
        let answer = match self.retry_after {
            Some(after) => answer.with("retry-after", after.as_secs().max(1).to_string()),
            None => answer,
        };
        let answer = match self.status {
            StatusCode::UNAUTHORIZED => answer.with("www-authenticate", CHALLENGE),
            _ => answer,
        };
        match format {
            ErrorFormat::Json => {
                answer.with_body("application/json;charset=utf-8", json(self.code, &message))
            }
            ErrorFormat::Xml => answer.with_body("application/xml", xml(self.code, &message)),
        }
    }
}

/// Returns a text without the signatures in it.
///
/// Messages repeat names, keys and filters, and a client that joins a URL wrongly puts its signature into one of them.
pub(crate) fn without_signatures(text: &str) -> String {
    let ends_value = |c: char| !(c.is_ascii_alphanumeric() || "+/=%-_".contains(c));
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((start, length)) = first_signature(rest) {
        let (before, value) = rest.split_at(start + length);
        out.push_str(before);
        out.push_str("(removed)");
        rest = &value[value.find(ends_value).unwrap_or(value.len())..];
    }
    out.push_str(rest);
    out
}

/// Returns the position and the length of the first name of a signature in a text, up to its value.
fn first_signature(text: &str) -> Option<(usize, usize)> {
    // Lower case of ASCII keeps the positions.
    let lower = text.to_ascii_lowercase();
    let found = ["sig=", "sig%3d", "sig%253d"]
        .into_iter()
        .filter_map(|name| Some((lower.find(name)?, name.len())));
    found.min()
}

fn json(code: &str, message: &str) -> Vec<u8> {
    let message = serde_json::json!({ "lang": "en-US", "value": message });
    serde_json::json!({ "odata.error": { "code": code, "message": message } })
        .to_string()
        .into_bytes()
}

fn xml(code: &str, message: &str) -> Vec<u8> {
    let message = escaped(message);
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    )
    .into_bytes()
}

/// Escapes text in an element.
fn escaped(text: &str) -> String {
    // Omits characters that no document may contain: <https://www.w3.org/TR/xml/#charsets>.
    let legal = |c: &char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
    let text: String = text.chars().filter(legal).collect();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Parses the table name of a request.
pub(crate) fn table_name(name: &str) -> Result<TableName> {
    TableName::new(name).map_err(|_| Failure::invalid_table_name(name))
}

/// Converts an error of the store to a response.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        // First the outcome, then the kind. A write with an unknown outcome must never look refused: clients would write again and
        // meet their own first write. Clients treat status 500 as unknown.
        match error.outcome() {
            Outcome::NotApplied => {}
            Outcome::Ambiguous => {
                return Self {
                    index: error.failed_index(),
                    ..Self::timed_out()
                };
            }
            Outcome::Applied => {
                let failure = Self::internal(&error);
                if !error.is_key_collision() && !error.is_unique_violation() {
                    return failure;
                }
                let message = format!(
                    "The entity was written, and an index does not contain its entry: {error}"
                );
                return Self {
                    message: message.into(),
                    ..failure
                };
            }
        }
        let text = error.to_string();
        match error.into_kind() {
            ErrorKind::TransactionFailed { index, error } => Self::from(*error).of_operation(index),
            kind => Self::of_kind(&kind, text),
        }
    }
}

impl Failure {
    fn of_kind(kind: &ErrorKind, text: String) -> Self {
        let conflict = |code, message: &'static str| Self::new(StatusCode::CONFLICT, code, message);
        let bad = |code| Self::new(StatusCode::BAD_REQUEST, code, text.clone());
        match kind {
            ErrorKind::TableNotFound { .. } => Self::table_not_found(),
            ErrorKind::TableAlreadyExists { .. } => {
                conflict("TableAlreadyExists", "The table specified already exists.")
            }
            ErrorKind::TableBeingDeleted { .. } => conflict(
                "TableBeingDeleted",
                "The specified table is being deleted. Try operation later.",
            ),
            ErrorKind::EntityNotFound { .. } => Self::resource_not_found(),
            ErrorKind::EntityAlreadyExists { .. } => conflict(
                "EntityAlreadyExists",
                "The specified entity already exists.",
            ),
            ErrorKind::PreconditionFailed { .. } => Self::new(
                StatusCode::PRECONDITION_FAILED,
                "UpdateConditionNotSatisfied",
                "The update condition specified in the request was not satisfied.",
            ),
            ErrorKind::LimitExceeded { kind, allowed, .. } => Self::limit(*kind, *allowed, text),
            ErrorKind::InvalidKey { .. } => bad("OutOfRangeInput"),
            ErrorKind::InvalidName { .. } => bad("PropertyNameInvalid"),
            ErrorKind::InvalidValue { .. } => bad("OutOfRangeInput"),
            ErrorKind::InvalidFilter { .. }
            | ErrorKind::InvalidArgument(_)
            | ErrorKind::Misuse(_)
            | ErrorKind::InvalidDeclaration(_)
            | ErrorKind::ManifestMismatch(_)
            | ErrorKind::IndexNotReady(_)
            | ErrorKind::WrongState(_)
            | ErrorKind::Rejected(_)
            | ErrorKind::ScanRefused { .. } => bad("InvalidInput"),
            ErrorKind::InvalidContinuation(_) => bad("InvalidQueryParameterValue"),
            // Without the key of the entry: it is made of properties that the client may not be allowed to read.
            ErrorKind::UniqueViolation { index, .. } | ErrorKind::KeyCollision { index, .. } => {
                let message =
                    format!("The value that the entity would get in the index '{index}' is taken.");
                Self::new(StatusCode::CONFLICT, "EntityAlreadyExists", message)
            }
            ErrorKind::Throttled { retry_after } => Self::busy(*retry_after),
            ErrorKind::Timeout { .. } => Self::timed_out(),
            ErrorKind::Unsupported { .. } => Self::not_implemented(&text),
            // A row of the client's table is damaged: the client can repair or delete it, if the message names it.
            ErrorKind::Decode(_) => Self {
                message: text.clone().into(),
                ..Self::internal(&text)
            },
            _ => Self::internal(&text),
        }
    }

    /// By the kind and not by the number: the limits of a RowKey and of a property's name are equal in Azure Cosmos DB.
    fn limit(kind: LimitKind, allowed: usize, text: String) -> Self {
        let code = match kind {
            LimitKind::PropertyCount => "TooManyProperties",
            LimitKind::EntitySize => "EntityTooLarge",
            LimitKind::PropertyNameLength => "PropertyNameTooLong",
            LimitKind::PropertyValueLength | LimitKind::KeyLength => "PropertyValueTooLarge",
            LimitKind::RequestSize => return Self::body_too_large(allowed),
            _ => "InvalidInput",
        };
        Self::new(StatusCode::BAD_REQUEST, code, text)
    }
}

#[cfg(test)]
mod tests {
    use table_core::engine::{check_group, check_operation};
    use table_core::model::{Entity, PartitionKey};
    use table_core::store::{GroupTransaction, Operation, ServiceProfile};

    use super::*;

    fn of(kind: ErrorKind) -> (u16, &'static str) {
        let failure = Failure::from(Error::new(kind));
        (failure.status.as_u16(), failure.code)
    }

    #[test]
    fn store_errors_have_the_documented_codes() {
        let (table, key) = (|| "T".to_owned(), || "('p', 'r')".to_owned());
        assert_eq!(
            of(ErrorKind::TableNotFound { table: table() }),
            (404, "TableNotFound")
        );
        assert_eq!(
            of(ErrorKind::TableBeingDeleted { table: table() }),
            (409, "TableBeingDeleted")
        );
        let missing = ErrorKind::EntityNotFound {
            table: table(),
            key: key(),
        };
        assert_eq!(of(missing), (404, "ResourceNotFound"));
        let there = ErrorKind::EntityAlreadyExists {
            table: table(),
            key: key(),
        };
        assert_eq!(of(there), (409, "EntityAlreadyExists"));
        let changed = ErrorKind::PreconditionFailed {
            table: table(),
            key: key(),
        };
        assert_eq!(of(changed), (412, "UpdateConditionNotSatisfied"));
        for (kind, expected) in [
            (LimitKind::PropertyCount, (400, "TooManyProperties")),
            (LimitKind::EntitySize, (400, "EntityTooLarge")),
            (LimitKind::PropertyNameLength, (400, "PropertyNameTooLong")),
            (
                LimitKind::PropertyValueLength,
                (400, "PropertyValueTooLarge"),
            ),
            (LimitKind::KeyLength, (400, "PropertyValueTooLarge")),
            (LimitKind::RequestSize, (413, "RequestBodyTooLarge")),
            (LimitKind::FilterSize, (400, "InvalidInput")),
        ] {
            let limit = ErrorKind::LimitExceeded {
                kind,
                quantity: "x".to_owned(),
                allowed: 1,
                actual: 2,
            };
            assert_eq!(of(limit), expected);
        }
        let damaged = Error::decode(
            "manifest",
            table_core::model::Key::new("p", "r").unwrap(),
            "Format",
            "Edm.Int32",
            "nothing",
        );
        let failure = Failure::from(damaged);
        assert_eq!(
            (failure.status.as_u16(), failure.code),
            (500, "InternalError")
        );
        assert!(
            failure.message.contains("('p', 'r')") && failure.message.contains("'Format'"),
            "{}",
            failure.message
        );
        assert_eq!(
            of(ErrorKind::Throttled { retry_after: None }),
            (503, "ServerBusy")
        );
        assert_eq!(
            of(ErrorKind::Storage("secret path".to_owned())),
            (500, "InternalError")
        );
    }

    /// In Azure Cosmos DB, a RowKey and the name of a property have the same limit, and so have an entity and a group.
    #[test]
    fn equal_limits_have_different_codes() {
        let profile = ServiceProfile::COSMOS_TABLE;
        let refused = |checked: table_core::Result<()>| Failure::from(checked.unwrap_err()).code;
        let long_key = Operation::Insert(Entity::new("p", "r".repeat(256)).unwrap());
        assert_eq!(
            refused(check_operation(&profile, &long_key)),
            "PropertyValueTooLarge"
        );
        let long_name = Operation::Insert(Entity::new("p", "r").unwrap().with(&"n".repeat(256), 1));
        assert_eq!(
            refused(check_operation(&profile, &long_name)),
            "PropertyNameTooLong"
        );

        let value = "v".repeat(30_000);
        let entity = |row: &str, properties: u32| {
            let entity = Entity::new("p", row).unwrap();
            (0..properties).fold(entity, |entity, n| entity.with(&format!("P{n}"), &*value))
        };
        let large_entity = Operation::Insert(entity("r", 40));
        assert_eq!(
            refused(check_operation(&profile, &large_entity)),
            "EntityTooLarge"
        );
        let mut group =
            GroupTransaction::new(PartitionKey::new("p").unwrap(), &ServiceProfile::SERVED);
        for row in ["1", "2", "3", "4"] {
            group.push(Operation::Insert(entity(row, 20))).unwrap();
        }
        assert_eq!(
            refused(check_group(&profile, &group)),
            "RequestBodyTooLarge"
        );
    }

    #[test]
    fn an_unknown_outcome_is_never_reported_as_refused() {
        let gone = ErrorKind::EntityNotFound {
            table: "T".to_owned(),
            key: String::new(),
        };
        for kind in [gone, ErrorKind::Throttled { retry_after: None }] {
            let failure = Failure::from(Error::new(kind.clone()).with_outcome(Outcome::Ambiguous));
            assert_eq!(failure.status.as_u16(), 500);
            assert_eq!(failure.code, "OperationTimedOut");
            let failure = Failure::from(Error::new(kind).with_outcome(Outcome::Applied));
            assert_eq!(failure.status.as_u16(), 500);
            assert_eq!(failure.code, "InternalError");
        }
    }

    #[test]
    fn messages_do_not_repeat_signatures() {
        for (text, expected) in [
            ("a filter", "a filter"),
            ("", ""),
            (
                "'x?sv=1&sig=aB%2B/+=&se=2' é",
                "'x?sv=1&sig=(removed)&se=2' é",
            ),
            (
                "SIG=a sig%3Db \"sig%253Dc%3D\"",
                "SIG=(removed) sig%3D(removed) \"sig%253D(removed)\"",
            ),
            ("sig=", "sig=(removed)"),
        ] {
            assert_eq!(without_signatures(text), expected);
        }
    }

    #[test]
    fn errors_are_written_in_json_and_xml() {
        let failure = || Failure::invalid_input("a <b> & \"c\"").of_operation(3);
        let json = failure().into_answer(ErrorFormat::Json, "id");
        let read: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
        assert_eq!(read["odata.error"]["code"], "InvalidInput");
        let message = read["odata.error"]["message"]["value"].as_str().unwrap();
        assert!(
            message.starts_with("3:a <b> & \"c\"\nRequestId:id\nTime:2"),
            "{message}"
        );
        let xml = failure().into_answer(ErrorFormat::Xml, "id");
        let text = String::from_utf8(xml.body.to_vec()).unwrap();
        assert!(
            text.contains("<Code>InvalidInput</Code><Message>3:a &lt;b&gt; &amp; "),
            "{text}"
        );
        assert_eq!(xml.headers["x-ms-error-code"], "InvalidInput");
    }
}
