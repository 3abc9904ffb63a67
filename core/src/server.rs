//! The handle of a running endpoint, for its owner.

use std::{sync::Arc, time::Duration};

use actix::{Addr, Context};
use tokio::{sync::broadcast, time::timeout};

pub use self::job::JobHandle;

mod job;

use crate::{
    address::RpcAddress,
    endpoint::{Control, EndpointState, Resources, RpcEndpoint, Serves, core::Core, local::Handle},
    error::{RpcError, RpcErrorKind},
    gateway::{Dispatch, Fenced, FencingMode, Gateway, GatewayInner, Link, TokenSource},
    status::{Level, Plot, StatusEvent, StatusKind, StatusSnapshot, StatusSource, Unit},
    token::FencingToken,
};

/// The owner's handle of an endpoint. Cheap to clone; the endpoint lives on when all are dropped,
/// until it or its service is terminated.
pub struct RpcServer<A: RpcEndpoint> {
    core: Arc<Core<A>>,
    status: Arc<dyn StatusSource>,
}

impl<A: RpcEndpoint> RpcServer<A> {
    pub(crate) fn new(core: Arc<Core<A>>) -> Self {
        let status: Arc<dyn StatusSource> = Arc::new(EndpointStatus(Arc::clone(&core)));
        core.shared.status.register(&status);
        Self { core, status }
    }

    /// Where the endpoint can be connected to.
    #[must_use]
    pub fn address(&self) -> RpcAddress {
        self.core.address.clone()
    }

    /// The present state.
    #[must_use]
    pub fn state(&self) -> EndpointState {
        *self.core.state.borrow()
    }

    /// The present actor's own address; `None` between two incarnations and after the end.
    /// Messages sent to it pass by state, token, deadline and inbox.
    #[must_use]
    pub fn addr(&self) -> Option<Addr<A>> {
        self.core.inbox.actor()
    }

    /// Starts, or resumes, and resolves when calls are served.
    ///
    /// # Errors
    /// `InvalidState` when TERMINATING or TERMINATED; `LifecycleFailed`, `Panicked` or `Timeout`
    /// from `on_start` or `on_resume`: the endpoint has ended then.
    pub async fn start(&self) -> Result<(), RpcError> {
        self.core.control(Control::Start).await
    }

    /// Stops serving calls: those that wait and those that come are refused with `NotStarted`.
    /// Calls in flight go on. [`start`](Self::start) resumes.
    ///
    /// # Errors
    /// `InvalidState` when TERMINATING or TERMINATED.
    pub async fn stop(&self) -> Result<(), RpcError> {
        self.core.control(Control::Stop).await
    }

    /// Ends the endpoint, with `on_stop` if it was ever started, and resolves when its name is
    /// free. Calls in flight when `on_stop` is done are answered with `Stopped`. A second call
    /// waits for the same end.
    ///
    /// # Errors
    /// What [`termination`](Self::termination) resolves to.
    pub async fn terminate(&self) -> Result<(), RpcError> {
        let termination = self.termination();
        self.core.control(Control::Terminate).await?;
        termination.await
    }

    /// Resolves when the endpoint has ended and its name is free: `Ok` if it was terminated, else
    /// why it ended. Runs on no endpoint's thread: it may start endpoints.
    pub fn termination(&self) -> impl Future<Output = Result<(), RpcError>> + Send + 'static {
        Core::<A>::terminated(self.core.termination.subscribe())
    }

    /// The self gateway. If it is fenced, each call carries the token that the endpoint has then.
    #[must_use]
    pub fn gateway<G: Dispatch<A>>(&self) -> Gateway<G>
    where
        A: Serves<G>,
    {
        let named = |served: &crate::endpoint::ServedGateway<A>| {
            served.gateway == std::any::TypeId::of::<G>()
        };
        // The derive writes `Serves` for exactly the gateways in the list.
        let gateway = self
            .core
            .gateways
            .iter()
            .position(named)
            .unwrap_or(usize::MAX);
        let token = if G::Fencing::FENCED {
            TokenSource::Present
        } else {
            TokenSource::None
        };
        Gateway::new(GatewayInner {
            address: self.core.address.clone(),
            shared: Arc::clone(&self.core.shared),
            token,
            link: Link::Local {
                endpoint: Arc::new(Handle(Arc::clone(&self.core))),
                gateway,
            },
        })
    }

    /// Runs a closure on the endpoint's thread, after the calls that wait already. If the endpoint
    /// is fenced, it runs under the token of now, or not at all.
    ///
    /// The handle resolves in every case: to `NotStarted` if the endpoint is stopped, `Stopped`
    /// after its end, `Fenced` if the token changed before. Dropping it does not take the closure
    /// back.
    pub fn run_async<F>(&self, work: F) -> JobHandle<()>
    where
        F: FnOnce(&mut A, &mut Context<A>) + Send + 'static,
    {
        job::submit(&self.core, "run_async", work)
    }

    /// Runs a closure on the endpoint's thread and brings its value back within `limit`.
    ///
    /// # Errors
    /// As [`run_async`](Self::run_async), and `Timeout`: refused if it has not begun and never will.
    pub async fn call_async<T, F>(&self, limit: Duration, work: F) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: FnOnce(&mut A, &mut Context<A>) -> T + Send + 'static,
    {
        let mut handle = job::submit(&self.core, "call_async", work);
        match timeout(limit, &mut handle).await {
            Ok(result) => result,
            Err(_) => handle.give_up(&self.core.address, limit),
        }
    }

    /// Runs a closure on the endpoint's thread, not before `delay` is over. If the endpoint is fenced,
    /// it runs under the token of now, or not at all. A delay of `Duration::MAX` is accepted and never fires. When the endpoint ends first, the handle
    /// resolves at once to `Stopped`.
    pub fn schedule_run_async<F>(&self, delay: Duration, work: F) -> JobHandle<()>
    where
        F: FnOnce(&mut A, &mut Context<A>) + Send + 'static,
    {
        job::schedule(&self.core, delay, work)
    }

    /// What the present incarnation has to close when it ends.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.core.incarnation().resources.clone()
    }

    /// Calls and closures that have begun so far, over all incarnations.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.core.handled()
    }

    /// Calls and closures that wait, with the bytes they count for.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.core.inbox.waiting()
    }
}

impl<A: RpcEndpoint<Fencing = Fenced>> RpcServer<A> {
    /// The present token.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        self.core.fence.token()
    }

    /// Puts a token in place: from now on calls must carry it. Calls in flight under another one
    /// are told by `CallContext::cancelled` and may still end; [`revoke`](Self::revoke) first if
    /// they must be over.
    pub fn set_token(&self, token: FencingToken) {
        self.core.fence.swap(Some(token));
    }

    /// Takes the token away at once and resolves when no call that began under it runs any more:
    /// after that no handler starts and no reply is sent under it. Calls in flight see
    /// `CallContext::cancelled`. From the endpoint's own handlers, spawn it, don't await it.
    ///
    /// # Errors
    /// `Timeout` if calls still run after
    /// [`revoke_timeout`](crate::RpcServiceBuilder::revoke_timeout): the endpoint has been ended
    /// then, its callers answered, and the text names the methods. A handler's detached
    /// `ResponseFuture` can't be stopped: it may run on, without anybody to reply to.
    pub async fn revoke(&self) -> Result<(), RpcError> {
        self.core.fence.swap(None);
        let limit = self.core.shared.settings.revoke_timeout;
        if timeout(limit, self.core.fence.quiet()).await.is_ok() {
            return Ok(());
        }
        let methods = match self.core.pending_methods() {
            methods if methods.is_empty() => "a handler that holds its thread".to_owned(),
            methods => methods.join(", "),
        };
        let error = RpcError::new(
            RpcErrorKind::Timeout,
            format!(
                "{}: revoked, but {methods} did not end within {limit:?}: the endpoint was ended",
                self.core.address
            ),
        );
        self.core.fence.mute();
        self.core.abort(error.clone()).await;
        // A handler that holds its thread holds up the end too, but it can't reply any more.
        let _ = timeout(limit, self.termination()).await;
        Err(error)
    }
}

impl<A: RpcEndpoint> Clone for RpcServer<A> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            status: Arc::clone(&self.status),
        }
    }
}

impl<A: RpcEndpoint> std::fmt::Debug for RpcServer<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RpcServer")
            .field("address", &self.core.address)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

struct EndpointStatus<A: RpcEndpoint>(Arc<Core<A>>);

impl<A: RpcEndpoint> StatusSource for EndpointStatus<A> {
    fn events(&self) -> Option<broadcast::Receiver<StatusEvent>> {
        Some(self.0.status_events.subscribe())
    }

    fn name(&self) -> String {
        format!("endpoint {}", self.0.address.endpoint())
    }

    fn snapshot(&self) -> StatusSnapshot {
        let (messages, bytes) = self.0.inbox.waiting();
        let token = self
            .0
            .fence
            .token()
            .map_or_else(|| "none".to_owned(), |t| t.to_string());
        let state = *self.0.state.borrow();
        let (level, unready) = match state {
            EndpointState::Started => (Level::Good, None),
            EndpointState::Stopped => (Level::Neutral, Some("it is not started")),
            EndpointState::Terminating => (Level::Busy, Some("it ends")),
            EndpointState::Terminated => (Level::Bad, Some("it has ended")),
        };
        StatusSnapshot::new(StatusKind::Endpoint)
            .with_state(state.to_string(), level)
            .with_unready(unready.map(str::to_owned))
            .with("address", self.0.address.to_string())
            .with("token", token)
            .with_plot("handled", self.0.handled(), Unit::None, Plot::Rate)
            .with_plot("waiting", messages, Unit::None, Plot::Value)
            .with_unit("waiting bytes", bytes, Unit::Bytes)
            .with_unit(
                "oldest waiting",
                self.0.inbox.age().as_secs_f64(),
                Unit::Seconds,
            )
            .with("in flight", self.0.pending_methods().len())
            .with("incarnation", self.0.incarnation().number)
    }
}
