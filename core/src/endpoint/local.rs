//! An endpoint as callers in its own process see it, without the actor's type.

use std::{any::TypeId, sync::Arc};

use futures_core::future::BoxFuture;

use super::{
    RpcEndpoint,
    core::Core,
    entry::{Call, Entry},
    fence::TokenCheck,
    lifecycle::{Control, EndpointState},
};
use crate::{
    error::{RpcError, RpcErrorKind},
    gateway::GatewayDescriptor,
    token::FencingToken,
    transport::InboundEndpoint,
};

/// What was not taken, with its reason.
pub(crate) type RejectedCall = Box<(Call, RpcError)>;

pub(crate) trait LocalEndpoint: InboundEndpoint {
    /// The place of a gateway among those served, for a caller that holds this type of it.
    fn find_gateway(
        &self,
        gateway: TypeId,
        descriptor: &GatewayDescriptor,
    ) -> Result<usize, RpcError>;
    fn check_token(&self, check: &TokenCheck) -> Result<(), RpcError>;
    fn present_check(&self) -> Result<TokenCheck, RpcError>;
    fn token(&self) -> Option<FencingToken>;
    fn submit(&self, gateway: usize, method: u16, call: Call) -> Result<(), RejectedCall>;
    /// Answers a call that was not taken: its caller, or the dead letters.
    fn refuse(&self, call: Call, error: RpcError);
    /// Resolves when there may be room in the inbox.
    fn room(&self) -> BoxFuture<'static, ()>;
    fn state(&self) -> EndpointState;
    /// Begins to terminate, and resolves when it has.
    fn terminate(&self) -> BoxFuture<'static, Result<(), RpcError>>;
    fn terminated(&self) -> BoxFuture<'static, Result<(), RpcError>>;
}

/// The one implementation.
pub(crate) struct Handle<A: RpcEndpoint>(pub(crate) Arc<Core<A>>);

impl<A: RpcEndpoint> std::fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.0.address)
            .field("state", &*self.0.state.borrow())
            .finish_non_exhaustive()
    }
}

impl<A: RpcEndpoint> Handle<A> {
    /// The place of the gateway with this name and version.
    pub(crate) fn find(&self, name: &str, version: u32) -> Result<usize, RpcError> {
        if let Some(result) = self.0.termination_now() {
            let why = result
                .err()
                .map_or_else(String::new, |cause| format!(": {cause}"));
            let text = format!("{} has ended{why}", self.0.address);
            return Err(RpcError::new(RpcErrorKind::Stopped, text));
        }
        let named = |descriptor: &GatewayDescriptor| descriptor.name == name;
        let served = &self.0.gateways;
        if let Some(place) = served
            .iter()
            .position(|g| named(g.descriptor) && g.descriptor.version == version)
        {
            return Ok(place);
        }
        let address = &self.0.address;
        let versions = served
            .iter()
            .filter(|g| named(g.descriptor))
            .map(|g| g.descriptor.version.to_string())
            .collect::<Vec<_>>();
        if versions.is_empty() {
            let names = served
                .iter()
                .map(|g| g.descriptor.name)
                .collect::<Vec<_>>()
                .join(", ");
            let text = format!("{address} does not serve {name:?}; it serves {names}");
            return Err(RpcError::new(RpcErrorKind::WrongGateway, text));
        }
        Err(RpcError::new(
            RpcErrorKind::GatewayVersionMismatch,
            format!(
                "{address} serves {name} in version {}, the caller has version {version}",
                versions.join(", ")
            ),
        ))
    }
}

impl<A: RpcEndpoint> LocalEndpoint for Handle<A> {
    fn find_gateway(
        &self,
        gateway: TypeId,
        descriptor: &GatewayDescriptor,
    ) -> Result<usize, RpcError> {
        let place = self.find(descriptor.name, descriptor.version)?;
        if self
            .0
            .gateways
            .get(place)
            .is_some_and(|served| served.gateway == gateway)
        {
            return Ok(place);
        }
        Err(RpcError::new(
            RpcErrorKind::WrongGateway,
            format!(
                "{} serves another Rust type under the name {}",
                self.0.address, descriptor.name
            ),
        ))
    }

    fn check_token(&self, check: &TokenCheck) -> Result<(), RpcError> {
        self.0
            .fence
            .check(check)
            .map_err(|error| error.in_context(&self.0.address))
    }

    fn present_check(&self) -> Result<TokenCheck, RpcError> {
        self.0.present_check()
    }

    fn token(&self) -> Option<FencingToken> {
        self.0.fence.token()
    }

    fn submit(&self, gateway: usize, method: u16, call: Call) -> Result<(), RejectedCall> {
        let Some(method) = self.0.method(gateway, method) else {
            let text = format!("{} has no method number {method}", self.0.address);
            let error = RpcError::new(RpcErrorKind::UnknownMethod, text);
            return Err(Box::new((call, error)));
        };
        self.0
            .push(Entry::Call { method, call })
            .map_err(|rejected| {
                let (entry, error) = *rejected;
                match entry {
                    Entry::Call { call, .. } => Box::new((call, error)),
                    Entry::Job(_) => unreachable!("what comes back is the call that was pushed"),
                }
            })
    }

    fn refuse(&self, call: Call, error: RpcError) {
        self.0.refuse_call(call, error);
    }

    fn room(&self) -> BoxFuture<'static, ()> {
        let core = Arc::clone(&self.0);
        Box::pin(async move { core.inbox.room().await })
    }

    fn state(&self) -> EndpointState {
        *self.0.state.borrow()
    }

    fn terminate(&self) -> BoxFuture<'static, Result<(), RpcError>> {
        let core = Arc::clone(&self.0);
        let ended = core.termination.subscribe();
        Box::pin(async move {
            core.control(Control::Terminate).await?;
            Core::<A>::terminated(ended).await
        })
    }

    fn terminated(&self) -> BoxFuture<'static, Result<(), RpcError>> {
        Box::pin(Core::<A>::terminated(self.0.termination.subscribe()))
    }
}
