/// A naming rule of `rename_all`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

const RULES: [(&str, Case); 8] = [
    ("lowercase", Case::Lower),
    ("UPPERCASE", Case::Upper),
    ("PascalCase", Case::Pascal),
    ("camelCase", Case::Camel),
    ("snake_case", Case::Snake),
    ("SCREAMING_SNAKE_CASE", Case::ScreamingSnake),
    ("kebab-case", Case::Kebab),
    ("SCREAMING-KEBAB-CASE", Case::ScreamingKebab),
];

impl Case {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        RULES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, case)| *case)
    }

    /// Returns the names of the rules, for messages.
    pub(crate) fn names() -> String {
        RULES.map(|(name, _)| format!("`{name}`")).join(", ")
    }

    /// Applies the rule to the words of a name.
    pub(crate) fn apply(self, name: &str) -> String {
        let words = words(name);
        let join = |separator: &str, each: fn(&str) -> String| {
            words
                .iter()
                .map(|w| each(w))
                .collect::<Vec<_>>()
                .join(separator)
        };
        match self {
            Self::Lower => join("", str::to_lowercase),
            Self::Upper => join("", str::to_uppercase),
            Self::Pascal => join("", capitalized),
            Self::Camel => {
                let pascal = join("", capitalized);
                let mut chars = pascal.chars();
                chars.next().map_or(String::new(), |first| {
                    first.to_lowercase().chain(chars).collect()
                })
            }
            Self::Snake => join("_", str::to_lowercase),
            Self::ScreamingSnake => join("_", str::to_uppercase),
            Self::Kebab => join("-", str::to_lowercase),
            Self::ScreamingKebab => join("-", str::to_uppercase),
        }
    }
}

/// Splits `snake_case` and `PascalCase` names into words.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous = '_';
    for c in name.chars() {
        let starts = previous == '_' || (c.is_uppercase() && !previous.is_uppercase());
        match words.last_mut() {
            _ if c == '_' => {}
            Some(word) if !starts => word.push(c),
            _ => words.push(c.into()),
        }
        previous = c;
    }
    words
}

fn capitalized(word: &str) -> String {
    let mut chars = word.chars();
    let first = chars.next().map(char::to_uppercase);
    first
        .into_iter()
        .flatten()
        .chain(chars.flat_map(char::to_lowercase))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Case;

    #[test]
    fn each_rule_applies_to_fields_and_variants() {
        let cases = [
            ("lowercase", "firstname", "empid"),
            ("UPPERCASE", "FIRSTNAME", "EMPID"),
            ("PascalCase", "FirstName", "EmpId"),
            ("camelCase", "firstName", "empId"),
            ("snake_case", "first_name", "emp_id"),
            ("SCREAMING_SNAKE_CASE", "FIRST_NAME", "EMP_ID"),
            ("kebab-case", "first-name", "emp-id"),
            ("SCREAMING-KEBAB-CASE", "FIRST-NAME", "EMP-ID"),
        ];
        for (rule, field, variant) in cases {
            let case = Case::parse(rule).unwrap();
            assert_eq!(case.apply("first_name").as_str(), field);
            assert_eq!(case.apply("EmpId").as_str(), variant);
        }
    }
}
