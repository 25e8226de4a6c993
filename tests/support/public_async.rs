//! Whether a test file calls every public async function of a crate.

use std::collections::BTreeMap;
use std::path::Path;

/// The names of public async functions that are defined more often in the sources than they are called here.
pub(crate) fn missing(sources: &str, calls: &str) -> Vec<String> {
    let mut defined = BTreeMap::new();
    count(Path::new(sources), &mut defined);
    let called = |name: &str| {
        let plain =
            calls.matches(&format!(".{name}(")).count() + calls.matches(&format!("::{name}(")).count();
        plain + calls.matches(&format!("({name}(")).count() + calls.matches(&format!("{name}::<")).count()
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
            for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("pub async fn ")) {
                let name = line.split(['(', '<']).next().unwrap_or_default();
                *defined.entry(name.to_owned()).or_insert(0) += 1;
            }
        }
    }
}
