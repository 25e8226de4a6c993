use uuid::Uuid;

use crate::model::{EdmValue, Ticks};

/// Parses a number: `1` is an Int32, `1L` an Int64; `1.0`, `1e3` and `1d` are Doubles.
///
/// The service does not widen a large integer automatically: it returns 400, "Unrecognized 'Edm.Int32'
/// literal" (<https://github.com/microsoft/AzureStorageExplorer/issues/1382>).
pub(super) fn number(text: &str) -> Result<EdmValue, String> {
    if text == "-INF" {
        return Ok(EdmValue::Double(f64::NEG_INFINITY));
    }
    if let Some(digits) = text.strip_suffix('L') {
        return integer(digits, "Edm.Int64").map(EdmValue::Int64);
    }
    let digits = text.strip_suffix(['d', 'D']).unwrap_or(text);
    if digits.len() < text.len() || digits.contains(['.', 'e', 'E']) {
        return double(digits).map(EdmValue::Double);
    }
    let value = integer(text, "Edm.Int32")?;
    let too_long = format!("{text} does not fit an Edm.Int32; write {text}L for an Edm.Int64");
    i32::try_from(value).map(EdmValue::Int32).map_err(|_| too_long)
}

fn integer(text: &str, edm_type: &str) -> Result<i64, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("'{text}' is not a number; write for example 1, 1L, 1.0 or 1e3"));
    }
    text.parse().map_err(|_| format!("{text} does not fit an {edm_type}"))
}

fn double(text: &str) -> Result<f64, String> {
    // Rust parses more forms than the service writes, for example `inf`.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    match text.parse::<f64>() {
        Ok(value) if plain && value.is_finite() => Ok(value),
        Ok(_) if plain => Err(format!("{text} does not fit an Edm.Double; write INF or -INF")),
        _ => Err(format!("'{text}' is not a number; write for example 1.5 or 1.5e-3")),
    }
}

/// Parses a literal with a type prefix, as in `guid'…'`.
pub(super) fn typed(prefix: &str, text: &str) -> Result<EdmValue, String> {
    match prefix {
        "datetime" => datetime(text).map(EdmValue::DateTime),
        "guid" => guid(text).map(EdmValue::Guid),
        "X" | "binary" => binary(text).map(EdmValue::Binary),
        other => Err(format!("unknown literal type '{other}'; expected datetime, guid, X or binary")),
    }
}

/// Parses ISO 8601 with up to 7 decimals. The default time zone is UTC.
fn datetime(text: &str) -> Result<Ticks, String> {
    let decimals = text.split_once('.').map_or(0, |(_, t)| t.bytes().take_while(u8::is_ascii_digit).count());
    let zoned = match text.len() {
        // `2013-01-01T05:15`, without seconds.
        16 => format!("{text}:00Z"),
        _ if text.get(10..).is_some_and(|time| time.contains(['Z', '+', '-'])) => text.to_owned(),
        _ => format!("{text}Z"),
    };
    Some(zoned)
        .filter(|zoned| decimals <= 7 && zoned.as_bytes().get(10) == Some(&b'T'))
        .and_then(|zoned| zoned.parse().ok())
        .ok_or_else(|| format!("'{text}' is not a DateTime; write for example 2013-01-01T05:15:00.1234567Z"))
}

fn guid(text: &str) -> Result<Uuid, String> {
    let problem = || format!("'{text}' is not a Guid; write 32 hexadecimal digits as 8-4-4-4-12");
    // Of the forms that the crate parses, only the hyphenated one has this length.
    Some(text).filter(|t| t.len() == 36).and_then(|t| Uuid::try_parse(t).ok()).ok_or_else(problem)
}

fn binary(text: &str) -> Result<Vec<u8>, String> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    bytes.ok_or_else(|| "write a Binary as pairs of hexadecimal digits".to_owned())
}
