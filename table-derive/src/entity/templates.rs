//! Parses key templates from attributes of the struct or of a field.

use syn::{DeriveInput, Ident, LitStr};

use super::model::Sources;
use crate::attr::KeyAttr;
use crate::errors::Errors;
use crate::template::{Template, plain};

/// Returns the template of a key: from the struct's attribute or from the marked field.
pub(super) fn template(
    name: &str,
    whole: Option<&LitStr>,
    input: &DeriveInput,
    sources: &Sources<'_>,
    errors: &Errors,
) -> Option<Template> {
    let marks: Vec<(&Ident, &KeyAttr)> = sources
        .iter()
        .filter_map(|(_, ident, attrs)| {
            let mark = if name == "row_key" {
                &attrs.row_key
            } else {
                &attrs.partition_key
            };
            mark.as_ref().map(|mark| (*ident, mark))
        })
        .collect();
    let template = given(name, whole, &marks, input, sources, errors)?;
    // Transforms lose information, and a list has several values: the field could not be read back from the key.
    if template
        .parts()
        .any(|part| part.each || !part.transforms.is_empty())
    {
        let problem = "the fields of an entity are parsed from its key, so the key cannot have transforms or lists, which are for the keys of an index; for a descending key use `Reverse`";
        errors.push(&template.text, problem);
    }
    if template.shard().is_some() {
        let problem = "an entity's key cannot have a shard, because the value cannot be parsed from it; a shard is for the `partition_key` of an index";
        errors.push(&template.text, problem);
    }
    Some(template)
}

/// Returns the template as written.
fn given(
    name: &str,
    whole: Option<&LitStr>,
    marks: &[(&Ident, &KeyAttr)],
    input: &DeriveInput,
    sources: &Sources<'_>,
    errors: &Errors,
) -> Option<Template> {
    match (whole, marks) {
        (Some(text), []) => parsed(text, Template::parse(text), sources, errors),
        (
            None,
            [
                (
                    field,
                    KeyAttr {
                        format: Some(text), ..
                    },
                ),
            ],
        ) => parsed(text, Template::parse_format(text, field), sources, errors),
        (None, [(field, _)]) => Some(Template::of_field(field)),
        (Some(_), marks) => {
            let both =
                format!("`{name}` is a template on the struct already; remove this attribute");
            marks
                .iter()
                .for_each(|(_, mark)| errors.push(&mark.at, &both));
            None
        }
        (None, []) => {
            let remedy = format!(
                "mark a field with `#[{name}]`, or write `#[entity({name} = \"{{field}}_{{other}}\")]`"
            );
            errors.push(
                &input.ident,
                format!("`{}` has no `{name}`: {remedy}", input.ident),
            );
            None
        }
        (None, [_, more @ ..]) => {
            let all: Vec<_> = marks
                .iter()
                .map(|(ident, _)| format!("{{{}}}", plain(ident)))
                .collect();
            let remedy = format!(
                "for a key of several fields write `#[entity({name} = \"{}\")]` on the struct",
                all.join("_")
            );
            let twice = format!("another field is the `{name}` already; {remedy}");
            more.iter()
                .for_each(|(_, mark)| errors.push(&mark.at, &twice));
            None
        }
    }
}

pub(crate) fn parsed(
    text: &LitStr,
    template: Result<Template, String>,
    sources: &Sources<'_>,
    errors: &Errors,
) -> Option<Template> {
    let template = template
        .map_err(|message| errors.push(text, message))
        .ok()?;
    let mut known = true;
    for part in template.parts() {
        if !sources.iter().any(|(_, ident, _)| **ident == part.field) {
            let fields: Vec<_> = sources
                .iter()
                .map(|(_, ident, _)| format!("`{}`", plain(ident)))
                .collect();
            let message = format!(
                "there is no field `{}`; the fields are {}",
                part.field,
                fields.join(", ")
            );
            errors.push(text, message);
            known = false;
        }
    }
    known.then_some(template)
}

/// Returns the names of the fields in templates of keys, each once, in the order of the templates.
pub(super) fn key_fields<'t>(templates: impl IntoIterator<Item = &'t Template>) -> Vec<Ident> {
    let mut keys: Vec<Ident> = Vec::new();
    for part in templates.into_iter().flat_map(Template::parts) {
        if !keys.contains(&part.field) {
            keys.push(part.field.clone());
        }
    }
    keys
}

/// Returns the first character after a part, if literal text follows it.
pub(crate) fn separator(template: &Template, index: usize) -> Option<char> {
    template.text_after(index)?.chars().next()
}
