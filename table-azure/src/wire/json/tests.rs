use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn scalar(json: &str) -> Option<Scalar<'_>> {
    read(json.as_bytes(), Json::scalar).ok()
}

fn as_serde_has_it(json: &str) -> Option<Scalar<'_>> {
    Some(match serde_json::from_str(json).ok()? {
        Value::Null => Scalar::Null,
        Value::Bool(value) => Scalar::Boolean(value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Scalar::Integer(integer),
            None => Scalar::Decimal(number.as_f64()?),
        },
        Value::String(text) => Scalar::Text(Cow::Owned(text)),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

proptest! {
    #[test]
    fn numbers_equal_those_of_serde_json(json in "-?[0-9]{0,20}(\\.[0-9]{0,6})?([eE][+-]?[0-9]{0,3})?|[-+.eE0-9]{1,6}") {
        prop_assert_eq!(scalar(&json), as_serde_has_it(&json), "{}", json);
    }

    #[test]
    fn strings_equal_those_of_serde_json(text in any::<String>(), broken in "\"[a\\\\\"/bfnrtu0d8]{0,12}\"?") {
        let json = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(scalar(&json), Some(Scalar::Text(Cow::Owned(text))));
        prop_assert_eq!(scalar(&broken), as_serde_has_it(&broken), "{}", broken);
    }

    #[test]
    fn skipped_values_are_valid_json(json in "[\\[\\]{},:\" 01tnrulfase.-]{0,16}") {
        let skipped = read(json.as_bytes(), Json::skip).is_ok();
        prop_assert_eq!(skipped, serde_json::from_str::<Value>(&json).is_ok(), "{}", json);
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert!(read(nested(MAX_DEPTH).as_bytes(), Json::skip).is_ok());
    assert!(read(nested(MAX_DEPTH + 1).as_bytes(), Json::skip).is_err());
    assert!(read("[".repeat(1 << 20).as_bytes(), Json::skip).is_err());
}

#[test]
fn errors_name_the_position() {
    let error = read(b"{\"a\" 1}", Json::skip).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "byte 5: expected ':'");
}
