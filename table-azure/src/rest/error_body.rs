//! Parses the bodies of errors.

use serde::Deserialize;

/// Code and message of an error body.
#[derive(Default)]
pub(super) struct ErrorBody {
    pub(super) code: Option<String>,
    pub(super) message: String,
}

impl ErrorBody {
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        match body.iter().find(|b| !b.is_ascii_whitespace())? {
            b'{' => Self::from_json(body),
            _ => Self::from_xml(body),
        }
    }

    fn from_json(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Json {
            // The documented form is `odata.error` with a localized message
            // (<https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2>). The same two values are read
            // from other forms too.
            #[serde(rename = "odata.error", alias = "error")]
            error: JsonError,
        }
        #[derive(Deserialize)]
        struct JsonError {
            code: String,
            message: JsonMessage,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum JsonMessage {
            Localized { value: String },
            Plain(String),
        }
        let JsonError { code, message } = serde_json::from_slice::<Json>(body).ok()?.error;
        let (JsonMessage::Localized { value: message } | JsonMessage::Plain(message)) = message;
        Some(Self {
            code: Some(code),
            message,
        })
    }

    fn from_xml(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Xml {
            #[serde(rename = "Code", alias = "code")]
            code: String,
            #[serde(rename = "Message", alias = "message", default)]
            message: XmlMessage,
        }
        #[derive(Deserialize, Default)]
        struct XmlMessage {
            #[serde(rename = "$text", default)]
            text: String,
        }
        let xml: Xml = azure_core::xml::from_xml(body).ok()?;
        Some(Self {
            code: Some(xml.code),
            message: xml.message.text,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use table_core::Error;

    use crate::rest::{Failure, Subject};

    fn read(status: u16, body: &[u8]) -> Error {
        let mut failure = Failure::of_body(status, body);
        failure.take_index();
        failure.into_error(&Subject::Service, true)
    }

    proptest! {
        #[test]
        fn any_body_makes_an_error(
            status in 300..600u16,
            start in prop::sample::select(vec!["", "{", "<Error>", "{\"odata.error\":"]),
            rest in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let error = read(status, &[start.as_bytes(), &rest].concat());
            prop_assert_eq!(error.answer().map(|answer| answer.status), Some(status));
            prop_assert!(!error.to_string().is_empty());
        }

        #[test]
        fn every_code_is_found(code in "[A-Za-z]{1,30}", message in "[a-z0-9]{0,30}") {
            let plain = format!("{{\"odata.error\":{{\"code\":\"{code}\",\"message\":\"{message}\"}}}}");
            let localized = format!(
                "{{\"error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"\",\"value\":\"{message}\"}}}}}}"
            );
            let xml = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
            for body in [plain, localized, xml] {
                let error = read(400, body.as_bytes());
                prop_assert_eq!(error.answer().and_then(|answer| answer.code.as_deref()), Some(&*code));
            }
        }
    }
}
