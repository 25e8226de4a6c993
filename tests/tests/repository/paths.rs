//! The paths and links of documents: a reader who follows one finds a file.

use std::fs;

use super::{files, relative, root};

#[test]
fn paths_and_links_of_documents_exist() {
    let root = root();
    let folders: Vec<_> = fs::read_dir(&root)
        .expect("the root")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .map(|path| relative(&path))
        .collect();
    let (mut broken, mut checked) = (Vec::new(), 0);
    for document in files(&root, "md") {
        let (name, text) = (
            relative(&document),
            fs::read_to_string(&document).expect("UTF-8"),
        );
        let paths = between(&text, "`", "`").filter(|path| !path.contains(char::is_whitespace));
        for path in paths.flat_map(alternatives) {
            if path
                .split_once('/')
                .is_some_and(|(first, _)| folders.iter().any(|folder| folder == first))
            {
                checked += 1;
                if !root.join(&path).exists() {
                    broken.push(format!("{name}: `{path}`"));
                }
            }
        }
        for link in between(&text, "](", ")").filter(|link| !link.contains("://")) {
            checked += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                document.clone()
            } else {
                document.parent().expect("a folder").join(path)
            };
            let has_anchor = || {
                let text = fs::read_to_string(&target).unwrap_or_default();
                anchors(&text).iter().any(|heading| heading == anchor)
            };
            if !target.exists() || !anchor.is_empty() && !has_anchor() {
                broken.push(format!("{name}: [{link}]"));
            }
        }
    }
    assert!(checked > 100, "only {checked} paths were found");
    assert!(
        broken.is_empty(),
        "no file has this path:\n{}",
        broken.join("\n")
    );
}

#[test]
fn anchors_are_those_of_the_headings() {
    let text = "# A `b` c\n```\n# no heading\n```\n## What's _new_: 1,000?\n## A b c\n";
    assert_eq!(anchors(text), ["a-b-c", "whats-_new_-1000", "a-b-c-1"]);
}

/// The anchors of the headings of a document, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let mut found = Vec::<String>::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let repeated = (0..).map(|n| {
            if n == 0 {
                anchor.clone()
            } else {
                format!("{anchor}-{n}")
            }
        });
        found.extend(repeated.into_iter().find(|anchor| !found.contains(anchor)));
    }
    found
}

/// The texts of one line between `open` and the next `close`.
fn between<'t>(text: &'t str, open: &'t str, close: &'t str) -> impl Iterator<Item = &'t str> {
    text.lines().flat_map(move |line| {
        let mut rest = line;
        std::iter::from_fn(move || {
            let (_, after) = rest.split_once(open)?;
            let (found, after) = after.split_once(close)?;
            rest = after;
            Some(found)
        })
    })
}

/// `a/{b,c}.rs` names two paths.
fn alternatives(path: &str) -> Vec<String> {
    let parts = path
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (names, after))) => names
            .split(',')
            .map(|name| format!("{before}{name}{after}"))
            .collect(),
        None => vec![path.to_owned()],
    }
}
