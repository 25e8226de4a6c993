//! Times in signatures and policies.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};

/// Parses the documented forms of a time: a date, optionally with the time to the minute, second or fraction.
///
/// <https://learn.microsoft.com/rest/api/storageservices/formatting-datetime-values>
pub(crate) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    let whole = || DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc());
    let minute = || DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M%#z").ok().map(|time| time.to_utc());
    let day = || text.parse::<NaiveDate>().ok().map(|day| day.and_time(NaiveTime::MIN).and_utc());
    whole().or_else(minute).or_else(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_documented_forms_are_read() {
        for (text, expected) in [
            ("2025-01-02", "2025-01-02T00:00:00Z"),
            ("2025-01-02T10:30Z", "2025-01-02T10:30:00Z"),
            ("2025-01-02T10:30:05Z", "2025-01-02T10:30:05Z"),
            ("2025-01-02T10:30:05.1234567Z", "2025-01-02T10:30:05.1234567Z"),
            ("2025-01-02T10:30:05-01:00", "2025-01-02T11:30:05Z"),
        ] {
            assert_eq!(parse_time(text), expected.parse().ok(), "{text}");
        }
        for text in ["", "soon", "2025-13-01", "2025-01-02T10:30", "2025-01-02T25:00Z"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
