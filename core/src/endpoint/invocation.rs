//! The one message that the derive adds to an actor: a hook that is to run on its thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use actix::{ActorFutureExt, AsyncContext, Context, Message};

use super::{
    RpcEndpoint,
    core::Core,
    entry::panic_error,
    lifecycle::{Event, Hook},
};
use crate::error::{RpcError, RpcErrorKind};

/// Brings the endpoint's hooks to its actor. Calls don't come this way: see [`endpoint`](super).
///
/// `#[derive(RpcEndpoint)]` writes the handler; nobody else makes or sends one.
pub struct Invocation<A: RpcEndpoint> {
    core: Arc<Core<A>>,
    hook: Hook,
    incarnation: u64,
}

impl<A: RpcEndpoint> Message for Invocation<A> {
    type Result = ();
}

impl<A: RpcEndpoint> std::fmt::Debug for Invocation<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invocation")
            .field("endpoint", &self.core.address)
            .finish_non_exhaustive()
    }
}

impl<A: RpcEndpoint> Invocation<A> {
    pub(crate) fn hook(core: &Arc<Core<A>>, hook: Hook, incarnation: u64) -> Self {
        Self {
            core: Arc::clone(core),
            hook,
            incarnation,
        }
    }

    /// Runs the hook. For the handler that the derive writes.
    pub fn run(self, actor: &mut A, context: &mut Context<A>) {
        let Self {
            core,
            hook,
            incarnation,
        } = self;
        let begun = catch_unwind(AssertUnwindSafe(|| match hook {
            Hook::Start => actor.on_start(context),
            Hook::Resume => actor.on_resume(context),
            Hook::Stop => actor.on_stop(context),
        }));
        let events = core.events.clone();
        let address = core.address.clone();
        match begun {
            Ok(future) => {
                context.spawn(future.map(move |result, _, _| {
                    let result = result.map_err(|error| {
                        let text = format!("{} of {address} failed: {error}", hook.name());
                        RpcError::new(RpcErrorKind::LifecycleFailed, text)
                    });
                    let _ = events.send((incarnation, Event::HookDone(result)));
                }));
            }
            Err(payload) => {
                let what = format!("{} of {address}", hook.name());
                let error = panic_error(&what, &*payload);
                let _ = events.send((incarnation, Event::HookDone(Err(error))));
            }
        }
    }
}
