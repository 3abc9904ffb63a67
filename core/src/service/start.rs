//! Starting endpoints.

use std::sync::Arc;

use actix::{Addr, Arbiter, ArbiterHandle};
use tokio::{
    runtime::{Handle as Runtime, RuntimeFlavor},
    sync::oneshot,
};

use super::RpcService;
use crate::{
    address::EndpointId,
    endpoint::{
        AfterPanic, Escalation, Invocation, RestartPolicy, RpcEndpoint,
        core::{Core, Ends},
        lifecycle::Lifecycle,
        local::Handle,
        restart::RestartBudget,
        supervisor::{Factory, Supervisor},
    },
    error::{RpcError, RpcErrorKind},
    gateway::{Fenced, Unfenced},
    server::RpcServer,
    token::FencingToken,
};

/// How an endpoint is set up, apart from its actor.
struct Setup {
    name: EndpointId,
    token: Option<FencingToken>,
    policy: Option<RestartPolicy>,
}

impl RpcService {
    /// Makes `actor` an endpoint of this service, STOPPED, on the arbiter (or in the `LocalSet`)
    /// where this is called. [`start`](RpcServer::start) it to serve calls.
    ///
    /// A panic in the synchronous part of a handler is answered with `Panicked` and the actor is
    /// kept as the panic left it; a panic in one of its futures ends the endpoint. To have it made
    /// anew, use [`start_supervised_server`](Self::start_supervised_server).
    ///
    /// # Errors
    /// `NameTaken` while another endpoint of that name lives; `InvalidAddress` for a name that is
    /// none; `ServiceStopped`; `InvalidState` when called outside an arbiter.
    pub async fn start_server<A>(&self, name: &str, actor: A) -> Result<RpcServer<A>, RpcError>
    where
        A: RpcEndpoint<Fencing = Unfenced>,
    {
        self.start_here(name, None, actor)
    }

    /// The same for a fenced endpoint. Without a token it refuses all fenced calls with
    /// `Fenced(NotLeader)` until [`set_token`](RpcServer::set_token).
    ///
    /// # Errors
    /// As [`start_server`](Self::start_server).
    pub async fn start_fenced_server<A>(
        &self,
        name: &str,
        actor: A,
        token: impl Into<Option<FencingToken>>,
    ) -> Result<RpcServer<A>, RpcError>
    where
        A: RpcEndpoint<Fencing = Fenced>,
    {
        self.start_here(name, token.into(), actor)
    }

    /// An endpoint whose actor is made by `factory`, and made anew after a panic, as `policy` says.
    /// Calls that wait are kept over a restart, calls in flight are answered with `Restarted`. The
    /// factory's first panic is this function's error.
    ///
    /// A fenced endpoint begins without token and keeps its token over restarts.
    ///
    /// # Errors
    /// As [`start_server`](Self::start_server), and `Panicked` from the factory.
    pub async fn start_supervised_server<A, F>(
        &self,
        name: &str,
        policy: RestartPolicy,
        factory: F,
    ) -> Result<RpcServer<A>, RpcError>
    where
        A: RpcEndpoint,
        F: FnMut() -> A + 'static,
    {
        refuse_off_arbiter()?;
        let setup = Setup {
            name: EndpointId::new(name)?,
            token: None,
            policy: Some(policy),
        };
        self.supervise(setup, Box::new(factory))
    }

    /// The same on another arbiter.
    ///
    /// # Errors
    /// As [`start_supervised_server`](Self::start_supervised_server); `Stopped` if the arbiter has
    /// ended.
    pub async fn start_supervised_server_in<A, F>(
        &self,
        arbiter: &ArbiterHandle,
        name: &str,
        policy: RestartPolicy,
        factory: F,
    ) -> Result<RpcServer<A>, RpcError>
    where
        A: RpcEndpoint,
        F: FnMut() -> A + Send + 'static,
    {
        let setup = Setup {
            name: EndpointId::new(name)?,
            token: None,
            policy: Some(policy),
        };
        let service = self.clone();
        on(arbiter, move || service.supervise(setup, Box::new(factory))).await
    }

    /// [`start_server`](Self::start_server) on another arbiter, where `make` makes the actor.
    ///
    /// # Errors
    /// As [`start_server`](Self::start_server); `Stopped` if the arbiter has ended; `Panicked` if
    /// `make` panics.
    pub async fn start_server_in<A, F>(
        &self,
        arbiter: &ArbiterHandle,
        name: &str,
        make: F,
    ) -> Result<RpcServer<A>, RpcError>
    where
        A: RpcEndpoint<Fencing = Unfenced>,
        F: FnOnce() -> A + Send + 'static,
    {
        self.start_there(arbiter, name, None, make).await
    }

    /// [`start_fenced_server`](Self::start_fenced_server) on another arbiter.
    ///
    /// # Errors
    /// As [`start_server_in`](Self::start_server_in).
    pub async fn start_fenced_server_in<A, F>(
        &self,
        arbiter: &ArbiterHandle,
        name: &str,
        token: impl Into<Option<FencingToken>>,
        make: F,
    ) -> Result<RpcServer<A>, RpcError>
    where
        A: RpcEndpoint<Fencing = Fenced>,
        F: FnOnce() -> A + Send + 'static,
    {
        self.start_there(arbiter, name, token.into(), make).await
    }

    /// Serves an actor that runs already, whoever started it, under `name`, STOPPED. Its mailbox
    /// works as before, beside the calls.
    ///
    /// The actor stays its starter's: it lives on when the endpoint is terminated, and the endpoint
    /// ends when the actor does. A panic in a handler is answered with `Panicked` and the actor is
    /// kept. As long as the endpoint lives, it holds an `Addr`, so that the actor does too.
    ///
    /// # Errors
    /// As [`start_server`](Self::start_server); `Stopped` if the actor has ended.
    pub async fn serve<A>(&self, name: &str, actor: &Addr<A>) -> Result<RpcServer<A>, RpcError>
    where
        A: RpcEndpoint<Fencing = Unfenced>,
    {
        self.attach(name, None, actor).await
    }

    /// The same for a fenced endpoint.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub async fn serve_fenced<A>(
        &self,
        name: &str,
        actor: &Addr<A>,
        token: impl Into<Option<FencingToken>>,
    ) -> Result<RpcServer<A>, RpcError>
    where
        A: RpcEndpoint<Fencing = Fenced>,
    {
        self.attach(name, token.into(), actor).await
    }

    async fn attach<A: RpcEndpoint>(
        &self,
        name: &str,
        token: Option<FencingToken>,
        actor: &Addr<A>,
    ) -> Result<RpcServer<A>, RpcError> {
        let setup = Setup {
            name: EndpointId::new(name)?,
            token,
            policy: None,
        };
        let (core, ends) = self.register::<A>(&setup)?;
        core.inbox.set_actor(Some(actor.clone()));
        let attach = Invocation::attach(&core, ends);
        if actor.send(attach).await.is_err() {
            self.table().remove(&setup.name);
            core.inbox.set_actor(None);
            let text = format!("the actor that was to be served as {name} has ended");
            return Err(RpcError::new(RpcErrorKind::Stopped, text));
        }
        Ok(RpcServer::new(core))
    }

    fn start_here<A: RpcEndpoint>(
        &self,
        name: &str,
        token: Option<FencingToken>,
        actor: A,
    ) -> Result<RpcServer<A>, RpcError> {
        refuse_off_arbiter()?;
        let setup = Setup {
            name: EndpointId::new(name)?,
            token,
            policy: None,
        };
        let (core, ends) = self.register::<A>(&setup)?;
        Ok(launch(core, ends, actor, setup, None))
    }

    async fn start_there<A: RpcEndpoint>(
        &self,
        arbiter: &ArbiterHandle,
        name: &str,
        token: Option<FencingToken>,
        make: impl FnOnce() -> A + Send + 'static,
    ) -> Result<RpcServer<A>, RpcError> {
        let setup = Setup {
            name: EndpointId::new(name)?,
            token,
            policy: None,
        };
        let service = self.clone();
        on(arbiter, move || {
            let actor = caught("the closure that makes the actor", make)?;
            let (core, ends) = service.register::<A>(&setup)?;
            Ok(launch(core, ends, actor, setup, None))
        })
        .await
    }

    fn supervise<A: RpcEndpoint>(
        &self,
        setup: Setup,
        mut factory: Factory<A>,
    ) -> Result<RpcServer<A>, RpcError> {
        let actor = caught("the factory", &mut factory)?;
        let (core, ends) = self.register::<A>(&setup)?;
        Ok(launch(core, ends, actor, setup, Some(factory)))
    }

    /// Takes the name.
    fn register<A: RpcEndpoint>(&self, setup: &Setup) -> Result<(Arc<Core<A>>, Ends), RpcError> {
        self.refuse_if_stopped()?;
        let restart_after_panic = setup
            .policy
            .as_ref()
            .is_some_and(|policy| policy.after_panic == AfterPanic::Restart);
        let address = self.address_of(setup.name.clone());
        let shared = Arc::clone(&self.inner.shared);
        let (core, ends) = Core::<A>::new(address, shared, setup.token, restart_after_panic);
        let core = Arc::new(core);
        if let Some(watchdog) = &self.inner.shared.watchdog {
            let watched = Arc::downgrade(&core);
            watchdog.watch(watched);
        }
        self.table()
            .insert(&setup.name, Arc::new(Handle(Arc::clone(&core))))?;
        if self.is_terminated() {
            self.table().remove(&setup.name);
            self.refuse_if_stopped()?;
        }
        Ok((core, ends))
    }
}

/// A typed error where actix would panic.
pub(crate) fn refuse_off_arbiter() -> Result<(), RpcError> {
    let is_off = match Runtime::try_current() {
        Ok(runtime) => {
            Arbiter::try_current().is_none()
                && runtime.runtime_flavor() == RuntimeFlavor::MultiThread
        }
        Err(_) => true,
    };
    if is_off {
        return Err(RpcError::new(
            RpcErrorKind::InvalidState,
            "an actor needs an arbiter or a LocalSet: call this on one, or start_server_in(..)",
        ));
    }
    Ok(())
}

fn launch<A: RpcEndpoint>(
    core: Arc<Core<A>>,
    ends: Ends,
    actor: A,
    setup: Setup,
    factory: Option<Factory<A>>,
) -> RpcServer<A> {
    let escalation = setup
        .policy
        .as_ref()
        .map_or(Escalation::default(), |p| p.escalation);
    let machine = Lifecycle::new(setup.policy.map(RestartBudget::new));
    Supervisor::new(Arc::clone(&core), machine, factory, escalation).start(actor, ends);
    RpcServer::new(core)
}

fn caught<T>(what: &str, make: impl FnOnce() -> T) -> Result<T, RpcError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(make))
        .map_err(|payload| crate::endpoint::entry::panic_error(what, &*payload))
}

/// Runs `work` on an arbiter and awaits its result.
async fn on<T: Send + 'static>(
    arbiter: &ArbiterHandle,
    work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let (done, result) = oneshot::channel();
    let gone = || RpcError::new(RpcErrorKind::Stopped, "the arbiter has ended");
    let is_running = arbiter.spawn_fn(move || {
        // Who asked and went away needs no answer.
        let _ = done.send(work());
    });
    if !is_running {
        return Err(gone());
    }
    result.await.unwrap_or_else(|_| Err(gone()))
}
