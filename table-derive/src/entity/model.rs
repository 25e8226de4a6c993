use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Data, DeriveInput, Fields, Generics, Ident, LitStr, Path, Type};

use super::discriminator::{Discriminator, discriminator, min_reader, type_properties, version};
use super::generics::{check_key_generics, check_lifetimes, generics};
use super::index::{self, Index};
use super::layout;
use super::layout::{Spread, spread};
use super::templates::{key_fields, template};
use crate::attr::{Container, ENTITY, FieldAttrs, IndexAttr};
use crate::errors::Errors;
use crate::fields::{self, DISCRIMINATOR, Field, FieldRules, Owner};
use crate::template::{Template, plain};

/// The properties that the key and the store set, and the properties of the schema version.
pub(crate) const SYSTEM: [(&str, &str); 5] = [
    ("PartitionKey", "the partition key has that name"),
    ("RowKey", "the row key has that name"),
    ("Timestamp", "the store sets it"),
    ("EntityVersion", "it stores the schema version"),
    (
        "EntityReader",
        "it stores the earliest schema version that reads the row",
    ),
];

/// The reserved properties of index entries. An entity with such a property would be mistaken for an entry.
pub(crate) const ENTRIES: [(&str, &str); 5] = [
    ("IndexName", ENTRY),
    ("OwnerPartition", ENTRY),
    ("OwnerRow", ENTRY),
    ("OwnerWrite", ENTRY),
    ("OwnerPending", ENTRY),
];
const ENTRY: &str = "index entries reserve it";

/// The input of the derive.
pub(crate) enum Input<'a> {
    Entity(Box<Entity<'a>>),
    Projection(Box<Projection<'a>>),
}

/// A validated entity.
pub(crate) struct Entity<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) krate: Path,
    /// The generics, with the bounds that an entity requires of its parameters.
    pub(crate) generics: Generics,
    pub(crate) type_name: String,
    pub(crate) discriminator: Discriminator,
    pub(crate) version: u32,
    /// The earliest version whose programs may read its rows.
    pub(crate) min_reader: u32,
    pub(crate) previous: Option<Type>,
    /// Whether the type declares versions.
    pub(crate) has_versions: bool,
    /// The buckets that partitions are spread over.
    pub(crate) spread: Option<Spread>,
    pub(crate) partition: Template,
    pub(crate) row: Template,
    pub(crate) fields: Vec<Field>,
    pub(crate) indexes: Vec<Index>,
    /// Whether the entity may have more properties than one row can hold.
    pub(crate) wide: bool,
    /// Whether a feed records the changes of the entities.
    pub(crate) feed: bool,
}

/// A validated projection.
pub(crate) struct Projection<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) krate: Path,
    pub(crate) generics: Generics,
    pub(crate) of: Type,
    pub(crate) fields: Vec<Field>,
}

pub(crate) type Sources<'a> = Vec<(&'a syn::Field, &'a Ident, FieldAttrs)>;

impl<'a> Input<'a> {
    /// Validates the input; problems are added to `errors`.
    pub(crate) fn build(input: &'a DeriveInput, errors: &Errors) -> Option<Self> {
        let container = Container::parse(&input.attrs, ENTITY, errors);
        check_lifetimes(&input.generics, errors);
        let sources = sources(input, "TableEntity", errors)?;
        match &container.projection_of {
            Some(of) => Some(Self::Projection(Box::new(projection(
                input, &container, of, &sources, errors,
            )))),
            None => entity(input, &container, &sources, errors)
                .map(Box::new)
                .map(Self::Entity),
        }
    }
}

/// Returns the named fields of a struct with their attributes.
pub(crate) fn sources<'a>(
    input: &'a DeriveInput,
    derive: &str,
    errors: &Errors,
) -> Option<Sources<'a>> {
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

fn entity<'a>(
    input: &'a DeriveInput,
    container: &Container,
    sources: &Sources<'a>,
    errors: &Errors,
) -> Option<Entity<'a>> {
    let krate = container.krate();
    let key = |name, whole: &Option<LitStr>| template(name, whole.as_ref(), input, sources, errors);
    let has_key = container.partition_key.is_some()
        || container.row_key.is_some()
        || sources
            .iter()
            .any(|(_, _, attrs)| attrs.partition_key.is_some() || attrs.row_key.is_some());
    let (partition, row) = if has_key {
        (
            key("partition_key", &container.partition_key),
            key("row_key", &container.row_key),
        )
    } else {
        let name = &input.ident;
        let problem = format!(
            "`{name}` has no key: mark fields with `#[partition_key]` and `#[row_key]`, or write `#[entity(partition_key = \"{{field}}\", row_key = \"{{other}}\")]`"
        );
        errors.push(name, problem);
        (None, None)
    };
    let version = version(container, errors);
    let min_reader = min_reader(container, version, errors);
    let keys: Vec<Ident> = key_fields(partition.iter().chain(&row));
    let discriminator = discriminator(container, [&partition, &row], errors);
    let mut reserved = SYSTEM.to_vec();
    if let Some(Discriminator::Property(name)) = &discriminator {
        reserved.push((name, DISCRIMINATOR));
    }
    let has_index = input.attrs.iter().any(|attr| attr.path().is_ident("index"));
    if has_index || container.feed.is_some() {
        reserved.extend(ENTRIES);
    }
    let rename_all = container.rename_all.as_ref().map(|(_, case)| *case);
    let owner = if container.wide.is_some() {
        Owner::Wide
    } else {
        Owner::Entity
    };
    let type_properties = discriminator.as_ref().map_or(0, |discriminator| {
        type_properties(discriminator, version, min_reader)
    });
    let rules = FieldRules {
        krate: &krate,
        rename_all,
        keys: &keys,
        reserved: &reserved,
        type_properties,
        owner,
    };
    let fields = fields::build(sources, &rules, errors);
    check_key_generics(input, &fields, errors);
    let context = index::Context {
        sources,
        fields: &fields,
        partition: partition.as_ref(),
        row: row.as_ref(),
        discriminator: discriminator.as_ref(),
        generics: &input.generics,
    };
    let declared = IndexAttr::parse_all(&input.attrs, errors);
    layout::check(container, sources, &declared, errors);
    let indexes = index::build(&declared, &context, errors);
    let (partition, row, discriminator) = (partition?, row?, discriminator?);
    Some(Entity {
        input,
        krate,
        generics: generics(input),
        type_name: container
            .type_name
            .as_ref()
            .map_or_else(|| plain(&input.ident), LitStr::value),
        discriminator,
        version,
        min_reader,
        previous: container.previous.clone(),
        has_versions: container.version.is_some(),
        spread: spread(container, sources, errors),
        partition,
        row,
        fields,
        indexes,
        wide: container.wide.is_some(),
        feed: container.feed.is_some(),
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
        errors.push(
            &index.name,
            "a projection cannot declare an index; declare the index on the entity",
        );
    }
    for (name, at) in [
        ("type", container.type_name.to_token_stream()),
        ("version", container.version.to_token_stream()),
        ("min_reader", container.min_reader.to_token_stream()),
        ("previous", container.previous.to_token_stream()),
        ("spread", container.spread.to_token_stream()),
        ("salt", container.salt.to_token_stream()),
        ("partition_key", container.partition_key.to_token_stream()),
        ("row_key", container.row_key.to_token_stream()),
        ("wide", container.wide.to_token_stream()),
        (
            "discriminator",
            container
                .discriminator
                .as_ref()
                .map(|(at, _)| at)
                .to_token_stream(),
        ),
    ] {
        check_not_repeated(name, at, errors);
    }
    for (_, _, attrs) in sources {
        for key in attrs.partition_key.iter().chain(&attrs.row_key) {
            check_not_repeated("format", key.format.to_token_stream(), errors);
            check_not_repeated("spread", key.spread.to_token_stream(), errors);
            check_not_repeated("salt", key.salt.to_token_stream(), errors);
        }
    }
    let keys: Vec<Ident> = sources
        .iter()
        .filter(|(_, _, attrs)| attrs.partition_key.is_some() || attrs.row_key.is_some())
        .map(|(_, ident, _)| (*ident).clone())
        .collect();
    let rename_all = container.rename_all.as_ref().map(|(_, case)| *case);
    let rules = FieldRules {
        krate: &krate,
        rename_all,
        keys: &keys,
        reserved: &SYSTEM,
        type_properties: 0,
        owner: Owner::Projection,
    };
    let fields = fields::build(sources, &rules, errors);
    Projection {
        input,
        krate,
        generics: generics(input),
        of: of.clone(),
        fields,
    }
}

/// Refuses a setting of a projection that only its entity can have.
fn check_not_repeated(name: &str, at: TokenStream, errors: &Errors) {
    if !at.is_empty() {
        errors.push(
            at,
            format!("`{name}` is set by the entity; a projection takes it from `projection_of`"),
        );
    }
}

impl Entity<'_> {
    /// Whether the manifest gets definitions of the type: of its indexes, or of its feed.
    pub(crate) const fn has_definitions(&self) -> bool {
        self.feed || !self.indexes.is_empty()
    }

    pub(crate) fn rust_name(&self) -> String {
        plain(&self.input.ident)
    }

    /// Returns the field with this name; `None` if a template names a field that the struct does not have.
    pub(crate) fn field(&self, name: &Ident) -> Option<&Field> {
        self.fields.iter().find(|field| field.ident == *name)
    }

    /// Returns the fields of one key, each once, in the order of its template.
    pub(crate) fn key_fields_of(&self, template: &Template) -> Vec<&Field> {
        key_fields([template])
            .iter()
            .filter_map(|key| self.field(key))
            .collect()
    }

    /// Returns the fields of both keys, each once, PartitionKey first.
    pub(crate) fn key_fields(&self) -> Vec<&Field> {
        key_fields([&self.partition, &self.row])
            .iter()
            .filter_map(|key| self.field(key))
            .collect()
    }
}
