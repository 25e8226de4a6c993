//! Values of files as text: the types that they show, and their parsing. No value changes without a word: a number that a type
//! would round is not of that type.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use table_core::model::{EdmType, EdmValue, Ticks};

/// The types that are inferred, the narrowest first.
const INFERABLE_TYPES: [EdmType; 5] = [
    EdmType::Boolean,
    EdmType::Int32,
    EdmType::Int64,
    EdmType::Double,
    EdmType::DateTime,
];
/// The bit of [`Evidence`] for times that all have a day, a time and a zone.
const WHOLE_TIMES: u8 = 1 << INFERABLE_TYPES.len();

/// The types that every value of a column can have without a change: one bit for each of [`INFERABLE_TYPES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evidence(u8);

impl Evidence {
    /// The types that a text of CSV can have.
    ///
    /// A number with zeros in front, such as a postal code, is text. So is a number with a bare exponent, such as `12e5`, which may
    /// be an identifier: programs write exponents with a point or a sign (`1.2e6`, `1e-05`). A number that a reader gets back in other
    /// digits is text too: more decimals than a Double keeps, and `-0`.
    pub(super) fn of_text(text: &str) -> Self {
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return Self::of(&[EdmType::Boolean]);
        }
        if let Ok(time) = time(text) {
            let Self(bits) = Self::of(&[EdmType::DateTime]);
            return Self(if time.is_whole {
                bits | WHOLE_TIMES
            } else {
                bits
            });
        }
        Self::of_number(text)
    }

    /// The types of numbers that a text of CSV can have.
    fn of_number(text: &str) -> Self {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
            && !(digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."))
            && text != "-0";
        let has_bare_exponent = digits.contains(['e', 'E']) && !digits.contains(['.', '+', '-']);
        if !is_number || has_bare_exponent {
            return Self(0);
        }
        // The shortest digits of a Double are those that every program writes.
        let is_read_back = is_whole(digits)
            || text.parse().is_ok_and(|value: f64| {
                significant_digits(&format!("{value:e}")) == significant_digits(text)
            });
        if is_read_back {
            Self::of_literal(text)
        } else {
            Self(0)
        }
    }

    /// The types that a number of JSON can have.
    pub(super) fn of_literal(text: &str) -> Self {
        let exact = exact_double(text);
        if !is_whole(text.strip_prefix('-').unwrap_or(text)) {
            return if exact.is_some() {
                Self::of(&[EdmType::Double])
            } else {
                Self(0)
            };
        }
        match (text.parse::<i32>(), text.parse::<i64>(), exact) {
            // An integer has no sign of zero.
            (Ok(0), ..) if text.starts_with('-') => Self::of(&[EdmType::Double]),
            (Ok(_), ..) => Self::of(&[EdmType::Int32, EdmType::Int64, EdmType::Double]),
            (_, Ok(_), Some(_)) => Self::of(&[EdmType::Int64, EdmType::Double]),
            (_, Ok(_), None) => Self::of(&[EdmType::Int64]),
            // A whole number that no Int64 holds is text: a Double has its value by chance alone.
            _ => Self(0),
        }
    }

    /// Whether the values can have the type.
    fn has(self, edm_type: EdmType) -> bool {
        self.and(Self::of(&[edm_type])) != Self(0)
    }

    fn of(types: &[EdmType]) -> Self {
        let bit = |of: &EdmType| {
            INFERABLE_TYPES
                .iter()
                .position(|known| known == of)
                .map_or(0, |at| 1 << at)
        };
        Self(types.iter().map(bit).fold(0, |bits, bit| bits | bit))
    }

    /// The types that the values of both can have.
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The narrowest type; text if there is no other.
    pub(super) fn narrowest(self) -> EdmType {
        let fits = |(at, _): &(usize, EdmType)| self.0 & 1 << at != 0;
        INFERABLE_TYPES
            .into_iter()
            .enumerate()
            .find(fits)
            .map_or(EdmType::String, |(_, of)| of)
    }

    /// Whether the values are times, and some of them have no time of day or no zone.
    pub(super) fn completes_times(self) -> bool {
        self.narrowest() == EdmType::DateTime && self.0 & WHOLE_TIMES == 0
    }
}

/// Parses a value of an inferred type: a value that was not among the first rows is not changed by it either.
///
/// # Errors
/// The text is not of the type, or the type would change the text.
pub(super) fn parse_inferred(text: &str, edm_type: EdmType) -> Result<EdmValue, &'static str> {
    let value = parse_value(text, edm_type)?;
    let is_number = matches!(edm_type, EdmType::Int32 | EdmType::Int64 | EdmType::Double);
    if is_number && !Evidence::of_number(text).has(edm_type) {
        return Err("a number would be other text");
    }
    Ok(value)
}

/// Parses a value of a type.
///
/// # Errors
/// The text is not of the type, or the type would change the value.
pub(super) fn parse_value(text: &str, edm_type: EdmType) -> Result<EdmValue, &'static str> {
    const OTHER: &str = "it is other text";
    Ok(match edm_type {
        EdmType::Binary => EdmValue::Binary(STANDARD.decode(text).map_err(|_| "it is not base64")?),
        EdmType::Boolean if text.eq_ignore_ascii_case("true") => EdmValue::Boolean(true),
        EdmType::Boolean if text.eq_ignore_ascii_case("false") => EdmValue::Boolean(false),
        EdmType::Boolean => return Err("it is neither true nor false"),
        EdmType::DateTime => EdmValue::DateTime(time(text)?.ticks),
        EdmType::Double => EdmValue::Double(double(text)?),
        EdmType::Guid => EdmValue::Guid(text.parse().map_err(|_| OTHER)?),
        EdmType::Int32 => EdmValue::Int32(
            text.parse()
                .map_err(|_| "it is not a whole number of 32 bits")?,
        ),
        EdmType::Int64 => EdmValue::Int64(
            text.parse()
                .map_err(|_| "it is not a whole number of 64 bits")?,
        ),
        EdmType::String => EdmValue::String(text.to_owned()),
    })
}

/// Parses a number whose type is given. A number with decimals becomes the nearest Double, as everywhere; one that would become
/// infinite or zero is refused, and so is a whole number that would become another.
fn double(text: &str) -> Result<f64, &'static str> {
    let value: f64 = text.parse().map_err(|_| "it is not a number")?;
    let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
    if has_digits && value.is_infinite() {
        return Err("it is larger than every Double");
    }
    if value == 0.0 && !significant_digits(text).is_empty() {
        return Err("it is nearer to 0 than every Double");
    }
    if is_whole(text.trim_start_matches(['-', '+'])) && exact_double(text).is_none() {
        return Err("a Double would round the whole number");
    }
    Ok(value)
}

fn is_whole(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a number that a Double holds: printed with as many digits as the text has, the Double has the digits of the text.
fn exact_double(text: &str) -> Option<f64> {
    // Only numbers: Rust also parses `inf` and `nan`.
    if !text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
    {
        return None;
    }
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    let digits = significant_digits(text);
    if digits.is_empty() {
        return Some(value);
    }
    // No Double has more than 767 significant digits, and the formatting of a longer text would be wasted.
    if digits.len() > 800 {
        return None;
    }
    let printed = format!("{value:.*e}", digits.len() - 1);
    (significant_digits(&printed) == digits).then_some(value)
}

/// The digits of a number without its exponent and without the zeros at both ends; empty for zero.
fn significant_digits(text: &str) -> String {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_matches('0').to_owned()
}

/// A time, and how it was written.
#[derive(Clone, Copy, Debug)]
struct Time {
    ticks: Ticks,
    /// Whether the text has a time of day and a zone.
    is_whole: bool,
}

/// Parses a time: as the service writes it, or a day with or without a time of day, and with a blank for the `T`. A time without a
/// zone is in UTC.
fn time(text: &str) -> Result<Time, &'static str> {
    const OTHER: &str = "it is not a time such as 2013-01-01T05:15:00Z";
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let decimals = fraction.bytes().take_while(u8::is_ascii_digit);
    // The parser drops them.
    if decimals.skip(7).any(|digit| digit != b'0') {
        return Err("it has more than 7 decimals, and a DateTime has 100 ns");
    }
    if let Ok(ticks) = text.parse::<Ticks>() {
        return Ok(Time {
            ticks,
            is_whole: true,
        });
    }
    let (day, rest) = text.split_at_checked(10).ok_or(OTHER)?;
    let is_day = day.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    if !is_day {
        return Err(OTHER);
    }
    let rest = match rest.strip_prefix(['T', 't', ' ']) {
        Some(rest) => rest,
        None if rest.is_empty() => "00:00:00",
        None => return Err(OTHER),
    };
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(zone_at);
    let time = time.trim_end();
    let seconds = if time.len() == 5 { ":00" } else { "" };
    let zone = if zone.is_empty() { "Z" } else { zone };
    let ticks = format!("{day}T{time}{seconds}{zone}")
        .parse()
        .map_err(|_| OTHER)?;
    Ok(Time {
        ticks,
        is_whole: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_inferred_only_where_they_are_certain() {
        let inferred = |text: &str| Evidence::of_text(text).narrowest();
        assert_eq!(inferred("-7"), EdmType::Int32);
        assert_eq!(inferred("3000000000"), EdmType::Int64);
        for text in [
            "0.5",
            "2.50",
            "-1.5e300",
            "1e-05",
            "1e+16",
            "0.30000000000000004",
            "-0.0",
        ] {
            assert_eq!(inferred(text), EdmType::Double, "{text}");
        }
        assert_eq!(inferred("True"), EdmType::Boolean);
        for text in [
            "2013-01-01T05:00:00Z",
            "2024-02-01",
            "2024-02-01 10:11:12",
            "2024-02-01 10:11:12.5+01:00",
            "2024-02-01T10:11",
        ] {
            assert_eq!(inferred(text), EdmType::DateTime, "{text}");
        }
        let texts = [
            "007",
            "",
            "inf",
            "NaN",
            "1 ",
            "+1",
            "-",
            "89310860123456789012",
            "99999000039722400001",
            "12e5",
            "1e400",
            "-1e400",
            "1.5e400",
            "1.5e-400",
            "3.14159265358979323846",
            "0.10000000000000001",
            "9007199254740993.0",
            "-0",
            "2024-02-30",
            "2024-02-01 10",
            "2024-02-01T00:00:00.12345678Z",
        ];
        for text in texts {
            assert_eq!(inferred(text), EdmType::String, "{text}");
        }
    }

    #[test]
    fn values_have_one_type_that_changes_none() {
        let common = |texts: &[&str]| {
            let all = texts
                .iter()
                .map(|text| Evidence::of_text(text))
                .reduce(Evidence::and)
                .unwrap();
            all.narrowest()
        };
        assert_eq!(common(&["1", "3000000000"]), EdmType::Int64);
        assert_eq!(common(&["1", "0.5"]), EdmType::Double);
        assert_eq!(common(&["9007199254740993", "0.5"]), EdmType::String);
        assert_eq!(common(&["1", "2013-01-01T05:00:00Z"]), EdmType::String);
        let literals = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| Evidence::of_literal(text))
                .reduce(Evidence::and)
                .unwrap()
                .narrowest()
        };
        assert_eq!(literals(&["1", "12e5"]), EdmType::Double);
        assert_eq!(literals(&["1", "89310860123456789012"]), EdmType::String);
        assert_eq!(literals(&["1e400"]), EdmType::String);
        // Numbers of JSON have no other digits than their value.
        assert_eq!(literals(&["0.10000000000000001"]), EdmType::Double);
        assert_eq!(literals(&["-0", "1"]), EdmType::Double);
        let times = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| Evidence::of_text(text))
                .reduce(Evidence::and)
                .unwrap()
        };
        assert!(times(&["2013-01-01T05:00:00Z", "2024-02-01"]).completes_times());
        assert!(!times(&["2013-01-01T05:00:00Z"]).completes_times());
    }

    /// A value after the first rows, which have shown the type.
    #[test]
    fn an_inferred_type_changes_no_text() {
        for (text, edm_type) in [
            ("-0", EdmType::Int32),
            ("007", EdmType::Int32),
            ("+7", EdmType::Int64),
            ("12e5", EdmType::Double),
            ("0.10000000000000001", EdmType::Double),
            ("NaN", EdmType::Double),
        ] {
            assert!(parse_value(text, edm_type).is_ok(), "{text}");
            assert!(parse_inferred(text, edm_type).is_err(), "{text}");
        }
        for (text, edm_type) in [
            ("-7", EdmType::Int32),
            ("7", EdmType::Int64),
            ("7", EdmType::Double),
            ("2.50", EdmType::Double),
            ("-0.0", EdmType::Double),
            ("007", EdmType::String),
            ("True", EdmType::Boolean),
            ("2024-02-01", EdmType::DateTime),
        ] {
            assert!(parse_inferred(text, edm_type).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_given_type_changes_no_number() {
        let double = |text: &str| parse_value(text, EdmType::Double);
        assert_eq!(double("12e5"), Ok(EdmValue::Double(12e5)));
        assert_eq!(
            double("12345678901234567000"),
            Ok(EdmValue::Double(12_345_678_901_234_567_000.0))
        );
        assert_eq!(
            double("3.14159265358979323846"),
            Ok(EdmValue::Double(std::f64::consts::PI))
        );
        assert_eq!(double("-inf"), Ok(EdmValue::Double(f64::NEG_INFINITY)));
        for text in [
            "1e400",
            "-1e400",
            "1e-400",
            "89310860123456789012",
            "9007199254740993",
            "five",
        ] {
            assert!(double(text).is_err(), "{text}");
        }
        let time = |text: &str| parse_value(text, EdmType::DateTime);
        assert_eq!(time("2024-02-01 10:11:12"), time("2024-02-01T10:11:12Z"));
        assert_eq!(time("2024-02-01"), time("2024-02-01T00:00:00Z"));
        assert_eq!(
            time("2024-02-01 10:11:12 +01:00"),
            time("2024-02-01T09:11:12Z")
        );
        assert!(time("2024-02-01T00:00:00.123456789Z").is_err());
        assert!(time("2024-02-01T00:00:00.123456700Z").is_ok());
    }
}
