//! Compares the behaviours in the sources with those that a macro names: one that it does not name
//! would never run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Panics unless `list`, the source of the macro, names every behaviour below the directory.
#[track_caller]
pub(crate) fn assert_complete(directory: &str, list: &str) {
    let written = written(directory);
    assert!(!written.is_empty(), "no behaviour in {directory}");
    assert_eq!(listed(list), written);
}

/// `module::function` of every behaviour in the sources.
fn written(directory: &str) -> BTreeSet<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let files = fs::read_dir(sources).expect("the suite's sources");
    files.flat_map(|file| behaviours_of(&file.expect("a file").path())).collect()
}

fn behaviours_of(source: &Path) -> Vec<String> {
    let module = source.file_stem().and_then(|stem| stem.to_str()).expect("a module");
    let text = fs::read_to_string(source).expect("a source");
    let starts = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
    starts.filter_map(|start| Some(format!("{module}::{}", start.split_once('(')?.0))).collect()
}

/// The same of those that the macro names.
fn listed(text: &str) -> BTreeSet<String> {
    let (_, list) = text.split_once("$backend;\n").expect("the list");
    let (list, _) = list.split_once("        }\n    };").expect("its end");
    let blocks = list.split('}').filter_map(|block| block.split_once('{'));
    blocks.flat_map(|(module, names)| behaviours(names).map(move |n| name(module, n))).collect()
}

/// Without the marks in brackets.
fn behaviours(names: &str) -> impl Iterator<Item = &str> {
    names.split_whitespace().filter(|word| !word.starts_with('('))
}

fn name(module: &str, behaviour: &str) -> String {
    format!("{}::{behaviour}", module.trim())
}
