use proc_macro2::TokenStream;
use syn::{Generics, Ident, LitStr};

use super::{condition, rules};
use crate::attr::{IndexAttr, PayloadAttr, ScopeAttr, ShapeAttr};
use crate::entity::{Discriminator, SYSTEM, Sources, parsed};
use crate::errors::Errors;
use crate::fields::{Field, Role};
use crate::template::{Part, Template, plain};

/// A declared index.
pub(crate) struct Index {
    pub(crate) name: Ident,
    pub(crate) table: Option<LitStr>,
    /// The template of the PartitionKey; `None` for the entity's own.
    pub(crate) partition: Option<Template>,
    pub(crate) row: Template,
    pub(crate) payload: PayloadAttr,
    pub(crate) shape: ShapeAttr,
    pub(crate) unique: Option<ScopeAttr>,
    /// The filter that entities of the index match.
    pub(crate) condition: Option<LitStr>,
    pub(super) payload_at: TokenStream,
    pub(super) unique_at: TokenStream,
}

/// Where the entries are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    SamePartition,
    OtherPartition,
    OtherTable,
}

/// The entity as the rules see it. Its keys are `None` if they are invalid.
pub(crate) struct Context<'a> {
    pub(crate) sources: &'a Sources<'a>,
    pub(crate) fields: &'a [Field],
    pub(crate) partition: Option<&'a Template>,
    pub(crate) row: Option<&'a Template>,
    pub(crate) discriminator: Option<&'a Discriminator>,
    pub(crate) generics: &'a Generics,
}

/// Determines the meaning of every index and reports invalid ones.
pub(crate) fn build(attrs: &[IndexAttr], cx: &Context<'_>, errors: &Errors) -> Vec<Index> {
    rules::check_names(attrs, errors);
    let built: Vec<Index> = attrs
        .iter()
        .filter_map(|attr| one(attr, cx, errors))
        .collect();
    rules::check_places(&built, errors);
    built
}

/// Determines the meaning of one index; `None` if a template is invalid.
fn one(attr: &IndexAttr, cx: &Context<'_>, errors: &Errors) -> Option<Index> {
    let template = |text: &LitStr| parsed(text, Template::parse(text), cx.sources, errors);
    let partition = attr.partition_key.as_ref().map(template);
    if attr.row_key.is_none() {
        let name = plain(&attr.name);
        errors.push(
            &attr.name,
            format!("the index `{name}` has no key: add `row_key = \"{name}_{{field}}\"`"),
        );
    }
    let row = attr.row_key.as_ref().and_then(template);
    let partition = match partition {
        None => None,
        // Invalid, and reported already.
        Some(template) => Some(template?),
    };
    let (payload_at, payload) = attr
        .payload
        .clone()
        .unwrap_or((TokenStream::new(), PayloadAttr::Reference));
    let (unique_at, unique) = attr
        .unique
        .clone()
        .map_or((TokenStream::new(), None), |(at, scope)| (at, Some(scope)));
    let index = Index {
        name: attr.name.clone(),
        table: attr.table.clone(),
        partition,
        row: row?,
        payload,
        shape: attr.shape.clone().unwrap_or(ShapeAttr::Row),
        unique,
        condition: attr.condition.clone(),
        payload_at,
        unique_at,
    };
    rules::check(&index, cx, errors);
    Some(index)
}

impl Index {
    pub(crate) fn placement(&self) -> Placement {
        match (&self.table, &self.partition) {
            (Some(_), _) => Placement::OtherTable,
            (None, Some(_)) => Placement::OtherPartition,
            (None, None) => Placement::SamePartition,
        }
    }

    /// Returns the index's own templates.
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.partition.iter().chain([&self.row])
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.templates().flat_map(Template::parts)
    }

    /// Returns the properties that the condition reads.
    pub(super) fn condition_names(&self) -> Vec<String> {
        self.condition
            .as_ref()
            .and_then(|filter| condition::names(&filter.value()).ok())
            .unwrap_or_default()
    }

    /// Whether entries depend on a field: the field is in their key, condition, payload or summary. `fields` are all fields of the entity.
    pub(crate) fn depends_on(&self, field: &Field, fields: &[Field]) -> bool {
        let copied = match &self.payload {
            PayloadAttr::Full => true,
            PayloadAttr::Reference => false,
            PayloadAttr::Fields(names) => names.contains(&field.ident),
        };
        let is_summarized = match &self.shape {
            ShapeAttr::Summary(summary) => summary.fields().any(|name| *name == field.ident),
            _ => false,
        };
        let is_own = |name: &str| {
            let mut own = fields.iter().filter_map(Field::property);
            SYSTEM.iter().any(|(system, _)| *system == name)
                || own.any(|property| property.name == name)
        };
        // The derive does not see the properties of a flattened group: every name with the group's prefix that no other field has
        // may be one of them.
        let has = |name: &String| match &field.role {
            Role::Property(property) => property.name == *name,
            Role::Flatten(prefix) => name.starts_with(prefix.as_str()) && !is_own(name),
            _ => false,
        };
        let decides = self.condition_names().iter().any(has);
        copied || is_summarized || decides || self.parts().any(|part| part.field == field.ident)
    }
}
