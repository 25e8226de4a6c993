//! The texts that users see: `messages.txt` lists them, so that a change of a text shows in a review.
//!
//! The list has every string of production code with three words or more: error texts, and the parts that they are made of. Run this
//! test with `UPDATE_MESSAGES=1` to write the list, and read the difference.

use std::fmt::Write as _;
use std::fs;
use std::iter::Peekable;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, token_stream::IntoIter};

use super::{files, relative, root};

/// Strings with fewer words are names and codes.
const WORDS: usize = 3;
/// Macros whose strings are for developers.
const FOR_DEVELOPERS: [&str; 6] = [
    "trace",
    "debug",
    "info",
    "debug_assert",
    "debug_assert_eq",
    "unreachable",
];

#[test]
fn every_text_is_in_the_list() {
    let list = root().join("tests/tests/repository/messages.txt");
    let now = texts_of_the_workspace();
    if std::env::var_os("UPDATE_MESSAGES").is_some() {
        fs::write(&list, &now).expect("the list is written");
    }
    let listed = fs::read_to_string(&list).expect("tests/tests/repository/messages.txt");
    let missing: Vec<_> = now
        .lines()
        .filter(|line| !listed.lines().any(|other| other == *line))
        .collect();
    let gone: Vec<_> = listed
        .lines()
        .filter(|line| !now.lines().any(|other| other == *line))
        .collect();
    assert_eq!(
        (missing.as_slice(), gone.as_slice()),
        (&[] as &[&str], &[] as &[&str]),
        "texts changed (left: new, right: gone). Read them as a user would, then run this test with UPDATE_MESSAGES=1"
    );
    assert_eq!(
        listed, now,
        "the list is in another order: run this test with UPDATE_MESSAGES=1"
    );
}

#[test]
fn texts_are_taken_from_production_code() {
    let code = r##"
        //! A page of documentation.
        #[doc = "not this text either"]
        fn f() { Err(Error::new(format!("the table '{name}' is \
            not there"))); debug!("not for users at all"); let x = "two words"; }
        #[error("the storage is full")]
        struct Full;
        #[cfg(test)]
        mod tests { const X: &str = "a text of tests"; }
        const Y: &str = r#"the last of these texts"#;
    "##;
    let expected = [
        "the table '{name}' is not there",
        "the storage is full",
        "the last of these texts",
    ];
    assert_eq!(texts(code), expected);
}

/// A line for each file, and below it a line for each of its texts.
fn texts_of_the_workspace() -> String {
    let mut list = String::new();
    let mut crates: Vec<_> = fs::read_dir(root())
        .expect("the workspace")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    crates.sort();
    let is_library = |name: &str| name.starts_with("table-");
    for path in crates.iter().filter(|path| {
        path.file_name()
            .is_some_and(|name| is_library(&name.to_string_lossy()))
    }) {
        for file in files(&path.join("src"), "rs") {
            let name = relative(&file);
            let is_test = name
                .split('/')
                .any(|part| ["tests", "tests.rs"].contains(&part));
            let texts = texts(&fs::read_to_string(&file).expect("UTF-8"));
            if is_test || texts.is_empty() {
                continue;
            }
            let _ = writeln!(list, "{name}");
            for text in texts {
                let _ = writeln!(list, "    {}", text.replace('\n', "\\n"));
            }
        }
    }
    list
}

/// The texts of a file, in their order.
fn texts(code: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let tokens: TokenStream = code.parse().expect("Rust");
    collect(tokens.into_iter().peekable(), &mut texts);
    texts
}

fn collect(mut tokens: Peekable<IntoIter>, texts: &mut Vec<String>) {
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => match attribute(&mut tokens) {
                Some(attribute) if is_of_tests(&attribute) => skip_item(&mut tokens),
                // `#[error("…")]` has a text of its type.
                Some(attribute) if attribute.stream().to_string().starts_with("error") => {
                    collect(attribute.stream().into_iter().peekable(), texts);
                }
                _ => {}
            },
            TokenTree::Ident(name) if FOR_DEVELOPERS.contains(&name.to_string().as_str()) => {
                let is_macro =
                    matches!(tokens.peek(), Some(TokenTree::Punct(mark)) if mark.as_char() == '!');
                if is_macro {
                    tokens.by_ref().take(2).for_each(drop);
                }
            }
            TokenTree::Group(group) => collect(group.stream().into_iter().peekable(), texts),
            TokenTree::Literal(literal) => {
                let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) else {
                    continue;
                };
                if text.value().split_whitespace().count() >= WORDS {
                    texts.push(text.value());
                }
            }
            _ => {}
        }
    }
}

/// The brackets of `#[…]` or `#![…]`, after the `#`.
fn attribute(tokens: &mut Peekable<IntoIter>) -> Option<Group> {
    if matches!(tokens.peek(), Some(TokenTree::Punct(mark)) if mark.as_char() == '!') {
        tokens.next();
    }
    match tokens.peek() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            let group = group.clone();
            tokens.next();
            Some(group)
        }
        _ => None,
    }
}

fn is_of_tests(attribute: &Group) -> bool {
    let text = attribute.stream().to_string().replace(' ', "");
    text.starts_with("cfg(test") || text.starts_with("cfg(all(test")
}

/// Skips an item: up to its semicolon or the end of its braces.
fn skip_item(tokens: &mut Peekable<IntoIter>) {
    for token in tokens.by_ref() {
        match token {
            TokenTree::Punct(mark) if [';', ','].contains(&mark.as_char()) => return,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            _ => {}
        }
    }
}
