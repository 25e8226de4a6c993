use crate::error::ErrorKind;
use crate::model::TableName;

#[test]
fn names_follow_the_services_rules() {
    let longest = "a".repeat(63);
    for name in ["abc", "A1b", "tables1", &longest] {
        assert!(TableName::new(name).is_ok(), "{name}");
    }
    let too_long = "a".repeat(64);
    for name in [
        "", "ab", "1ab", "a-b", "a_b", "a b", "äbc", "tables", "Tables", &too_long,
    ] {
        let error = TableName::new(name).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::InvalidName { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
}
