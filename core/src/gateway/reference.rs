//! A gateway as plain data, to be sent inside a message.

use std::{fmt, marker::PhantomData};

use serde::{Deserialize, Serialize};

use super::{Gateway, RpcGateway, TokenSource, handle::Link};
use crate::{address::RpcAddress, token::FencingToken};

/// Where a gateway leads and with which token: what a reply-to field holds. Whoever receives it
/// connects with [`RpcService::connect_ref`](crate::RpcService::connect_ref).
///
/// The address of a service without transport is of use in its own process only.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct GatewayRef<G: RpcGateway> {
    address: RpcAddress,
    token: Option<FencingToken>,
    #[serde(skip)]
    gateway: PhantomData<fn() -> G>,
}

impl<G: RpcGateway> GatewayRef<G> {
    /// The endpoint's address.
    #[must_use]
    pub fn address(&self) -> &RpcAddress {
        &self.address
    }

    /// The token that calls will carry.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.token
    }
}

impl<G: RpcGateway> Gateway<G> {
    /// This gateway as plain data. A self gateway gives the token of now.
    #[must_use]
    pub fn to_ref(&self) -> GatewayRef<G> {
        let token = match (&self.inner.token, &self.inner.link) {
            (TokenSource::Fixed(token), _) => Some(**token),
            (TokenSource::Present, Link::Local { endpoint, .. }) => endpoint.token(),
            (TokenSource::Present, Link::Remote(_)) | (TokenSource::None, _) => None,
        };
        GatewayRef {
            address: self.inner.address.clone(),
            token,
            gateway: PhantomData,
        }
    }
}

impl<G: RpcGateway> Clone for GatewayRef<G> {
    fn clone(&self) -> Self {
        Self {
            address: self.address.clone(),
            token: self.token,
            gateway: PhantomData,
        }
    }
}

impl<G: RpcGateway> fmt::Debug for GatewayRef<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayRef")
            .field("gateway", &G::DESCRIPTOR.name)
            .field("address", &self.address)
            .field("token", &self.token)
            .finish()
    }
}
