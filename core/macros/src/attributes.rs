//! What `#[rpc(..)]` says.

use syn::{DeriveInput, Path, Token, parenthesized, punctuated::Punctuated, spanned::Spanned};

#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) gateways: Vec<Path>,
    pub(crate) unfenced_gateways: Vec<Path>,
    pub(crate) fenced: bool,
    pub(crate) serial: bool,
    pub(crate) lifecycle: bool,
}

impl Attributes {
    pub(crate) fn parse(input: &DeriveInput) -> syn::Result<Self> {
        let mut attributes = Self::default();
        for attribute in input
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("rpc"))
        {
            attribute.parse_nested_meta(|meta| {
                let list = |into: &mut Vec<Path>| {
                    let content;
                    parenthesized!(content in meta.input);
                    into.extend(Punctuated::<Path, Token![,]>::parse_terminated(&content)?);
                    Ok(())
                };
                if meta.path.is_ident("gateways") {
                    list(&mut attributes.gateways)
                } else if meta.path.is_ident("unfenced_gateways") {
                    list(&mut attributes.unfenced_gateways)
                } else if meta.path.is_ident("fenced") {
                    attributes.fenced = true;
                    Ok(())
                } else if meta.path.is_ident("serial") {
                    attributes.serial = true;
                    Ok(())
                } else if meta.path.is_ident("lifecycle") {
                    attributes.lifecycle = true;
                    Ok(())
                } else {
                    Err(meta.error(
                        "unknown; write gateways(..), fenced, unfenced_gateways(..), serial or \
                         lifecycle",
                    ))
                }
            })?;
        }
        attributes.check(input)?;
        Ok(attributes)
    }

    fn check(&self, input: &DeriveInput) -> syn::Result<()> {
        if self.gateways.is_empty() && self.unfenced_gateways.is_empty() {
            return Err(syn::Error::new(
                input.ident.span(),
                "an endpoint serves at least one gateway: add #[rpc(gateways(..))]",
            ));
        }
        match self.unfenced_gateways.first() {
            Some(first) if !self.fenced => Err(syn::Error::new(
                first.span(),
                "unfenced_gateways(..) is for fenced endpoints; write gateways(..)",
            )),
            _ => Ok(()),
        }
    }
}
