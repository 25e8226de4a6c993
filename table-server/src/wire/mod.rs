//! The JSON of entities and tables.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations>

mod read;
mod write;

pub(crate) use read::{Fields, needs_value, read_fields, read_table_name};
pub(crate) use write::{JsonFormat, entities_page, entity_document, table_document, tables_page};

use http::StatusCode;

use crate::errors::{Failure, Result};

/// How much metadata about types and URLs a response has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Metadata {
    None,
    #[default]
    Minimal,
    Full,
}

impl Metadata {
    /// Returns the level requested by `$format` or `Accept`; `$format` takes precedence.
    pub(crate) fn requested(format: Option<&str>, accept: Option<&str>) -> Result<Self> {
        let Some(requested) = format.or(accept) else {
            return Ok(Self::Minimal);
        };
        let requested: String = requested
            .chars()
            .filter(|c| *c != ' ')
            .collect::<String>()
            .to_ascii_lowercase();
        // `Accept` may list several types. Their weights are not read: the levels count in this order.
        if requested.contains("odata=nometadata") {
            return Ok(Self::None);
        }
        if requested.contains("odata=fullmetadata") {
            return Ok(Self::Full);
        }
        if requested.contains("odata=verbose") {
            return Err(unsupported("JsonVerboseFormatNotSupported", "Verbose JSON"));
        }
        let json = ["json", "*/*", "application/*"]
            .iter()
            .any(|kind| requested.contains(kind));
        if json {
            Ok(Self::Minimal)
        } else {
            Err(unsupported("AtomFormatNotSupported", "Atom"))
        }
    }

    /// Returns the content type of this level.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
            Self::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
            Self::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
        }
    }
}

/// Checks that a body is JSON. The service dropped Atom in version 2015-12-11.
pub(crate) fn check_content_type(content_type: Option<&str>) -> Result<()> {
    match content_type {
        Some(kind) if !kind.to_ascii_lowercase().contains("json") => {
            Err(unsupported("AtomFormatNotSupported", "This content type"))
        }
        _ => Ok(()),
    }
}

fn unsupported(code: &'static str, what: &str) -> Failure {
    Failure::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        code,
        format!("{what} is not supported; use application/json."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_from_format_and_accept() {
        for (format, accept, expected) in [
            (None, None, Metadata::Minimal),
            (None, Some("application/json"), Metadata::Minimal),
            (None, Some("*/*"), Metadata::Minimal),
            (
                None,
                Some("application/json;odata=nometadata"),
                Metadata::None,
            ),
            (
                None,
                Some("application/json; odata=FullMetadata; charset=utf-8"),
                Metadata::Full,
            ),
            (
                Some("application/json;odata=nometadata"),
                Some("application/json;odata=fullmetadata"),
                Metadata::None,
            ),
            (Some("json"), None, Metadata::Minimal),
        ] {
            assert_eq!(
                Metadata::requested(format, accept).unwrap(),
                expected,
                "{accept:?}"
            );
        }
        let atom = Metadata::requested(None, Some("application/atom+xml")).unwrap_err();
        assert_eq!(atom.status.as_u16(), 415);
        assert_eq!(atom.code, "AtomFormatNotSupported");
        assert!(Metadata::requested(None, Some("application/json;odata=verbose")).is_err());
        assert!(check_content_type(Some("application/atom+xml")).is_err());
        assert!(
            check_content_type(Some("application/json")).is_ok()
                && check_content_type(None).is_ok()
        );
    }
}
