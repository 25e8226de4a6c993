use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, ExprPath, Ident, Lit, LitInt, LitStr, Meta, Path, Token, Type, parenthesized,
};

use crate::errors::Errors;

/// One entry of an attribute: `key`, `key = value`, `key = entry(entries)` or `key(entries)`.
pub(crate) struct Item {
    pub(crate) key: Ident,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    None,
    Lit(Lit),
    /// A word or a path: syn parses `full` as a type.
    Type(Box<Type>),
    List(Vec<Item>),
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = Ident::parse_any(input)?;
        if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            let value = if input.peek(Lit) {
                Value::Lit(input.parse()?)
            } else if input.peek(Ident) && input.peek2(syn::token::Paren) {
                Value::List(vec![input.parse()?])
            } else {
                Value::Type(input.parse()?)
            };
            return Ok(Self { key, value });
        }
        if !input.peek(syn::token::Paren) {
            return Ok(Self {
                key,
                value: Value::None,
            });
        }
        let content;
        parenthesized!(content in input);
        let items = Punctuated::<Self, Token![,]>::parse_terminated(&content)?;
        Ok(Self {
            key,
            value: Value::List(items.into_iter().collect()),
        })
    }
}

/// Only for the spans of errors.
impl ToTokens for Item {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.key.to_tokens(tokens);
        match &self.value {
            Value::None => {}
            Value::Lit(lit) => lit.to_tokens(tokens),
            Value::Type(ty) => ty.to_tokens(tokens),
            Value::List(items) => items.iter().for_each(|i| i.to_tokens(tokens)),
        }
    }
}

/// Returns the entries of `#[name(…)]`; none for `#[name]`.
pub(crate) fn items(attr: &Attribute, errors: &Errors) -> Vec<Item> {
    if matches!(attr.meta, Meta::Path(_)) {
        return Vec::new();
    }
    match attr.parse_args_with(Punctuated::<Item, Token![,]>::parse_terminated) {
        Ok(items) => items.into_iter().collect(),
        Err(error) => {
            errors.add(error);
            Vec::new()
        }
    }
}

impl Item {
    pub(crate) fn name(&self) -> String {
        self.key.unraw().to_string()
    }

    /// Returns the word, if the entry is a single word.
    pub(crate) fn word(&self) -> Option<Ident> {
        matches!(self.value, Value::None).then(|| self.key.clone())
    }

    /// Returns the word, if the entry is a single word; reports an error otherwise.
    pub(crate) fn flag(&self, errors: &Errors) -> Option<Ident> {
        if matches!(self.value, Value::None) {
            return Some(self.key.clone());
        }
        errors.push(self, format!("`{}` takes no value", self.name()));
        None
    }

    pub(crate) fn string(&self, errors: &Errors) -> Option<LitStr> {
        if let Value::Lit(Lit::Str(text)) = &self.value {
            return Some(text.clone());
        }
        errors.push(self, format!("expected text: `{} = \"…\"`", self.name()));
        None
    }

    pub(crate) fn integer(&self, errors: &Errors) -> Option<LitInt> {
        if let Value::Lit(Lit::Int(number)) = &self.value {
            return Some(number.clone());
        }
        errors.push(self, format!("expected a number: `{} = 2`", self.name()));
        None
    }

    pub(crate) fn ty(&self, errors: &Errors) -> Option<Type> {
        if let Value::Type(ty) = &self.value {
            return Some((**ty).clone());
        }
        errors.push(
            self,
            format!("expected a type, without quotes: `{} = Name`", self.name()),
        );
        None
    }

    pub(crate) fn path(&self, errors: &Errors) -> Option<Path> {
        let path = match &self.value {
            Value::Type(ty) => syn::parse2::<Expr>(ty.to_token_stream()).ok(),
            _ => None,
        };
        if let Some(Expr::Path(ExprPath {
            qself: None, path, ..
        })) = path
        {
            return Some(path);
        }
        errors.push(
            self,
            format!(
                "expected a path, without quotes: `{} = some::path`",
                self.name()
            ),
        );
        None
    }

    /// Reports an unknown entry.
    pub(crate) fn unknown(&self, known: &[&str], errors: &Errors) {
        let known = known
            .iter()
            .map(|k| format!("`{k}`"))
            .collect::<Vec<_>>()
            .join(", ");
        errors.push(
            &self.key,
            format!("unknown attribute `{}`; known here: {known}", self.name()),
        );
    }
}

/// Sets a value; reports an error if there is one already.
pub(super) fn set_setting<T>(slot: &mut Option<T>, value: Option<T>, item: &Item, errors: &Errors) {
    if slot.is_some() && value.is_some() {
        errors.push(item, format!("`{}` is given twice; keep one", item.name()));
    } else if value.is_some() {
        *slot = value;
    }
}
