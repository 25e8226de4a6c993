use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Member, Type};

use super::{Shape, Value, ValueDerive, Variant, derived, numbers, text_arms};

pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    derived(input, ValueDerive::Property, expand)
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
    quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #impl_generics #krate::typed::Property for #name #ty_generics #where_clause {
            #items
        }
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
        const TYPE: #krate::model::EdmType = #krate::model::EdmType::String;
        const KEY_TYPE: #krate::model::KeyPartType = #krate::model::KeyPartType::Text;

        fn write(
            &self,
            __sink: #krate::typed::PropertySink<'_>,
        ) -> ::core::result::Result<(), #krate::model::ValueError> {
            __sink.put(#krate::model::ValueRef::String(match self { #written }));
            ::core::result::Result::Ok(())
        }

        fn read(
            __value: #krate::model::ValueRef<'_>,
        ) -> ::core::result::Result<Self, #krate::model::ValueError> {
            match #krate::__private::text_of(__value)? { #read }
        }
    }
}

fn integer(value: &Value<'_>, variants: &[Variant<'_>]) -> TokenStream {
    let krate = &value.krate;
    let (write, read) = numbers(value, variants);
    quote! {
        const TYPE: #krate::model::EdmType = #krate::model::EdmType::Int32;
        const KEY_TYPE: #krate::model::KeyPartType = #krate::model::KeyPartType::I32;

        fn write(
            &self,
            __sink: #krate::typed::PropertySink<'_>,
        ) -> ::core::result::Result<(), #krate::model::ValueError> {
            let __number: i32 = #write;
            __sink.put(#krate::model::ValueRef::Int32(__number));
            ::core::result::Result::Ok(())
        }

        fn read(
            __value: #krate::model::ValueRef<'_>,
        ) -> ::core::result::Result<Self, #krate::model::ValueError> {
            let __number = #krate::__private::number_of(__value)?;
            #read
        }
    }
}

fn newtype(value: &Value<'_>, member: &Member, ty: &Type) -> TokenStream {
    let krate = &value.krate;
    let property = quote_spanned!(ty.span()=> <#ty as #krate::typed::Property>);
    let problem = format!(
        "{}: a newtype over an `Option` cannot be absent; put the `Option` around it",
        value.input.ident
    );
    quote! {
        const TYPE: #krate::model::EdmType = {
            // In a constant that every use of the type reads. The macro cannot see an `Option` behind an alias; the
            // compiler can.
            ::core::assert!(!#property::OPTIONAL, "{}", #problem);
            #property::TYPE
        };
        const KEY_TYPE: #krate::model::KeyPartType = #property::KEY_TYPE;

        fn write(
            &self,
            __sink: #krate::typed::PropertySink<'_>,
        ) -> ::core::result::Result<(), #krate::model::ValueError> {
            #property::write(&self.#member, __sink)
        }

        fn read(
            __value: #krate::model::ValueRef<'_>,
        ) -> ::core::result::Result<Self, #krate::model::ValueError> {
            ::core::result::Result::Ok(Self { #member: #property::read(__value)? })
        }
    }
}
