//! Texts of errors without SAS signatures.

use std::fmt;

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

    /// Returns the text after `context` and a colon, unless it begins with `context`.
    pub(super) fn with_context(&self, context: &str) -> String {
        if self.0.starts_with(context) {
            self.0.clone()
        } else {
            format!("{context}: {self}")
        }
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
        let end = part
            .find(|c: char| !(c.is_ascii_alphanumeric() || "%+/=-_".contains(c)))
            .unwrap_or(part.len());
        out.push_str("sig=REDACTED");
        out.push_str(&part[end..]);
    }
    out
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
}
