//! `connect`: from an address to a gateway.

use std::{any::TypeId, sync::Arc};

use tokio::time::Instant;

use super::RpcService;
use crate::{
    address::RpcAddress,
    endpoint::fence::TokenCheck,
    error::{Outcome, RpcError, RpcErrorKind},
    gateway::{
        Fenced, FencedGateway, FencingMode, Gateway, GatewayInner, GatewayRef, Link, RpcGateway,
        TokenSource, Unfenced,
    },
    token::FencingToken,
    transport::ConnectRequest,
};

impl RpcService {
    /// A handle to the endpoint at `address`, in this process or another. The endpoint need not be
    /// started: calls fail with `NotStarted` until it is.
    ///
    /// # Errors
    /// `NoSuchEndpoint`, `WrongGateway`, `GatewayVersionMismatch`, `ServiceStopped`; over a
    /// transport also what the network and the other side can say; `Unreachable` for an address of
    /// another process without a transport.
    pub async fn connect<G>(&self, address: &RpcAddress) -> Result<Gateway<G>, RpcError>
    where
        G: RpcGateway<Fencing = Unfenced>,
    {
        self.connect_with(address, None).await
    }

    /// The same for a gateway whose calls need a token. The token is checked here too, so that a
    /// caller with a wrong one learns it early; what counts is the check at each call, on the
    /// endpoint's own thread.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and `Fenced` if the token is not the endpoint's.
    pub async fn connect_fenced<G>(
        &self,
        address: &RpcAddress,
        token: FencingToken,
    ) -> Result<FencedGateway<G>, RpcError>
    where
        G: RpcGateway<Fencing = Fenced>,
    {
        self.connect_with(address, Some(token)).await
    }

    /// A handle to where `reference` leads, such as the reply-to field of a message.
    ///
    /// # Errors
    /// As [`connect_fenced`](Self::connect_fenced), and `MissingToken` if the gateway is fenced and
    /// the reference has no token.
    pub async fn connect_ref<G: RpcGateway>(
        &self,
        reference: &GatewayRef<G>,
    ) -> Result<Gateway<G>, RpcError> {
        if G::Fencing::FENCED && reference.token().is_none() {
            let text = format!(
                "{} is fenced and {reference:?} has no token",
                G::DESCRIPTOR.name
            );
            let error = RpcError::new(RpcErrorKind::MissingToken, text);
            return Err(error.with_outcome(Outcome::NotSent));
        }
        self.connect_with(reference.address(), reference.token())
            .await
    }

    async fn connect_with<G: RpcGateway>(
        &self,
        address: &RpcAddress,
        token: Option<FencingToken>,
    ) -> Result<Gateway<G>, RpcError> {
        self.refuse_if_stopped()?;
        let link = if self.is_here(address) {
            self.connect_here::<G>(address, token)?
        } else {
            self.connect_there::<G>(address, token).await?
        };
        Ok(Gateway::new(GatewayInner {
            address: address.clone(),
            shared: Arc::clone(&self.inner.shared),
            token: token.map_or(TokenSource::None, |token| {
                TokenSource::Fixed(Arc::new(token))
            }),
            link,
        }))
    }

    fn is_here(&self, address: &RpcAddress) -> bool {
        match (address.authority(), self.transport()) {
            (None, _) => true,
            (Some(authority), Some(transport)) => *authority == transport.authority(),
            (Some(_), None) => false,
        }
    }

    fn connect_here<G: RpcGateway>(
        &self,
        address: &RpcAddress,
        token: Option<FencingToken>,
    ) -> Result<Link, RpcError> {
        let Some(endpoint) = self.table().local(address.endpoint().as_str()) else {
            let text = format!("no endpoint lives at {address}");
            return Err(RpcError::new(RpcErrorKind::NoSuchEndpoint, text));
        };
        let gateway = endpoint.find_gateway(TypeId::of::<G>(), G::DESCRIPTOR)?;
        if let Some(token) = token {
            endpoint.check_token(&TokenCheck::of(token))?;
        }
        Ok(Link::Local { endpoint, gateway })
    }

    async fn connect_there<G: RpcGateway>(
        &self,
        address: &RpcAddress,
        token: Option<FencingToken>,
    ) -> Result<Link, RpcError> {
        let Some(transport) = self.transport() else {
            let text = format!("{address} is in another process and this service has no transport");
            return Err(RpcError::new(RpcErrorKind::Unreachable, text));
        };
        let now = Instant::now();
        let limit = self.inner.shared.settings.default_timeout;
        let request = ConnectRequest {
            address: address.clone(),
            gateway: G::DESCRIPTOR,
            shapes: G::shapes(),
            token,
            deadline: now.checked_add(limit).unwrap_or(now),
        };
        transport.connect(request).await.map(Link::Remote)
    }
}
