//! Checks the layers that ARCHITECTURE.md draws against the code: a module uses only modules of lower layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The first words of a layer drawing in ARCHITECTURE.md: a line `layers of CRATE, from the bottom:`, then one
/// line for each layer with its modules.
const START: &str = "layers of ";

#[test]
fn modules_use_only_lower_layers() {
    let root = super::root();
    let drawn = layers(&fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md"));
    assert!(
        drawn.contains_key("table-core"),
        "no layers are drawn: {drawn:?}"
    );
    let mut found = Vec::new();
    for (name, layers) in drawn {
        let used = uses(&root.join(&name).join("src"));
        let modules: BTreeSet<_> = used.keys().cloned().collect();
        let listed: BTreeSet<_> = layers.keys().cloned().collect();
        assert_eq!(
            listed, modules,
            "ARCHITECTURE.md lists the modules of {name}"
        );
        for (module, others) in used {
            let upward = others
                .into_iter()
                .filter(|other| layers[other] >= layers[&module]);
            found.extend(upward.map(|other| format!("{name}: `{module}` uses `{other}`")));
        }
    }
    assert!(
        found.is_empty(),
        "these modules are not in a lower layer:\n{}",
        found.join("\n")
    );
}

/// The checker finds every way to name a module of the crate.
#[test]
fn every_form_of_a_path_is_found() {
    let modules = ["model", "query", "store", "typed"]
        .map(str::to_owned)
        .into_iter()
        .collect();
    let names = names("pub use typed::{Field, field};", &modules);
    let of = |text: &str, depth| {
        named(text, depth, &names)
            .into_iter()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of("use crate::model::Key;", 1), "model");
    assert_eq!(
        of("use crate::field::X;", 1),
        "typed",
        "a name that the root shows from inside a module"
    );
    assert_eq!(
        of("use crate::{model::{Key, query}, store};", 1),
        "model store"
    );
    assert_eq!(of("fn f() -> crate::typed::Field {}", 2), "typed");
    assert_eq!(of("// crate::typed\nuse super::query::Filter;", 1), "query");
    assert_eq!(
        of("use super::query::Filter;", 2),
        "",
        "a module of the same name within the folder"
    );
    assert_eq!(of("use super::super::query::Filter;", 2), "query");
    assert_eq!(of("use super::{query, store::Error};", 1), "query store");
    assert_eq!(of("use other_crate::store;", 1), "");
}

/// Returns the layer of each module, by crate.
fn layers(document: &str) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut crates = BTreeMap::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let Some(rest) = line.strip_prefix(START) else {
            continue;
        };
        let (name, _) = rest
            .split_once(',')
            .expect("`layers of CRATE, from the bottom:`");
        let mut layers = BTreeMap::new();
        for (number, line) in lines
            .by_ref()
            .take_while(|line| !line.is_empty() && *line != "```")
            .enumerate()
        {
            layers.extend(
                line.split_whitespace()
                    .map(|module| (module.to_owned(), number)),
            );
        }
        crates.insert(name.to_owned(), layers);
    }
    crates
}

/// Returns the other modules that each module of a crate uses, without tests.
fn uses(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut files = Vec::new();
    collect(src, &mut files);
    let relative = |file: &PathBuf| -> Vec<String> {
        let path = file
            .strip_prefix(src)
            .expect("a file of the crate")
            .with_extension("");
        path.iter()
            .map(|part| part.to_str().expect("UTF-8").to_owned())
            .collect()
    };
    let root = fs::read_to_string(src.join("lib.rs")).expect("lib.rs");
    let is_test = |module: &str| root.contains(&format!("#[cfg(test)]\nmod {module};"));
    let is_outside = |module: &str| ["lib", "main", "prelude"].contains(&module) || is_test(module);
    let module = |file: &PathBuf| relative(file).swap_remove(0);
    let modules: BTreeSet<_> = files
        .iter()
        .map(module)
        .filter(|module| !is_outside(module))
        .collect();
    let names = names(&root, &modules);
    let mut uses: BTreeMap<_, BTreeSet<_>> = modules
        .iter()
        .map(|m| (m.clone(), BTreeSet::new()))
        .collect();
    for file in &files {
        let (path, module) = (relative(file), module(file));
        let Some(used) = uses.get_mut(&module) else {
            continue;
        };
        let text = fs::read_to_string(file).expect("a source file");
        let code = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        // The number of `super` steps from this file to the root of the crate.
        let depth = path.len() - usize::from(path.last().is_some_and(|name| name == "mod"));
        used.extend(named(code, depth, &names));
        used.remove(&module);
    }
    uses
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir() && name != "tests" {
            collect(&path, files);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
}

/// The modules in the root of a crate, and the names that the root re-exports from a module
/// (`pub use folder::{this, that}`), with their modules.
fn names(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut names: BTreeMap<_, _> = modules
        .iter()
        .map(|module| (module.clone(), module.clone()))
        .collect();
    for (at, _) in root.match_indices("use ") {
        let path = &root[at + "use ".len()..];
        let Some((module, rest)) = path.split_once("::") else {
            continue;
        };
        if modules.contains(module) {
            names.extend(
                heads(rest)
                    .into_iter()
                    .map(|name| (name.to_owned(), module.to_owned())),
            );
        }
    }
    names
}

/// The modules of the crate that code names by `crate::` or by as many `super::` as lead to the root.
fn named(code: &str, depth: usize, names: &BTreeMap<String, String>) -> BTreeSet<String> {
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let up = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for root in ["crate::", up.as_str()] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                found.extend(
                    heads(&code[at + root.len()..])
                        .into_iter()
                        .filter_map(|name| names.get(name).cloned()),
                );
            }
        }
    }
    found
}

/// Returns the first names of the paths that start here: one name, or the names of a group in braces.
fn heads(code: &str) -> Vec<&str> {
    let name = |text: &'_ str| {
        text.find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len())
    };
    let Some(group) = code.strip_prefix('{') else {
        return vec![&code[..name(code)]];
    };
    let (mut depth, mut start, mut heads) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                let part = group[start..at].trim_start();
                heads.push(&part[..name(part)]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    heads
}
