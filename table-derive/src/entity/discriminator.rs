//! Parses how rows of a type, and of its versions, are distinguished from others.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Ident, LitStr, Path};

use super::model::{ENTRIES, SYSTEM};
use crate::attr::{Container, DiscriminatorAttr};
use crate::errors::Errors;
use crate::template::Template;

pub(crate) enum Discriminator {
    None,
    Property(String),
    RowPrefix(String),
    PartitionPrefix(String),
}

impl Discriminator {
    /// Returns the expression of the discriminator.
    pub(crate) fn expand(&self, krate: &Path) -> TokenStream {
        let text = quote!(#krate::__private::text);
        let variant = match self {
            Self::None => quote!(None),
            Self::Property(name) => quote!(Property(#text(#name))),
            Self::RowPrefix(prefix) => quote!(RowPrefix(#text(#prefix))),
            Self::PartitionPrefix(prefix) => quote!(PartitionPrefix(#text(#prefix))),
        };
        quote!(#krate::typed::Discriminator::#variant)
    }
}

/// Returns the number of properties that rows have besides the fields: of the type and of its schema version.
pub(super) fn type_properties(
    discriminator: &Discriminator,
    version: u32,
    min_reader: u32,
) -> usize {
    // The first schema version is not stored, nor an earliest reader that is the version itself.
    let stored = [
        matches!(discriminator, Discriminator::Property(_)),
        version > 1,
        min_reader != version,
    ];
    stored.into_iter().filter(|stored| *stored).count()
}

/// Returns the type's discriminator.
pub(super) fn discriminator(
    container: &Container,
    [partition, row]: [&Option<Template>; 2],
    errors: &Errors,
) -> Option<Discriminator> {
    if let Some(name) = container
        .type_name
        .as_ref()
        .filter(|n| n.value().is_empty())
    {
        errors.push(name, "the type name identifies rows; it cannot be empty");
    }
    let prefix = |template: &Option<Template>, which: &str| {
        let template = template.as_ref()?;
        match template.prefix() {
            None => {
                let remedy = "start it with text, as in `\"empid_{id:06}\"`";
                errors.push(
                    &template.text,
                    format!("the {which} starts with a field, so its start cannot identify the type: {remedy}"),
                );
            }
            Some(text) if !ends_itself(text) => errors.push(
                &template.text,
                format!(
                    "the start `{text}` of the {which} cannot identify the type, because it can be the start of another type's keys: write letters \
                     and digits and then one other character, as in `empid_`, or give the type a `type`"
                ),
            ),
            Some(_) => {}
        }
        template.prefix().map(str::to_owned)
    };
    Some(
        match container.discriminator.as_ref().map(|(_, attr)| attr) {
            None if container.type_name.is_none() => Discriminator::None,
            None => Discriminator::Property("EntityType".to_owned()),
            Some(DiscriminatorAttr::None) => Discriminator::None,
            Some(DiscriminatorAttr::Property(name)) => {
                Discriminator::Property(checked_name(name, errors))
            }
            Some(DiscriminatorAttr::RowPrefix) => Discriminator::RowPrefix(prefix(row, "row key")?),
            Some(DiscriminatorAttr::PartitionPrefix) => {
                Discriminator::PartitionPrefix(prefix(partition, "partition key")?)
            }
        },
    )
}

/// Whether a text has letters and digits and then one other character, at its end. No such text is the start of another one: that one
/// would have the other character within. So rows of two types with such starts can be told apart, whatever follows the start.
fn ends_itself(text: &str) -> bool {
    let mut chars = text.chars().rev();
    chars.next().is_some_and(|last| !last.is_alphanumeric()) && chars.all(char::is_alphanumeric)
}

/// Returns the name of the property that stores the type, and reports a name that it cannot have.
fn checked_name(name: &LitStr, errors: &Errors) -> String {
    let text = name.value();
    let valid = syn::parse_str::<Ident>(&text).is_ok() || text.starts_with('_');
    if !valid
        || SYSTEM
            .iter()
            .chain(&ENTRIES)
            .any(|(reserved, _)| *reserved == text)
    {
        errors.push(
            name,
            format!("`{text}` cannot name the discriminator's property; use a name such as `Kind`"),
        );
    }
    text
}

/// Returns the earliest version whose programs may read the rows of this one; the version itself unless declared.
pub(super) fn min_reader(container: &Container, version: u32, errors: &Errors) -> u32 {
    let Some(literal) = &container.min_reader else {
        return version;
    };
    if container.version.is_none() {
        errors.push(
            literal,
            "`min_reader` says which versions read the rows of this one: add `version = 2, previous = …`",
        );
        return version;
    }
    match literal.base10_parse() {
        Ok(reader) if (1..=version).contains(&reader) => reader,
        _ => {
            errors.push(
                literal,
                format!("expected a schema version from 1 to the version of the entity, {version}"),
            );
            version
        }
    }
}

/// Returns the schema version.
pub(super) fn version(container: &Container, errors: &Errors) -> u32 {
    let Some(literal) = &container.version else {
        if let Some(previous) = &container.previous {
            errors.push(
                previous,
                "an entity with a previous version needs its own version: add `version = 2`",
            );
        }
        return 1;
    };
    match literal.base10_parse() {
        Ok(version @ 2..=0x7FFF_FFFF) if container.previous.is_none() => {
            errors.push(
                literal,
                format!("rows of the versions before {version} must be readable: add `previous = EmployeeV{}`, which reads them", version - 1),
            );
            version
        }
        Ok(version @ 1..=0x7FFF_FFFF) => version,
        _ => {
            errors.push(literal, "expected a schema version from 1 to 2147483647");
            1
        }
    }
}
