//! The implementations that the derive writes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Ident};

use crate::attributes::Attributes;

pub(crate) fn expand(input: &DeriveInput, attributes: &Attributes) -> TokenStream {
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let Attributes {
        gateways,
        unfenced_gateways,
        fenced,
        serial,
        lifecycle,
    } = attributes;
    let fencing = Ident::new(if *fenced { "Fenced" } else { "Unfenced" }, name.span());
    let hooks = (!lifecycle).then(|| {
        quote! {
            #[automatically_derived]
            impl #generics ::lockkeeper_core::endpoint::RpcLifecycle for #name #arguments #bounds {}
        }
    });
    let serves = gateways.iter().chain(unfenced_gateways).map(|gateway| {
        quote! {
            #[automatically_derived]
            impl #generics ::lockkeeper_core::endpoint::Serves<#gateway>
                for #name #arguments #bounds {}
        }
    });
    quote! {
        #[automatically_derived]
        impl #generics ::lockkeeper_core::endpoint::RpcEndpoint for #name #arguments #bounds {
            type Fencing = ::lockkeeper_core::gateway::#fencing;

            const SERIAL: bool = #serial;

            fn gateways() -> ::std::vec::Vec<::lockkeeper_core::endpoint::ServedGateway<Self>> {
                ::std::vec![
                    #(::lockkeeper_core::endpoint::ServedGateway::of::<#gateways>(),)*
                    #(::lockkeeper_core::endpoint::ServedGateway::unfenced::<#unfenced_gateways>(),)*
                ]
            }
        }

        #[automatically_derived]
        impl #generics
            ::lockkeeper_core::__private::actix::Handler<
                ::lockkeeper_core::endpoint::Invocation<Self>
            > for #name #arguments #bounds
        {
            type Result = ();

            fn handle(
                &mut self,
                invocation: ::lockkeeper_core::endpoint::Invocation<Self>,
                context: &mut ::lockkeeper_core::__private::actix::Context<Self>,
            ) {
                invocation.run(self, context);
            }
        }

        #hooks
        #(#serves)*
    }
}
