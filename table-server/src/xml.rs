//! The XML of policies, properties and statistics.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors::Failure;

/// Maximum bytes of a document: several times the size of the largest valid document.
const MAX_BYTES: usize = 64 * 1024;

/// Parses a document with this root element.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8], root: &str) -> Result<T, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::invalid_xml())?;
    let text = text.trim_start_matches('\u{FEFF}');
    if text.len() > MAX_BYTES || outermost(text) != Some(root) {
        return Err(Failure::invalid_xml());
    }
    quick_xml::de::from_str(text).map_err(|_| Failure::invalid_xml())
}

/// Writes a document.
pub(crate) fn write<T: Serialize>(value: &T) -> Result<String, Failure> {
    let xml = quick_xml::se::to_string(value).map_err(|e| Failure::internal(&e))?;
    Ok(format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>{xml}"))
}

/// Returns the name of the root element. It must be checked, because every field is optional and any other
/// document would parse as empty.
fn outermost(xml: &str) -> Option<&str> {
    let mut tags = xml.split('<').skip(1);
    let first = tags.find(|tag| !tag.starts_with(['?', '!']))?;
    first
        .split(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/'))
        .next()
}
