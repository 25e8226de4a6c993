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
        let (name, text) = (relative(&document), fs::read_to_string(&document).expect("UTF-8"));
        let paths = between(&text, "`", "`").filter(|path| !path.contains(char::is_whitespace));
        for path in paths.flat_map(alternatives) {
            if path.split_once('/').is_some_and(|(first, _)| folders.iter().any(|folder| folder == first)) {
                checked += 1;
                if !root.join(&path).exists() {
                    broken.push(format!("{name}: `{path}`"));
                }
            }
        }
        let links = between(&text, "](", ")").filter(|link| !link.contains("://") && !link.starts_with('#'));
        for link in links {
            checked += 1;
            let path = link.split('#').next().unwrap_or_default();
            if !document.parent().expect("a folder").join(path).exists() {
                broken.push(format!("{name}: [{link}]"));
            }
        }
    }
    assert!(checked > 100, "only {checked} paths were found");
    assert!(broken.is_empty(), "no file has this path:\n{}", broken.join("\n"));
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
    let parts = path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (names, after))) => {
            names.split(',').map(|name| format!("{before}{name}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}
