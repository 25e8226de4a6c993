//! Copies the source of table-patterns and applies `mutations.txt` to the copy.
//!
//! The suite needs what is private to table-patterns, and the code without one of its rules. A copy gives both, and the code in production
//! has neither a hidden module nor a switch. In the copy,
//!
//! - `crate::` is `crate::patterns::`, where the suite includes the copy;
//! - modules and items that are visible in their parent are visible in the crate;
//! - unit tests are left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{env, fs};

const SOURCE: &str = "../../table-patterns/src";
const MUTATIONS: &str = "mutations.txt";

/// A rule of the protocols.
struct Rule {
    name: String,
    sentence: String,
    line: usize,
}

/// A change of one file.
struct Change {
    file: String,
    written: String,
    instead: String,
    line: usize,
}

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed={MUTATIONS}");
    let text = fs::read_to_string(MUTATIONS).expect("the list of mutations");
    let copied = parse(&text).and_then(|(rules, changes)| {
        check_rules(&rules, &changes)?;
        copy(&rules, changes)
    });
    for error in copied.err().into_iter().flatten() {
        println!("cargo::error={error}");
    }
}

/// Errors, one a line.
type Errors = Vec<String>;

fn error(line: usize, text: &str) -> String {
    format!("tests/proof/{MUTATIONS}, line {line}: {text}")
}

fn parse(text: &str) -> Result<(Vec<Rule>, Vec<Change>), Errors> {
    let (mut rules, mut changes) = (Vec::new(), Vec::<Change>::new());
    for (line, text) in (1..).zip(text.lines()) {
        let add = |changes: &mut Vec<Change>, text: &str, to: fn(&mut Change) -> &mut String| {
            let change = changes
                .last_mut()
                .ok_or_else(|| vec![error(line, "code before the first `change`")])?;
            let code = to(change);
            code.push_str(text);
            code.push('\n');
            Ok::<_, Errors>(())
        };
        if let Some(rule) = text.strip_prefix("rule ") {
            let (name, sentence) = rule
                .split_once(": ")
                .ok_or_else(|| vec![error(line, "expected `rule NAME: SENTENCE`")])?;
            rules.push(Rule {
                name: name.to_owned(),
                sentence: sentence.to_owned(),
                line,
            });
        } else if let Some(file) = text.strip_prefix("change ") {
            let (written, instead) = (String::new(), String::new());
            changes.push(Change {
                file: file.to_owned(),
                written,
                instead,
                line,
            });
        } else if let Some(code) = text.strip_prefix('-') {
            add(&mut changes, code, |change| &mut change.written)?;
        } else if let Some(code) = text.strip_prefix('+') {
            add(&mut changes, code, |change| &mut change.instead)?;
        } else if !text.is_empty() && !text.starts_with('#') && text != "schedule" {
            return Err(vec![error(
                line,
                "expected `rule`, `change`, `schedule`, `-`, `+` or `#`",
            )]);
        }
    }
    Ok((rules, changes))
}

/// Checks that every rule is left out somewhere, and that every change leaves out known rules.
fn check_rules(rules: &[Rule], changes: &[Change]) -> Result<(), Errors> {
    let mut errors = Vec::new();
    for Rule { name, line, .. } in rules {
        let omits = format!("omits({name})");
        if !changes.iter().any(|change| change.instead.contains(&omits)) {
            errors.push(error(*line, &format!("no change has `{omits}`")));
        }
    }
    for change in changes {
        for (at, _) in change.instead.match_indices("omits(") {
            let name = change.instead[at + "omits(".len()..]
                .split(')')
                .next()
                .unwrap_or_default();
            if !rules.iter().any(|rule| rule.name == name) {
                errors.push(error(change.line, &format!("there is no rule `{name}`")));
            }
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Writes the copy, and the files that include it, below `OUT_DIR`.
fn copy(rules: &[Rule], changes: Vec<Change>) -> Result<(), Errors> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR"));
    let (source, copy) = (Path::new(SOURCE), out.join("patterns"));
    let mut by_file = BTreeMap::<_, Vec<Change>>::new();
    for change in changes {
        by_file.entry(change.file.clone()).or_default().push(change);
    }
    let mut files = Vec::new();
    collect(source, &mut files);
    let mut errors = Vec::new();
    for file in &files {
        let relative = file.strip_prefix(source).expect("a file of the source");
        let text = fs::read_to_string(file).expect("a source file");
        let changes = by_file
            .remove(&relative.to_string_lossy().replace('\\', "/"))
            .unwrap_or_default();
        match mutated(&text, &changes) {
            Ok(text) => write(&copy.join(relative), &moved(&text)),
            Err(found) => errors.extend(found),
        }
    }
    for change in by_file.into_values().flatten() {
        errors.push(error(
            change.line,
            &format!("table-patterns/src has no file '{}'", change.file),
        ));
    }
    let root = copy.join("lib.rs");
    let root = root.to_string_lossy();
    write(
        &out.join("patterns.rs"),
        &format!(
            "#[path = {root:?}]\n#[allow(warnings, missing_docs)]\npub(crate) mod patterns;\n"
        ),
    );
    write(&out.join("invariants.rs"), &invariants(rules));
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// Collects the source files without those of unit tests.
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

/// Writes a file if its content is new, so that nothing is compiled again without need.
fn write(file: &Path, text: &str) {
    if fs::read_to_string(file).is_ok_and(|before| before == text) {
        return;
    }
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder below OUT_DIR");
    fs::write(file, text).expect("a file below OUT_DIR");
}

/// The text of a file with its changes.
fn mutated(text: &str, changes: &[Change]) -> Result<String, Errors> {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for change in changes {
        match places(text, &change.written).as_slice() {
            [place] => found.push((place.clone(), change)),
            places => errors.push(error(
                change.line,
                &format!(
                    "table-patterns/src/{} has the code {} times, expected once: change the mutation as the code was changed",
                    change.file,
                    places.len()
                ),
            )),
        }
    }
    found.sort_by_key(|(place, _)| place.start);
    for pair in found.windows(2) {
        if pair[0].0.end > pair[1].0.start {
            errors.push(error(
                pair[1].1.line,
                &format!("the change overlaps the change of line {}", pair[0].1.line),
            ));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut text = text.to_owned();
    for (place, change) in found.into_iter().rev() {
        text.replace_range(place, change.instead.trim());
    }
    Ok(text)
}

/// The places of code in a text. White space is not compared.
fn places(text: &str, code: &str) -> Vec<Range<usize>> {
    let dense = |text: &str| -> (Vec<char>, Vec<usize>) {
        text.char_indices()
            .filter(|(_, c)| !c.is_whitespace())
            .map(|(at, c)| (c, at))
            .unzip()
    };
    let ((text, at), (code, _)) = (dense(text), dense(code));
    if code.is_empty() {
        return Vec::new();
    }
    let windows = text
        .windows(code.len())
        .enumerate()
        .filter(|(_, window)| *window == code);
    windows
        .map(|(n, _)| {
            let last = n + code.len() - 1;
            at[n]..at[last] + text[last].len_utf8()
        })
        .collect()
}

/// The text as a part of the module `patterns` of the suite.
fn moved(text: &str) -> String {
    let mut moved = String::with_capacity(text.len() * 11 / 10);
    for line in text.lines() {
        let code = line.trim_start();
        if code.starts_with("mod ") && code.ends_with(';') {
            moved.push_str("pub(crate) ");
        }
        moved.push_str(line);
        moved.push('\n');
    }
    let moved = moved
        .replace("#[cfg(test)]", "#[cfg(any())]")
        .replace("pub(super)", "pub(crate)")
        .replace("crate::", "crate::patterns::")
        .replace("suite::", "crate::");
    with_rules(&moved)
}

/// Replaces `omits(NAME)` by the call of the suite's function.
fn with_rules(text: &str) -> String {
    text.replace("omits(", "crate::omission::omits(crate::invariants::rule::")
}

/// The source of the enumeration of the rules.
fn invariants(rules: &[Rule]) -> String {
    let (mut variants, mut numbers, mut names) = (String::new(), String::new(), String::new());
    for (number, Rule { name, sentence, .. }) in rules.iter().enumerate() {
        let _ = writeln!(variants, "    /// {sentence}\n    {name} = {number},");
        let _ = writeln!(numbers, "    pub(crate) const {name}: u8 = {number};");
        let _ = write!(names, "{name:?}, ");
    }
    format!(
        "/// A rule of the protocols that the suite can leave out.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq)]\n\
         #[repr(u8)]\n\
         pub(crate) enum Invariant {{\n{variants}}}\n\n\
         /// The numbers of the rules, for the changed code: a rule that no scene leaves out is a variant that is never constructed.\n\
         #[allow(non_upper_case_globals, reason = \"the names of the variants\")]\n\
         pub(crate) mod rule {{\n{numbers}}}\n\n\
         /// The names of the rules.\n\
         pub(crate) const NAMES: [&str; {}] = [{names}];\n",
        rules.len()
    )
}
