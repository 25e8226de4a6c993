//! Support for test files that call every public async function of a crate. Compiling such a file proves that
//! the futures are `Send`.

use std::collections::BTreeMap;
use std::path::Path;

/// Takes a future that must be `Send`.
pub(crate) fn send<F: Future + Send>(_: F) {}

/// A value of any type, for calls that are compiled but never run.
pub(crate) fn any<T>() -> T {
    std::process::abort()
}

/// Panics if the sources below a folder define a public async function more often than `calls` calls it.
pub(crate) fn check_calls(sources: &str, calls: &str) {
    let missing = missing(sources, calls);
    assert!(missing.is_empty(), "add calls of {missing:?}");
}

fn missing(sources: &str, calls: &str) -> Vec<String> {
    let mut defined = BTreeMap::new();
    count(Path::new(sources), &mut defined);
    let called = |name: &str| {
        let plain = calls.matches(&format!(".{name}(")).count()
            + calls.matches(&format!("::{name}(")).count();
        plain
            + calls.matches(&format!("({name}(")).count()
            + calls.matches(&format!("{name}::<")).count()
    };
    let more = |(name, times): (String, usize)| (called(&name) < times).then_some(name);
    defined.into_iter().filter_map(more).collect()
}

fn count(directory: &Path, defined: &mut BTreeMap<String, usize>) {
    for entry in std::fs::read_dir(directory).expect("sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("tests") && !path.ends_with("proof") {
            count(&path, defined);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            for line in text
                .lines()
                .filter_map(|line| line.trim_start().strip_prefix("pub async fn "))
            {
                let name = line.split(['(', '<']).next().unwrap_or_default();
                *defined.entry(name.to_owned()).or_insert(0) += 1;
            }
        }
    }
}
