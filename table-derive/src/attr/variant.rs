use syn::{Attribute, Ident, LitStr};

use super::item::{Item, items, set};
use crate::errors::Errors;

/// The attribute `#[entity(…)]` of a variant, as written.
#[derive(Default)]
pub(crate) struct VariantAttrs {
    pub(crate) rename: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    /// The variant for all values that no other variant has.
    pub(crate) other: Option<Ident>,
}

const KNOWN: &[&str] = &["rename", "alias", "other"];

impl VariantAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &Errors) -> Self {
        let mut out = Self::default();
        for attr in attrs.iter().filter(|a| a.path().is_ident("entity")) {
            items(attr, errors).iter().for_each(|item| out.take(item, errors));
        }
        out
    }

    fn take(&mut self, item: &Item, errors: &Errors) {
        match item.name().as_str() {
            "rename" => set(&mut self.rename, item.string(errors), item, errors),
            "alias" => self.aliases.extend(item.string(errors)),
            "other" => set(&mut self.other, item.flag(errors), item, errors),
            _ => item.unknown(KNOWN, errors),
        }
    }
}
