//! What the derive implements, and the hooks that a user may implement.

use actix::{Actor, Context, Handler, ResponseActFuture};

use super::{invocation::Invocation, method::ServedGateway};
use crate::gateway::{FencingMode, RpcGateway};

/// How a hook ended. The error's text reaches whoever waits for the start or the end.
pub type HookResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What a hook returns: a future with access to the actor, run on the endpoint's thread.
pub type HookFuture<A> = ResponseActFuture<A, HookResult>;

/// A hook that has nothing (more) to do.
///
/// ```
/// # use actix::{Actor, Context};
/// # use lockkeeper_core::endpoint::{HookFuture, RpcLifecycle, hook_done};
/// # struct Counter { total: i64 }
/// # impl Actor for Counter { type Context = Context<Self>; }
/// impl RpcLifecycle for Counter {
///     fn on_start(&mut self, _: &mut Context<Self>) -> HookFuture<Self> {
///         self.total = 0;
///         hook_done(Ok(()))
///     }
/// }
/// ```
pub fn hook_done<A: Actor>(result: HookResult) -> HookFuture<A> {
    Box::pin(actix::fut::ready(result))
}

/// The hooks of an endpoint. The derive writes an empty implementation, unless the endpoint says
/// `#[rpc(lifecycle)]`: then write your own and override what you need.
///
/// Each hook has a limit, [`hook_timeout`](crate::RpcServiceBuilder::hook_timeout); one that takes
/// longer counts as failed.
pub trait RpcLifecycle: Actor<Context = Context<Self>> {
    /// Runs when the endpoint is started for the first time (and in each new incarnation, if it is
    /// supervised). Calls wait until it is done. If it fails, the endpoint ends with its error.
    fn on_start(&mut self, context: &mut Context<Self>) -> HookFuture<Self> {
        let _ = context;
        hook_done(Ok(()))
    }

    /// Runs when a stopped endpoint is started again. Calls wait until it is done.
    fn on_resume(&mut self, context: &mut Context<Self>) -> HookFuture<Self> {
        let _ = context;
        hook_done(Ok(()))
    }

    /// Runs once when the endpoint is terminated, if `on_start` has run. Calls are served until it
    /// is done; those that are queued then are refused. Its error is the termination's.
    fn on_stop(&mut self, context: &mut Context<Self>) -> HookFuture<Self> {
        let _ = context;
        hook_done(Ok(()))
    }
}

/// An actor that can be called through gateways. Derive it:
///
/// | attribute | says |
/// |---|---|
/// | `#[rpc(gateways(G, ..))]` | the gateways that it serves |
/// | `#[rpc(fenced)]` | it has a token, checked at each call of `gateways(..)`, which must all be `fenced` |
/// | `#[rpc(unfenced_gateways(G, ..))]` | what a fenced endpoint also answers without a token, such as questions for its status |
/// | `#[rpc(serial)]` | it takes the next call only after the one before has resolved |
/// | `#[rpc(lifecycle)]` | the hooks of [`RpcLifecycle`] are written by hand |
///
/// Handlers return what actix' handlers return: a value, `MessageResult`, `ResponseFuture`,
/// `ResponseActFuture`, `AtomicResponse` or an own `MessageResponse`. A response whose type is the
/// message's result itself is the answer: its `MessageResponse::handle` is not called.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no endpoint",
    note = "add `#[derive(RpcEndpoint)] #[rpc(gateways(..))]` to the actor"
)]
pub trait RpcEndpoint: RpcLifecycle + Handler<Invocation<Self>> {
    /// [`Fenced`](crate::gateway::Fenced) if the endpoint has a token.
    type Fencing: FencingMode;

    /// True if calls are taken strictly one after the other.
    const SERIAL: bool;

    /// The gateways that it serves.
    fn gateways() -> Vec<ServedGateway<Self>>;
}

/// Says that endpoint `Self` serves gateway `G`. Written by the derive.
#[diagnostic::on_unimplemented(
    message = "the endpoint `{Self}` does not serve the gateway `{G}`",
    note = "add it to the endpoint's `#[rpc(gateways(..))]`"
)]
pub trait Serves<G: RpcGateway>: RpcEndpoint {}
