//! The serving side: an actix actor with a life cycle, an inbox of its own and a token.
//!
//! Calls do not wait in actix's mailbox, which has no bound for `do_send`, one queue for all, and
//! is lost with a panic. Each endpoint owns an inbox outside the actor, and the actor a future that
//! empties it in short turns; the mailbox carries only hooks, as [`Invocation`]s. Messages that are sent to the actor's raw
//! `Addr` pass all this by: no state, token or deadline is checked for them.

pub use self::{
    invocation::Invocation,
    lifecycle::{Control, EndpointState},
    method::{Method, ServedGateway},
    resources::{ResourceId, Resources},
    restart::{AfterPanic, Escalation, RestartBudget, RestartPolicy, RestartVerdict},
    traits::{HookFuture, HookResult, RpcEndpoint, RpcLifecycle, Serves, hook_done},
};

pub(crate) mod call;
pub(crate) mod core;
pub(crate) mod entry;
pub(crate) mod fence;
pub(crate) mod forward;
pub(crate) mod inbox;
pub(crate) mod incarnation;
mod invocation;
pub(crate) mod lifecycle;
pub(crate) mod local;
mod method;
mod resources;
pub(crate) mod restart;
pub(crate) mod session;
pub(crate) mod supervisor;
mod traits;
mod turn;
