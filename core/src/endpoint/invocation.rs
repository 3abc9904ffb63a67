//! The one message that the derive adds to an actor: a hook that is to run on its thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use actix::{ActorFutureExt, AsyncContext, Context, Message};

use super::{
    RpcEndpoint,
    core::{Core, Ends},
    entry::panic_error,
    lifecycle::{Event, Hook},
    supervisor::Supervisor,
};
use crate::error::{RpcError, RpcErrorKind};

/// Brings the endpoint's hooks to its actor. Calls don't come this way: see [`endpoint`](super).
///
/// `#[derive(RpcEndpoint)]` writes the handler; nobody else makes or sends one.
pub struct Invocation<A: RpcEndpoint> {
    core: Arc<Core<A>>,
    what: What,
}

enum What {
    Hook {
        hook: Hook,
        incarnation: u64,
    },
    /// The actor runs already and is to be served.
    Attach(Box<Ends>),
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
            what: What::Hook { hook, incarnation },
        }
    }

    pub(crate) fn attach(core: &Arc<Core<A>>, ends: Ends) -> Self {
        Self {
            core: Arc::clone(core),
            what: What::Attach(Box::new(ends)),
        }
    }

    /// Does what it was sent for. For the handler that the derive writes.
    pub fn run(self, actor: &mut A, context: &mut Context<A>) {
        match self.what {
            What::Hook { hook, incarnation } => {
                run_hook(&self.core, hook, incarnation, actor, context);
            }
            What::Attach(ends) => Supervisor::attach(self.core, *ends, context),
        }
    }
}

fn run_hook<A: RpcEndpoint>(
    core: &Arc<Core<A>>,
    hook: Hook,
    incarnation: u64,
    actor: &mut A,
    context: &mut Context<A>,
) {
    let resources = core.incarnation().resources.clone();
    let begun = catch_unwind(AssertUnwindSafe(|| {
        resources.scope(|| match hook {
            Hook::Start => actor.on_start(context),
            Hook::Resume => actor.on_resume(context),
            Hook::Stop => actor.on_stop(context),
        })
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
