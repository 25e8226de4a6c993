//! Values and entities as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use table_azure::wire::encode_entity;
use table_core::model::{Entity, ValueRef};

/// Returns a value as text without its type, as in the JSON of the service.
pub(crate) fn value_text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Binary(bytes) => STANDARD.encode(bytes),
        ValueRef::Boolean(value) => value.to_string(),
        ValueRef::DateTime(time) => time.to_string(),
        ValueRef::Double(value) if value.is_nan() => "NaN".to_owned(),
        ValueRef::Double(value) if value.is_infinite() => {
            if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        // `Debug` writes 1.0 for 1, so that a reader takes the number for a Double and not for an integer.
        ValueRef::Double(value) => format!("{value:?}"),
        ValueRef::Guid(value) => value.to_string(),
        ValueRef::Int32(value) => value.to_string(),
        ValueRef::Int64(value) => value.to_string(),
        ValueRef::String(value) => value.to_owned(),
    }
}

/// Returns the entity as a line of JSON with its types, its Timestamp and its ETag.
pub(crate) fn entity_json(entity: &Entity) -> String {
    let json = String::from_utf8_lossy(&encode_entity(entity)).into_owned();
    let mut out = String::with_capacity(json.len() + 128);
    out.push('{');
    if let Some(etag) = entity.etag() {
        let text = serde_json::Value::from(etag.to_string());
        out.push_str(&format!("\"odata.etag\":{text},"));
    }
    if let Some(time) = entity.timestamp() {
        out.push_str(&format!("\"Timestamp\":\"{time}\","));
    }
    // The brace is written already. The keys follow in any case, so the comma before them is right.
    out.push_str(&json[1..]);
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use table_core::model::ETag;

    use super::*;

    #[test]
    fn values_are_printed_as_the_service_prints_them() {
        let texts = [
            (ValueRef::Double(1.0), "1.0"),
            (ValueRef::Double(f64::NEG_INFINITY), "-Infinity"),
            (ValueRef::Binary(&[0, 255]), "AP8="),
            (ValueRef::Int64(-7), "-7"),
        ];
        for (value, text) in texts {
            assert_eq!(value_text(value), text);
        }
    }

    #[test]
    fn a_line_of_json_can_be_read_back() {
        let entity = Entity::new("p", "r\"")
            .unwrap()
            .with("N", 5_i64)
            .with_system(Some(ETag::from("W/\"x\"")), Some("2013-01-01T00:00:00Z".parse().unwrap()));
        let json = entity_json(&entity);
        assert_eq!(table_azure::wire::decode_entity(json.trim().as_bytes()).unwrap(), entity);
    }
}
