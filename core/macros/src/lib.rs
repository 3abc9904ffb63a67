//! The derive macro of lockkeeper-core.

mod attributes;
mod endpoint;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes an actix actor an endpoint that can be called through gateways.
///
/// | attribute | says |
/// |---|---|
/// | `#[rpc(gateways(G, ..))]` | the gateways that it serves |
/// | `#[rpc(fenced)]` | it has a token; all of `gateways(..)` must be `fenced` |
/// | `#[rpc(unfenced_gateways(G, ..))]` | what a fenced endpoint also answers without a token |
/// | `#[rpc(serial)]` | it takes the next call only after the one before has resolved |
/// | `#[rpc(lifecycle)]` | you write `impl RpcLifecycle` yourself |
///
/// The actor keeps its `Actor` and `Handler` implementations; its context must be
/// `actix::Context<Self>`.
#[proc_macro_derive(RpcEndpoint, attributes(rpc))]
pub fn derive_rpc_endpoint(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    attributes::Attributes::parse(&input)
        .map(|attributes| endpoint::expand(&input, &attributes))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
