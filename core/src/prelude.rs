//! What most users need: `use lockkeeper_core::prelude::*`.

pub use crate::{
    address::{EndpointId, RpcAddress},
    context::CallContext,
    endpoint::{
        AfterPanic, EndpointState, Escalation, HookFuture, HookResult, RestartPolicy, RpcLifecycle,
        hook_done,
    },
    error::{FencingViolation, Outcome, RpcError, RpcErrorKind},
    gateway::{Fenced, FencedGateway, Gateway, GatewayRef, RpcGateway, Unfenced},
    rpc_gateway,
    server::RpcServer,
    service::RpcService,
    token::FencingToken,
};
// The trait and, with feature `macros`, the derive of the same name.
pub use crate::RpcEndpoint;
