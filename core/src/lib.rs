//! Typed calls between actix actors.
//!
//! An actor that derives `RpcEndpoint` can be called through a [`gateway`], from its own process
//! or, with `lockkeeper-remote`, from another one. Its state, its token and the call's deadline are
//! checked on its own thread, and every ask resolves exactly once.
//!
//! ```
//! use actix::prelude::*;
//! use lockkeeper_core::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Message, Serialize, Deserialize)]
//! #[rtype(result = "i64")]
//! struct Add(i64);
//!
//! rpc_gateway! {
//!     /// What a counter can be asked.
//!     CounterGateway("example.Counter", version = 1) { Add }
//! }
//!
//! #[derive(RpcEndpoint, Default)]
//! #[rpc(gateways(CounterGateway))]
//! struct Counter { total: i64 }
//!
//! impl Actor for Counter { type Context = Context<Self>; }
//!
//! impl Handler<Add> for Counter {
//!     type Result = i64;
//!     fn handle(&mut self, Add(n): Add, _: &mut Context<Self>) -> i64 {
//!         self.total += n;
//!         self.total
//!     }
//! }
//!
//! # fn main() -> Result<(), RpcError> {
//! # System::new().block_on(async {
//! let service = RpcService::builder().build()?;
//! let server = service.start_server("counter", Counter::default()).await?; // STOPPED
//! server.start().await?;                                                   // STARTED
//! let counter = service.connect::<CounterGateway>(&server.address()).await?;
//! assert_eq!(counter.send(Add(5)).await?, 5);
//! service.terminate().await
//! # })
//! # }
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`address`] | where an endpoint lives |
//! | [`admin`] | what an operator asks of a service (feature `macros`) |
//! | [`codec`] | how messages are written |
//! | [`context`] | what a handler can know about its call |
//! | [`dead_letter`] | what was not handled |
//! | [`endpoint`] | the serving side: derive, life cycle, supervision |
//! | [`error`] | why a call failed, and whether it may have run |
//! | [`gateway`] | what can be asked, and the handles to ask it |
//! | [`measure`] | the metrics, by name |
//! | [`server`] | the owner's handle of an endpoint |
//! | [`service`] | starts endpoints and connects gateways |
//! | [`status`] | what a console shows |
//! | [`token`] | the fencing token |
//! | [`trace`] | spans that join caller and callee |
//! | [`transport`] | the seam to a network |
//! | `web` | the console, to be mounted in an actix-web app (feature `web`) |
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `macros` | yes | `#[derive(RpcEndpoint)]` |
//! | `testing` | no | module `testing`: a service for tests, recorded dead letters, a clock that stands still |
//! | `web` | no | module `web`: the console |
//!
//! Not for fire-and-forget work that may be lost without a trace, and not for streams of millions
//! of small values a second: an actix mailbox or a channel is nearer to those.

// the derive names this crate as others know it
#[cfg(feature = "macros")]
extern crate self as lockkeeper_core;

#[cfg(feature = "macros")]
pub use lockkeeper_core_macros::RpcEndpoint;

pub use crate::{
    address::{Authority, EndpointId, RpcAddress},
    context::CallContext,
    endpoint::{
        EndpointState, RestartBudget, RestartPolicy, RestartVerdict, RpcEndpoint,
        inbox::InboxLimits,
    },
    error::{FencingViolation, Outcome, RpcError, RpcErrorKind, TimeoutPhase},
    gateway::{
        FencedGateway, Gateway, GatewayDescriptor, GatewayRef, MethodDescriptor, RpcGateway,
    },
    server::RpcServer,
    service::{RpcService, RpcServiceBuilder},
    token::{FencingToken, Lineage, TokenRelation},
};

pub mod address;
#[cfg(feature = "macros")]
pub mod admin;
pub mod codec;
pub mod context;
pub mod dead_letter;
pub mod endpoint;
pub mod error;
#[cfg(feature = "_fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
pub mod measure;
pub mod prelude;
mod reply;
pub mod server;
pub mod service;
pub mod status;
#[cfg(feature = "testing")]
pub mod testing;
pub mod token;
pub mod trace;
pub mod transport;
mod watchdog;
#[cfg(feature = "web")]
pub mod web;

/// For the crate's macros; no part of its interface.
#[doc(hidden)]
pub mod __private {
    pub use actix;
    pub use bytes::Bytes;

    pub use crate::gateway::macro_support::{decode_reply, encode_message, local_only};
}
