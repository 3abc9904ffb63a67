//! Typed calls between actix actors.
//!
//! An actor that derives `RpcEndpoint` can be called through a [`gateway`], from its own process
//! or, with `lockkeeper-remote`, from another one.
//!
//! | module | subject |
//! |---|---|
//! | [`address`] | where an endpoint lives |
//! | [`codec`] | how messages are written |
//! | [`error`] | why a call failed, and whether it may have run |
//! | [`gateway`] | what can be asked of an endpoint |
//! | [`service`] | starts endpoints and connects gateways |
//! | [`token`] | the fencing token |
//! | [`transport`] | the seam to a network |

pub use crate::{
    address::{Authority, EndpointId, RpcAddress},
    error::{FencingViolation, Outcome, RpcError, RpcErrorKind, TimeoutPhase},
    gateway::{GatewayDescriptor, MethodDescriptor},
    service::{RpcService, RpcServiceBuilder},
    token::{FencingToken, Lineage, TokenRelation},
};

pub mod address;
pub mod codec;
pub mod error;
pub mod gateway;
pub mod service;
pub mod token;
pub mod transport;
