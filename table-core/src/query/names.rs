use super::Comparison;

/// Words of the filter language, which cannot be property names in a filter.
const RESERVED: [&str; 8] = ["and", "or", "not", "true", "false", "null", "NaN", "INF"];

/// Returns why a property with this name cannot be in a filter.
pub(super) fn name_problem(name: &str) -> Option<&'static str> {
    let mut chars = name.chars();
    if !chars.next().is_some_and(starts_name) || !chars.all(continues_name) {
        return Some("it must be an identifier: a letter or '_', then letters, digits or '_'");
    }
    is_reserved(name).then_some("it is a word of the filter language")
}

pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || Comparison::from_keyword(word).is_some()
}

pub(super) fn starts_name(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

pub(super) fn continues_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
