use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Member, Type};

use super::{Shape, Value, ValueDerive, Variant, derived, numbers, text_arms};
use crate::fields::is_text;

pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    derived(input, ValueDerive::KeyPart, expand)
}

fn expand(value: &Value<'_>) -> TokenStream {
    let krate = &value.krate;
    let name = &value.input.ident;
    let (impl_generics, ty_generics, where_clause) = value.input.generics.split_for_impl();
    let items = match &value.shape {
        Shape::Text(variants) => text(value, variants),
        Shape::Integer(variants) => integer(value, variants),
        Shape::Newtype(member, ty) => newtype(value, member, ty),
    };
    // The macro recognizes text by its usual type names only. Other types have no prefixes, which are
    // optional.
    let text = matches!(&value.shape, Shape::Newtype(_, ty) if is_text(ty)).then(|| {
        quote! {
            #[automatically_derived]
            impl #impl_generics #krate::model::TextKeyPart for #name #ty_generics #where_clause {}
        }
    });
    quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #impl_generics #krate::model::KeyPart for #name #ty_generics #where_clause {
            #items
        }
        #text
    }
}

fn text(value: &Value<'_>, variants: &[Variant<'_>]) -> TokenStream {
    let krate = &value.krate;
    let texts = variants
        .iter()
        .filter(|v| v.other.is_none())
        .map(|v| &v.text);
    let refused = quote!(#krate::__private::no_text(&[#(#texts),*], #krate::model::ValueRef::String(__other)));
    let (written, read) = text_arms(value, variants, &refused);
    quote! {
        const WIDTH: ::core::option::Option<usize> = ::core::option::Option::None;
        const PART_TYPE: #krate::model::KeyPartType = #krate::model::KeyPartType::Text;

        fn encode(
            &self,
            __out: &mut #krate::model::KeyWriter,
        ) -> ::core::result::Result<(), #krate::model::ValueError> {
            __out.text(match self { #written });
            ::core::result::Result::Ok(())
        }

        fn decode(
            __text: &#krate::model::KeyText<'_>,
        ) -> ::core::result::Result<Self, #krate::model::ValueError> {
            let __text = __text.text()?;
            match ::core::convert::AsRef::<str>::as_ref(&__text) { #read }
        }
    }
}

fn integer(value: &Value<'_>, variants: &[Variant<'_>]) -> TokenStream {
    let krate = &value.krate;
    let (write, read) = numbers(value, variants);
    let part = quote!(<i32 as #krate::model::KeyPart>);
    quote! {
        const WIDTH: ::core::option::Option<usize> = #part::WIDTH;
        const PART_TYPE: #krate::model::KeyPartType = #part::PART_TYPE;

        fn encode(
            &self,
            __out: &mut #krate::model::KeyWriter,
        ) -> ::core::result::Result<(), #krate::model::ValueError> {
            let __number: i32 = #write;
            #part::encode(&__number, __out)
        }

        fn decode(
            __text: &#krate::model::KeyText<'_>,
        ) -> ::core::result::Result<Self, #krate::model::ValueError> {
            let __number = #part::decode(__text)?;
            #read
        }
    }
}

fn newtype(value: &Value<'_>, member: &Member, ty: &Type) -> TokenStream {
    let krate = &value.krate;
    let part = quote_spanned!(ty.span()=> <#ty as #krate::model::KeyPart>);
    quote! {
        const WIDTH: ::core::option::Option<usize> = #part::WIDTH;
        const PADS: bool = #part::PADS;
        const PART_TYPE: #krate::model::KeyPartType = #part::PART_TYPE;
        const REVERSED: bool = #part::REVERSED;
        const ENCODING: &'static str = #part::ENCODING;

        fn encode(
            &self,
            __out: &mut #krate::model::KeyWriter,
        ) -> ::core::result::Result<(), #krate::model::ValueError> {
            #part::encode(&self.#member, __out)
        }

        fn decode(
            __text: &#krate::model::KeyText<'_>,
        ) -> ::core::result::Result<Self, #krate::model::ValueError> {
            ::core::result::Result::Ok(Self { #member: #part::decode(__text)? })
        }
    }
}
