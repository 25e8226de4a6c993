//! The language of documents and comments: few words that a reader has to guess the meaning of.
//!
//! `plain-words.txt` lists phrases and their replacements. A phrase may be right in a sentence; in numbers it makes text hard to read. So
//! each part of the repository may have one of them per 1,000 words.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use super::{files, relative, root};

/// Listed phrases per 1,000 words that a part of the repository may have.
const ALLOWED: f64 = 1.0;
/// Below this number of words one phrase alone would exceed the rate.
const SMALL: usize = 2_000;
/// Documents, Rust, Python, JavaScript, and shell scripts, which have no extension.
const EXTENSIONS: [&str; 8] = ["md", "rs", "py", "js", "mjs", "cjs", "sh", ""];
/// The most phrases that a failure shows.
const SHOWN: usize = 30;

#[derive(Default)]
struct Part {
    words: usize,
    found: Vec<String>,
}

#[test]
fn documents_and_comments_use_plain_words() {
    let phrases = phrases(include_str!("plain-words.txt"));
    let mut parts = BTreeMap::<String, Part>::new();
    for extension in EXTENSIONS {
        for path in files(&root(), extension) {
            let name = relative(&path);
            // Fixtures whose lines other files refer to.
            if name.contains("/ui/") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("UTF-8");
            let part = parts
                .entry(name.split('/').next().unwrap_or_default().to_owned())
                .or_default();
            for (number, line) in prose(&text, extension) {
                let words = words(&line);
                part.words += words.len();
                for phrase in &phrases {
                    let places = words
                        .windows(phrase.len())
                        .filter(|window| window == phrase)
                        .count();
                    let place = format!(
                        "{name}:{number}: \"{}\" in: {}",
                        phrase.join(" "),
                        line.trim()
                    );
                    part.found.extend(std::iter::repeat_n(place, places));
                }
            }
        }
    }
    assert!(
        parts.contains_key("table-core"),
        "the repository has table-core"
    );
    let mut failures = String::new();
    for (name, part) in parts {
        #[expect(clippy::cast_precision_loss, reason = "counts of words are small")]
        let rate = 1000.0 * part.found.len() as f64 / part.words.max(SMALL) as f64;
        if rate > ALLOWED {
            let shown = part
                .found
                .iter()
                .take(SHOWN)
                .cloned()
                .collect::<Vec<_>>()
                .join("\n");
            let _ = writeln!(
                failures,
                "{name}: {rate:.1} listed phrases per 1,000 words:\n{shown}"
            );
        }
    }
    assert!(
        failures.is_empty(),
        "{ALLOWED} listed phrases per 1,000 words are allowed\n{failures}"
    );
}

#[test]
fn phrases_are_found_in_prose_alone() {
    let of = |text: &str, extension| {
        prose(text, extension)
            .map(|(_, line)| words(&line).join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("Who `is` there?\n```\nwho\n```\n", "md"), ["who there"]);
    assert_eq!(
        of("let who = 1; // no\n/// Who it is.\n//! A [`Who`].\n", "rs"),
        ["who it is", "a"]
    );
    assert_eq!(of("// Who\nlet who; // no\n", "mjs"), ["who"]);
    assert_eq!(of("# Who\nwho = 1  # no\n", ""), ["who"]);
    assert_eq!(
        of(
            "\"\"\"Who\n\nit is.\n\"\"\"\nwho = 1\n\"\"\"Here.\"\"\"\n  # There\n",
            "py"
        ),
        ["who", "it is", "here", "there"]
    );
    assert_eq!(
        phrases("what is\tthe noun\n# a remark\n\nwho\tthe noun\n"),
        [vec!["what", "is"], vec!["who"]]
    );
}

/// The phrases of the list: a phrase, a tab and what to write instead.
fn phrases(list: &str) -> Vec<Vec<String>> {
    let lines = list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            words(
                line.split_once('\t')
                    .expect("a phrase, a tab, a replacement")
                    .0,
            )
        })
        .collect()
}

/// The numbered lines of prose: text outside of code blocks, docstrings, or whole-line comments.
fn prose<'t>(text: &'t str, extension: &'t str) -> impl Iterator<Item = (usize, String)> + 't {
    let mut in_code = false;
    let mut in_docstring = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = match extension {
            "md" => line,
            "rs" | "js" | "mjs" | "cjs" => line
                .trim_start()
                .strip_prefix("//")?
                .trim_start_matches(['/', '!']),
            "py" => python_prose(line, &mut in_docstring)?,
            _ => line.trim_start().strip_prefix('#')?,
        };
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code && !words(line).is_empty()).then(|| (number + 1, without_code(line)))
    })
}

/// The text of a comment or of a line of a docstring.
fn python_prose<'l>(line: &'l str, in_docstring: &mut bool) -> Option<&'l str> {
    let line = line.trim_start();
    let was_in_docstring = *in_docstring;
    *in_docstring ^= line.matches("\"\"\"").count() % 2 == 1;
    if was_in_docstring || line.starts_with("\"\"\"") {
        Some(line.trim_matches('"'))
    } else {
        line.strip_prefix('#')
    }
}

/// A line without its `code`.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn words(line: &str) -> Vec<String> {
    let words = line
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}
