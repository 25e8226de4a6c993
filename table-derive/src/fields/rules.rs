//! The rules of fields, one function per rule.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Ident;

use super::{Field, FieldRules, Owner, Role, is_option};
use crate::attr::FieldAttrs;
use crate::errors::Errors;

/// An attribute that is present: its name and its tokens.
type Present = (&'static str, TokenStream);

/// The attributes that determine a field's role, the attributes allowed with each, and the reason.
const ROLES: [(&str, &[&str], &str); 13] = [
    (
        "key",
        &["partition_key", "row_key"],
        "a key field is stored in the key, as plain text",
    ),
    ("etag", &[], "the store sets the ETag"),
    ("timestamp", &[], "the store sets the timestamp"),
    ("skip", &["default"], "the field is not stored"),
    (
        "flatten",
        &[],
        "its fields have their own attributes, in the struct with `PropertyGroup`",
    ),
    ("rest", &[], "the properties are kept as they are"),
    (
        "json",
        &["rename", "alias", "default", "encrypt", "split"],
        "the field is stored as JSON",
    ),
    (
        "text",
        &["rename", "alias", "default", "encrypt", "split"],
        "the field is stored as its text",
    ),
    (
        "with",
        &["rename", "alias", "default", "encrypt", "split"],
        "the named codec stores the field",
    ),
    (
        "large",
        &["rename", "default", "encrypt"],
        "its value may be in a blob",
    ),
    (
        "split",
        &["rename", "alias", "default", "encrypt"],
        "its value may be in several properties",
    ),
    ("expires", &["rename"], EXPIRY),
    ("deleted_at", &["rename"], EXPIRY),
];

/// Why a field with a time of expiry or deletion has no other form.
const EXPIRY: &str = "programs that do not have the type read the time in a row by its stored name";

/// Reports attributes of one field that contradict each other or are not allowed in this struct.
pub(crate) fn check_attrs(
    ident: &Ident,
    attrs: &FieldAttrs,
    rules: &FieldRules<'_>,
    errors: &Errors,
) {
    let present = present(attrs);
    check_conflicts(rules.keys.contains(ident), &present, errors);
    check_place(&present, rules.owner, errors);
}

fn present(attrs: &FieldAttrs) -> Vec<Present> {
    fn at<T: ToTokens>(name: &'static str, tokens: Option<T>) -> Option<Present> {
        tokens.map(|t| (name, t.to_token_stream()))
    }
    let present = [
        at("partition_key", attrs.partition_key.as_ref().map(|k| &k.at)),
        at("row_key", attrs.row_key.as_ref().map(|k| &k.at)),
        at("encrypt", attrs.encrypt.as_ref()),
        at("large", attrs.large.as_ref().map(|l| &l.at)),
        at("etag", attrs.etag.as_ref()),
        at("timestamp", attrs.timestamp.as_ref()),
        at("expires", attrs.expires.as_ref()),
        at("deleted_at", attrs.deleted_at.as_ref().map(|d| &d.at)),
        at("rename", attrs.rename.as_ref()),
        at("default", attrs.default.as_ref().map(|d| &d.at)),
        at("skip", attrs.skip.as_ref()),
        at("alias", attrs.aliases.first()),
        at("flatten", attrs.flatten.as_ref().map(|f| &f.at)),
        at("json", attrs.json.as_ref()),
        at("text", attrs.text.as_ref()),
        at("rest", attrs.rest.as_ref()),
        at("split", attrs.split.as_ref()),
        at("with", attrs.with.as_ref()),
    ];
    present.into_iter().flatten().collect()
}

fn check_conflicts(is_key: bool, present: &[Present], errors: &Errors) {
    let has = |role: &str| {
        if role == "key" {
            is_key
        } else {
            present.iter().any(|(name, _)| *name == role)
        }
    };
    // The first role in the order of the table decides, so that a field with three attributes gives one reason for
    // each conflict.
    let Some((role, allowed, why)) = ROLES.iter().find(|(role, ..)| has(role)) else {
        return;
    };
    for (name, at) in present
        .iter()
        .filter(|(name, _)| name != role && !allowed.contains(name))
    {
        let combined_with = if *role == "key" {
            "a key field".to_owned()
        } else {
            format!("`{role}`")
        };
        errors.push(
            at,
            format!("`{name}` cannot be combined with {combined_with}: {why}; remove one of them"),
        );
    }
}

fn check_place(present: &[Present], owner: Owner, errors: &Errors) {
    let (banned, why): (&[&str], _) = match owner {
        Owner::Entity | Owner::Wide => return,
        Owner::Projection => (
            &["flatten", "rest", "skip", "large", "split"],
            "a projection lists the properties that it reads; add a field for each",
        ),
        Owner::Group => (
            &[
                "partition_key",
                "row_key",
                "etag",
                "timestamp",
                "rest",
                "large",
                "split",
            ],
            "it belongs to the entity; put the field there",
        ),
    };
    for (name, at) in present.iter().filter(|(name, _)| banned.contains(name)) {
        errors.push(at, format!("`{name}` is not allowed here: {why}"));
    }
    for (name, at) in present
        .iter()
        .filter(|(name, _)| ["expires", "deleted_at"].contains(name))
    {
        errors.push(
            at,
            format!("`{name}` is not allowed here: it belongs to the entity; put it there"),
        );
    }
}

/// Reports other errors of fields, and conflicts between fields.
pub(crate) fn check_fields(
    built: &[Field],
    sources: &[(&syn::Field, &Ident, FieldAttrs)],
    rules: &FieldRules<'_>,
    errors: &Errors,
) {
    let mut names: Vec<(String, &Ident)> = Vec::new();
    for (field, (_, _, attrs)) in built.iter().zip(sources) {
        match &field.role {
            Role::Key => check_key_type(field, errors),
            Role::ETag => check_system_type(field, "Option<ETag>", errors),
            Role::Timestamp => check_system_type(field, "Option<DateTime<Utc>>", errors),
            Role::Property(property) => {
                let at = attrs
                    .rename
                    .as_ref()
                    .map_or_else(|| field.ident.to_token_stream(), ToTokens::to_token_stream);
                check_name(&at, &property.name, rules, errors);
                if let Some((_, other)) = names.iter().find(|(name, _)| *name == property.name) {
                    let twice = format!(
                        "the property `{}` is already stored by `{other}`; rename one",
                        property.name
                    );
                    errors.push(&at, twice);
                }
                names.push((property.name.clone(), &field.ident));
            }
            Role::Flatten(prefix) if !prefix.is_empty() => {
                let at = attrs
                    .flatten
                    .as_ref()
                    .and_then(|flatten| flatten.prefix.as_ref());
                check_name(&at.to_token_stream(), prefix, rules, errors);
            }
            Role::Flatten(_) | Role::Rest | Role::Skip(_) => {}
        }
    }
    for (field, (_, _, attrs)) in built
        .iter()
        .zip(sources)
        .filter(|(f, _)| f.property().is_some())
    {
        for alias in &attrs.aliases {
            let name = alias.value();
            check_name(&alias.to_token_stream(), &name, rules, errors);
            if let Some((_, other)) = names.iter().find(|(known, _)| *known == name) {
                errors.push(
                    alias,
                    format!("`{other}` uses the name `{name}` already; an alias is a former name"),
                );
            }
            names.push((name, &field.ident));
        }
    }
    check_part_names(built, errors);
    check_single(built, |r| matches!(r, Role::ETag), "etag", errors);
    check_single(built, |r| matches!(r, Role::Timestamp), "timestamp", errors);
    check_single(built, |r| matches!(r, Role::Rest), "rest", errors);
    check_single(
        built,
        |r| matches!(r, Role::Property(p) if p.expires),
        "expires",
        errors,
    );
    check_single(
        built,
        |r| matches!(r, Role::Property(p) if p.deleted_at.is_some()),
        "deleted_at",
        errors,
    );
    for field in built
        .iter()
        .filter(|f| f.property().is_some_and(|p| p.deleted_at.is_some()))
    {
        check_deleted_type(field, errors);
    }
    check_count(built, rules, errors);
}

/// The parts of a split value have longer names than the value, and the service limits them too. The compiler checks that no
/// other property has such a name: see `are_parts_free` of `table_core`.
fn check_part_names(built: &[Field], errors: &Errors) {
    /// The limit of the service without `_Part` and the number of a part, which has at most 3 digits.
    const MAX_CHARS: usize = 255 - 8;
    for (field, property) in built
        .iter()
        .filter_map(|f| Some((f, f.property().filter(|p| p.split)?)))
    {
        let names = std::iter::once(&property.name).chain(&property.aliases);
        for whole in names.filter(|whole| whole.chars().count() > MAX_CHARS) {
            errors.push(
                &field.ident,
                format!("`{whole}` cannot name a split property: at most {MAX_CHARS} characters are allowed"),
            );
        }
    }
}

fn check_key_type(field: &Field, errors: &Errors) {
    if is_option(&field.ty) {
        errors.push(
            &field.ty,
            "a key field cannot be an `Option`: every entity has its whole key; use a plain type",
        );
    }
}

fn check_deleted_type(field: &Field, errors: &Errors) {
    if !is_option(&field.ty) {
        errors.push(
            &field.ty,
            "this must be `Option<DateTime<Utc>>` or `Option<Ticks>`: an entity that is not deleted has none",
        );
    }
}

fn check_system_type(field: &Field, wanted: &str, errors: &Errors) {
    if !is_option(&field.ty) {
        errors.push(
            &field.ty,
            format!("this must be `{wanted}`, because an entity that was not read has none"),
        );
    }
}

fn check_single(built: &[Field], is: impl Fn(&Role) -> bool, name: &str, errors: &Errors) {
    for field in built.iter().filter(|f| is(&f.role)).skip(1) {
        errors.push(
            &field.ident,
            format!("another field is `{name}` already; an entity has one"),
        );
    }
}

/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#property-names>
fn check_name(at: &TokenStream, name: &str, rules: &FieldRules<'_>, errors: &Errors) {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c == '_' || c.is_alphabetic());
    if !starts || !chars.all(|c| c == '_' || c.is_alphanumeric()) {
        let rule = "a letter or `_`, then letters, digits or `_`";
        errors.push(at, format!("`{name}` cannot name a property: use {rule}"));
    } else if name.chars().count() > 255 {
        errors.push(
            at,
            format!("`{name}` cannot name a property: at most 255 characters are allowed"),
        );
    } else if let Some((_, by)) = rules
        .reserved
        .iter()
        .find(|(reserved, _)| *reserved == name)
    {
        errors.push(
            at,
            format!("`{name}` cannot name a property: {by}; write `#[entity(rename = \"…\")]`"),
        );
    }
}

/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#limits>
fn check_count(built: &[Field], rules: &FieldRules<'_>, errors: &Errors) {
    const MAX_PROPERTIES: usize = 252;
    if rules.owner == Owner::Wide {
        return;
    }
    let properties: Vec<_> = built.iter().filter(|f| f.property().is_some()).collect();
    // The first field that does not fit is where the error is shown.
    if let Some(first) = properties.get(MAX_PROPERTIES - rules.type_properties) {
        let count = properties.len() + rules.type_properties;
        let remedy = "store some of them together with `#[entity(json)]`, in another entity, or as a wide entity, \
                      `#[entity(wide)]`";
        errors.push(
            &first.ident,
            format!(
                "an entity has at most {MAX_PROPERTIES} properties, this one {count}: {remedy}"
            ),
        );
    }
}
