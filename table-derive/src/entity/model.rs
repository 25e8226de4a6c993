use quote::ToTokens;
use syn::{Data, DeriveInput, Fields, GenericParam, Generics, Ident, LitStr, Path, Type, parse_quote};

use super::spread::{Spread, spread};
use crate::attr::{Container, DiscriminatorAttr, ENTITY, FieldAttrs, IndexAttr, KeyAttr};
use crate::errors::Errors;
use crate::fields::{self, Field, FieldRules, Owner};
use crate::index::{self, Index};
use crate::template::{Segment, Template, plain};

/// Why the discriminator's property is taken.
pub(crate) const DISCRIMINATOR: &str = "it tells this type from others";
/// The properties that the key and the store set, and the one that tells the schema version.
pub(crate) const SYSTEM: [(&str, &str); 4] = [
    ("PartitionKey", "the partition key has that name"),
    ("RowKey", "the row key has that name"),
    ("Timestamp", "the store sets it"),
    ("EntityVersion", "it tells the schema version"),
];

/// What the derive was put on.
pub(crate) enum Input<'a> {
    Entity(Box<Entity<'a>>),
    Projection(Box<Projection<'a>>),
}

/// A validated entity.
pub(crate) struct Entity<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) krate: Path,
    /// The generics, with what an entity requires of its parameters.
    pub(crate) generics: Generics,
    pub(crate) type_name: String,
    pub(crate) discriminator: Discriminator,
    pub(crate) version: u32,
    pub(crate) previous: Option<Type>,
    /// The buckets that partitions are spread over.
    pub(crate) spread: Option<Spread>,
    pub(crate) partition: Template,
    pub(crate) row: Template,
    pub(crate) fields: Vec<Field>,
    pub(crate) indexes: Vec<Index>,
    /// Whether it may have more properties than an entity, in several rows.
    pub(crate) wide: bool,
}

/// A validated projection.
pub(crate) struct Projection<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) krate: Path,
    pub(crate) generics: Generics,
    pub(crate) of: Type,
    pub(crate) fields: Vec<Field>,
}

pub(crate) enum Discriminator {
    None,
    Property(String),
    RowPrefix(String),
    PartitionPrefix(String),
}

pub(crate) type Sources<'a> = Vec<(&'a syn::Field, &'a Ident, FieldAttrs)>;

impl<'a> Input<'a> {
    /// Validates; what is wrong is in `errors`.
    pub(crate) fn build(input: &'a DeriveInput, errors: &Errors) -> Option<Self> {
        let container = Container::parse(&input.attrs, ENTITY, errors);
        check_lifetimes(&input.generics, errors);
        let sources = sources(input, "TableEntity", errors)?;
        match &container.projection_of {
            Some(of) => Some(Self::Projection(Box::new(projection(input, &container, of, &sources, errors)))),
            None => entity(input, &container, &sources, errors).map(Box::new).map(Self::Entity),
        }
    }
}

/// The named fields of a struct, with their attributes.
pub(crate) fn sources<'a>(input: &'a DeriveInput, derive: &str, errors: &Errors) -> Option<Sources<'a>> {
    let Data::Struct(data) = &input.data else {
        errors.push(
            &input.ident,
            format!("`{derive}` is for structs; for an enum of entities derive `EntityResolver`"),
        );
        return None;
    };
    let Fields::Named(named) = &data.fields else {
        errors.push(
            &input.ident,
            format!("`{derive}` needs a struct with named fields, which name its properties"),
        );
        return None;
    };
    let with_attrs = named.named.iter().filter_map(|field| {
        let ident = field.ident.as_ref()?;
        Some((field, ident, FieldAttrs::parse(&field.attrs, errors)))
    });
    Some(with_attrs.collect())
}

/// The generics with what every entity requires.
pub(crate) fn generics(input: &DeriveInput) -> Generics {
    let mut generics = input.generics.clone();
    let params: Vec<_> = generics.type_params().map(|p| p.ident.clone()).collect();
    let bounds = &mut generics.make_where_clause().predicates;
    bounds.extend(params.iter().map(|p| -> syn::WherePredicate {
        parse_quote!(#p: ::core::marker::Send + ::core::marker::Sync + 'static)
    }));
    generics
}

fn entity<'a>(
    input: &'a DeriveInput,
    container: &Container,
    sources: &Sources<'a>,
    errors: &Errors,
) -> Option<Entity<'a>> {
    let krate = container.krate();
    let partition = template("partition_key", container.partition_key.as_ref(), input, sources, errors);
    let row = template("row_key", container.row_key.as_ref(), input, sources, errors);
    let version = version(container, errors);
    let keys: Vec<Ident> = key_fields([&partition, &row]);
    let discriminator = discriminator(container, [&partition, &row], errors);
    let mut reserved = SYSTEM.to_vec();
    if let Some(Discriminator::Property(name)) = &discriminator {
        reserved.push((name, DISCRIMINATOR));
    }
    let rename_all = container.rename_all.as_ref().map(|(_, case)| *case);
    let owner = if container.wide.is_some() { Owner::Wide } else { Owner::Entity };
    let rules = FieldRules { krate: &krate, rename_all, keys: &keys, reserved: &reserved, owner };
    let fields = fields::build(sources, &rules, errors);
    check_key_generics(input, &fields, errors);
    let known = index::Context {
        sources,
        fields: &fields,
        partition: partition.as_ref(),
        row: row.as_ref(),
        discriminator: discriminator.as_ref(),
        generics: &input.generics,
    };
    let indexes = index::build(&IndexAttr::parse_all(&input.attrs, errors), &known, errors);
    let (partition, row, discriminator) = (partition?, row?, discriminator?);
    Some(Entity {
        input,
        krate,
        generics: generics(input),
        type_name: container.type_name.as_ref().map_or_else(|| plain(&input.ident), LitStr::value),
        discriminator,
        version,
        previous: container.previous.clone(),
        spread: spread(container, sources, errors),
        partition,
        row,
        fields,
        indexes,
        wide: container.wide.is_some(),
    })
}

fn projection<'a>(
    input: &'a DeriveInput,
    container: &Container,
    of: &Type,
    sources: &Sources<'a>,
    errors: &Errors,
) -> Projection<'a> {
    let krate = container.krate();
    for index in IndexAttr::parse_all(&input.attrs, errors) {
        errors.push(&index.name, "an index is the entity's: declare it there, and read a projection by it");
    }
    for (name, at) in [
        ("type", container.type_name.to_token_stream()),
        ("version", container.version.to_token_stream()),
        ("previous", container.previous.to_token_stream()),
        ("spread", container.spread.to_token_stream()),
        ("salt", container.salt.to_token_stream()),
        ("partition_key", container.partition_key.to_token_stream()),
        ("row_key", container.row_key.to_token_stream()),
        ("wide", container.wide.to_token_stream()),
    ] {
        if !at.is_empty() {
            errors.push(at, format!("`{name}` is the entity's; a projection has it from `projection_of`"));
        }
    }
    let keys: Vec<Ident> = sources
        .iter()
        .filter(|(_, _, attrs)| attrs.partition_key.is_some() || attrs.row_key.is_some())
        .map(|(_, ident, _)| (*ident).clone())
        .collect();
    let rename_all = container.rename_all.as_ref().map(|(_, case)| *case);
    let rules =
        FieldRules { krate: &krate, rename_all, keys: &keys, reserved: &SYSTEM, owner: Owner::Projection };
    let fields = fields::build(sources, &rules, errors);
    Projection { input, krate, generics: generics(input), of: of.clone(), fields }
}

/// The template of a key: from the struct's attribute or from the marked field.
fn template(
    name: &str,
    whole: Option<&LitStr>,
    input: &DeriveInput,
    sources: &Sources<'_>,
    errors: &Errors,
) -> Option<Template> {
    let marks: Vec<(&Ident, &KeyAttr)> = sources
        .iter()
        .filter_map(|(_, ident, attrs)| {
            let mark = if name == "row_key" { &attrs.row_key } else { &attrs.partition_key };
            mark.as_ref().map(|mark| (*ident, mark))
        })
        .collect();
    match (whole, marks.as_slice()) {
        (Some(text), []) => parsed(text, Template::parse(text), sources, errors),
        (None, [(field, KeyAttr { format: Some(text), .. })]) => {
            parsed(text, Template::parse_format(text, field), sources, errors)
        }
        (None, [(field, _)]) => Some(Template::of_field(field)),
        (Some(_), marks) => {
            let both = format!("`{name}` is a template on the struct already; remove this attribute");
            marks.iter().for_each(|(_, mark)| errors.push(&mark.at, &both));
            None
        }
        (None, []) => {
            let remedy = format!(
                "mark a field with `#[{name}]`, or write `#[entity({name} = \"{{field}}_{{other}}\")]`"
            );
            errors.push(&input.ident, format!("`{}` has no `{name}`: {remedy}", input.ident));
            None
        }
        (None, [_, more @ ..]) => {
            let all: Vec<_> = marks.iter().map(|(ident, _)| format!("{{{}}}", plain(ident))).collect();
            let remedy = format!(
                "for a key of several write `#[entity({name} = \"{}\")]` on the struct",
                all.join("_")
            );
            let twice = format!("another field is the `{name}` already; {remedy}");
            more.iter().for_each(|(_, mark)| errors.push(&mark.at, &twice));
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
    let template = template.map_err(|message| errors.push(text, message)).ok()?;
    let mut known = true;
    for part in template.parts() {
        if !sources.iter().any(|(_, ident, _)| **ident == part.field) {
            let fields: Vec<_> = sources.iter().map(|(_, ident, _)| format!("`{}`", plain(ident))).collect();
            let message = format!("there is no field `{}`; the fields are {}", part.field, fields.join(", "));
            errors.push(text, message);
            known = false;
        }
    }
    known.then_some(template)
}

/// The fields of both keys, each once, in the order of the templates.
fn key_fields(templates: [&Option<Template>; 2]) -> Vec<Ident> {
    let mut keys: Vec<Ident> = Vec::new();
    for part in templates.into_iter().flatten().flat_map(Template::parts) {
        if !keys.contains(&part.field) {
            keys.push(part.field.clone());
        }
    }
    keys
}

fn version(container: &Container, errors: &Errors) -> u32 {
    let Some(literal) = &container.version else {
        if let Some(previous) = &container.previous {
            errors.push(
                previous,
                "an entity with a previous version has a version of its own: add `version = 2`",
            );
        }
        return 1;
    };
    match literal.base10_parse() {
        Ok(version @ 1..=0x7FFF_FFFF) => version,
        _ => {
            errors.push(literal, "versions count from 1, to at most 2147483647");
            1
        }
    }
}

fn discriminator(
    container: &Container,
    [partition, row]: [&Option<Template>; 2],
    errors: &Errors,
) -> Option<Discriminator> {
    if let Some(name) = container.type_name.as_ref().filter(|n| n.value().is_empty()) {
        errors.push(name, "the type name is what tells rows apart; it cannot be empty");
    }
    let prefix = |template: &Option<Template>, which: &str| {
        let template = template.as_ref()?;
        let prefix = template.prefix().map(str::to_owned);
        if prefix.is_none() {
            let remedy = "start it with text, as in `\"empid_{id:06}\"`";
            errors.push(
                &template.text,
                format!("the {which} starts with a field, so its start tells no type: {remedy}"),
            );
        }
        prefix
    };
    Some(match &container.discriminator {
        None if container.type_name.is_none() => Discriminator::None,
        None => Discriminator::Property("EntityType".to_owned()),
        Some(DiscriminatorAttr::None) => Discriminator::None,
        Some(DiscriminatorAttr::Property(name)) => Discriminator::Property(checked_name(name, errors)),
        Some(DiscriminatorAttr::RowPrefix) => Discriminator::RowPrefix(prefix(row, "row key")?),
        Some(DiscriminatorAttr::PartitionPrefix) => {
            Discriminator::PartitionPrefix(prefix(partition, "partition key")?)
        }
    })
}

fn checked_name(name: &LitStr, errors: &Errors) -> String {
    let text = name.value();
    let valid = syn::parse_str::<Ident>(&text).is_ok() || text.starts_with('_');
    if !valid || SYSTEM.iter().any(|(system, _)| *system == text) {
        errors.push(
            name,
            format!("`{text}` cannot name the discriminator's property; use a name such as `Kind`"),
        );
    }
    text
}

fn check_lifetimes(generics: &Generics, errors: &Errors) {
    for param in &generics.params {
        if let GenericParam::Lifetime(lifetime) = param {
            errors.push(lifetime, "an entity owns its data: use `String` for `&str`, and no lifetimes");
        }
    }
}

/// Keys are checked where the struct is declared, so their types must be known there.
fn check_key_generics(input: &DeriveInput, fields: &[Field], errors: &Errors) {
    for field in fields.iter().filter(|f| f.is_key()) {
        if mentions(&field.ty, &input.generics) {
            errors.push(
                &field.ty,
                "a key field cannot have a generic type: the key's template is checked here",
            );
        }
    }
}

/// Whether a type is written with one of the type parameters.
pub(crate) fn mentions(ty: &Type, generics: &Generics) -> bool {
    fn any(tokens: proc_macro2::TokenStream, names: &[String]) -> bool {
        tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(ident) => names.contains(&ident.to_string()),
            proc_macro2::TokenTree::Group(group) => any(group.stream(), names),
            _ => false,
        })
    }
    let names: Vec<String> = generics.type_params().map(|p| p.ident.to_string()).collect();
    any(ty.to_token_stream(), &names)
}

impl Entity<'_> {
    pub(crate) fn rust_name(&self) -> String {
        plain(&self.input.ident)
    }

    /// The fields of one key, each once, in the order of its template.
    pub(crate) fn key_fields_of<'s>(&'s self, template: &'s Template) -> Vec<&'s Field> {
        let keys = key_fields([&Some(template.clone()), &None]);
        keys.iter().filter_map(|key| self.fields.iter().find(|f| f.ident == *key)).collect()
    }

    /// The fields of both keys, each once, partition first.
    pub(crate) fn key_fields(&self) -> Vec<&Field> {
        let keys = key_fields([&Some(self.partition.clone()), &Some(self.row.clone())]);
        keys.iter().filter_map(|key| self.fields.iter().find(|f| f.ident == *key)).collect()
    }
}

/// The first character after a part, if literal text follows it.
pub(crate) fn stop(template: &Template, index: usize) -> Option<char> {
    match template.segments.get(index + 1) {
        Some(Segment::Literal(text)) => text.chars().next(),
        _ => None,
    }
}
