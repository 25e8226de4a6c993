//! The plaintext encoding of values. Each value has one encoding; others are refused.

use table_core::model::{EdmType, EdmValue, Ticks, ValueRef};
use uuid::Uuid;

pub(crate) fn encode(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Binary(v) => v.to_vec(),
        ValueRef::Boolean(v) => vec![u8::from(v)],
        ValueRef::DateTime(v) => v.get().to_be_bytes().to_vec(),
        ValueRef::Double(v) => v.to_bits().to_be_bytes().to_vec(),
        ValueRef::Guid(v) => v.as_bytes().to_vec(),
        ValueRef::Int32(v) => v.to_be_bytes().to_vec(),
        ValueRef::Int64(v) => v.to_be_bytes().to_vec(),
        ValueRef::String(v) => v.as_bytes().to_vec(),
    }
}

pub(super) fn decode(edm_type: EdmType, bytes: Vec<u8>) -> Option<EdmValue> {
    let number = |bytes: Vec<u8>| bytes.try_into().ok().map(i64::from_be_bytes);
    Some(match edm_type {
        EdmType::Binary => EdmValue::Binary(bytes),
        EdmType::Boolean => match *bytes {
            [0] => EdmValue::Boolean(false),
            [1] => EdmValue::Boolean(true),
            _ => return None,
        },
        EdmType::DateTime => EdmValue::DateTime(Ticks::new(number(bytes)?)?),
        EdmType::Double => EdmValue::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
        EdmType::Guid => EdmValue::Guid(Uuid::from_bytes(bytes.try_into().ok()?)),
        EdmType::Int32 => EdmValue::Int32(i32::from_be_bytes(bytes.try_into().ok()?)),
        EdmType::Int64 => EdmValue::Int64(number(bytes)?),
        EdmType::String => EdmValue::String(String::from_utf8(bytes).ok()?),
    })
}
