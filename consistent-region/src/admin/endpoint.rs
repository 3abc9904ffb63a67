//! The endpoint that answers a region's operators.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use actix::fut::wrap_future;
use actix::{Actor, Context, Handler, ResponseFuture};
use lockkeeper_core::endpoint::{HookFuture, RpcLifecycle};
use lockkeeper_core::{CallContext, FencingToken, RpcEndpoint, RpcError, RpcServer, RpcService};
use tokio::sync::watch;

use super::ADMIN_ENDPOINT;
use super::messages::{
    AdminRefused, CutTaken, ForgetSavepoint, GetRegion, PauseSources, RegionAdminGateway,
    RegionEnded, RegionReport, ResetDone, ResetRegion, RestoreSavepoint, ResumeSources,
    SavepointKept, StopRegion, TakeCut, TakeSavepoint,
};
use super::watching::Watching;
#[cfg(feature = "remote")]
use crate::coordinator::ElectedCoordinator;
use crate::coordinator::{CommandRefused, CoordinatorHandle};

/// How long the endpoint's end waits for answers under way: the effect that they wait for has been,
/// or never comes.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Answers a region's operators.
#[derive(RpcEndpoint)]
#[rpc(gateways(RegionAdminGateway), lifecycle)]
pub struct RegionAdmin {
    access: Access,
    before_stop: Option<Arc<dyn Fn() + Send + Sync>>,
    under_way: Arc<watch::Sender<usize>>,
}

/// The coordinator, and how it is known whether it leads.
#[derive(Clone)]
struct Access {
    coordinator: CoordinatorHandle,
    /// `None`: nobody is elected, the coordinator leads as long as it lives.
    token: Option<watch::Receiver<Option<FencingToken>>>,
}

impl RegionAdmin {
    /// For a coordinator that nobody elects
    /// ([`start_local`](crate::coordinator::RegionCoordinator::start_local)).
    #[must_use]
    pub fn new(coordinator: CoordinatorHandle) -> Self {
        Self::with_access(Access {
            coordinator,
            token: None,
        })
    }

    /// For a coordinator that contends for leadership.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn elected(coordinator: &ElectedCoordinator) -> Self {
        Self::with_access(Access {
            coordinator: coordinator.handle().clone(),
            token: Some(coordinator.token()),
        })
    }

    fn with_access(access: Access) -> Self {
        Self {
            access,
            before_stop: None,
            under_way: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Is called, on the endpoint's thread, before the region is asked to stop because an operator
    /// wants it: for a program that has to know that this end is not its sources' own.
    #[must_use]
    pub fn before_stop(mut self, tell: impl Fn() + Send + Sync + 'static) -> Self {
        self.before_stop = Some(Arc::new(tell));
        self
    }

    /// Serves it as [`ADMIN_ENDPOINT`].
    ///
    /// # Errors
    /// As [`serve_as`](Self::serve_as).
    pub async fn serve(self, service: &RpcService) -> Result<RpcServer<Self>, RpcError> {
        self.serve_as(ADMIN_ENDPOINT, service).await
    }

    /// Serves it under another name: for services with more than one region. The endpoint lives
    /// until it is terminated, by what is returned or with its service.
    ///
    /// # Errors
    /// `NameTaken`, and what else [`RpcService::start_server`] says.
    pub async fn serve_as(
        self,
        name: &str,
        service: &RpcService,
    ) -> Result<RpcServer<Self>, RpcError> {
        let server = service.start_server(name, self).await?;
        server.start().await?;
        Ok(server)
    }

    /// Answers by `work`, or that the leadership ended before.
    fn answer<T: 'static>(
        &self,
        work: impl Future<Output = Result<T, AdminRefused>> + 'static,
    ) -> ResponseFuture<Result<T, AdminRefused>> {
        let (access, under_way) = (self.access.clone(), UnderWay::new(&self.under_way));
        let cancelled = CallContext::current().map(|call| call.cancelled());
        Box::pin(async move {
            let _under_way = under_way;
            if !access.leads() {
                return Err(CommandRefused::NotLeading.into());
            }
            let given_up = async {
                match cancelled {
                    Some(cancelled) => cancelled.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // an effect that is there counts, although the region has just ended
                biased;
                done = work => done,
                () = access.leadership_lost() => Err(AdminRefused::LeadershipLost),
                // nobody hears this
                () = given_up => Err(AdminRefused::LeadershipLost),
            }
        })
    }

    fn watching(&self) -> Watching {
        Watching(self.access.coordinator.events())
    }
}

impl Access {
    fn leads(&self) -> bool {
        match &self.token {
            None => true,
            Some(token) => token.borrow().is_some(),
        }
    }

    /// Resolves when the term that leads now is over.
    async fn leadership_lost(&self) {
        let revoked = async {
            let Some(mut token) = self.token.clone() else {
                return std::future::pending().await;
            };
            // a sender that is gone leads no more either
            let _ = token.wait_for(Option::is_none).await;
        };
        tokio::select! {
            () = revoked => {}
            _ = self.coordinator.ended() => {}
        }
    }
}

/// A call that is being answered, for as long as it lives.
struct UnderWay(Arc<watch::Sender<usize>>);

impl UnderWay {
    fn new(count: &Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(Arc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Actor for RegionAdmin {
    type Context = Context<Self>;
}

impl RpcLifecycle for RegionAdmin {
    /// Whoever waits for the region's end shall hear of it although its program ends.
    fn on_stop(&mut self, _: &mut Context<Self>) -> HookFuture<Self> {
        let mut under_way = self.under_way.subscribe();
        Box::pin(wrap_future(async move {
            let answered = under_way.wait_for(|count| *count == 0);
            // what is not answered by then is answered by the endpoint's end
            let _ = tokio::time::timeout(LAST_ANSWERS, answered).await;
            Ok(())
        }))
    }
}

impl fmt::Debug for RegionAdmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionAdmin")
            .field("leads", &self.access.leads())
            .field("coordinator", &self.access.coordinator)
            .finish_non_exhaustive()
    }
}

impl Handler<GetRegion> for RegionAdmin {
    type Result = actix::MessageResult<GetRegion>;

    fn handle(&mut self, _: GetRegion, _: &mut Context<Self>) -> Self::Result {
        actix::MessageResult(RegionReport {
            leads: self.access.leads(),
            status: self.access.coordinator.status(),
        })
    }
}

impl Handler<TakeCut> for RegionAdmin {
    type Result = ResponseFuture<Result<CutTaken, AdminRefused>>;

    fn handle(&mut self, _: TakeCut, _: &mut Context<Self>) -> Self::Result {
        let (coordinator, watching) = (self.access.coordinator.clone(), self.watching());
        self.answer(async move {
            coordinator.cut().await?;
            watching.cut().await
        })
    }
}

impl Handler<ResetRegion> for RegionAdmin {
    type Result = ResponseFuture<Result<ResetDone, AdminRefused>>;

    fn handle(&mut self, reset: ResetRegion, _: &mut Context<Self>) -> Self::Result {
        let (coordinator, watching) = (self.access.coordinator.clone(), self.watching());
        self.answer(async move {
            coordinator.reset(reset.force, reset.reason).await?;
            watching.reset().await
        })
    }
}

impl Handler<PauseSources> for RegionAdmin {
    type Result = ResponseFuture<Result<(), AdminRefused>>;

    fn handle(&mut self, _: PauseSources, _: &mut Context<Self>) -> Self::Result {
        let coordinator = self.access.coordinator.clone();
        self.answer(async move { Ok(coordinator.pause_sources().await?) })
    }
}

impl Handler<ResumeSources> for RegionAdmin {
    type Result = ResponseFuture<Result<(), AdminRefused>>;

    fn handle(&mut self, _: ResumeSources, _: &mut Context<Self>) -> Self::Result {
        let coordinator = self.access.coordinator.clone();
        self.answer(async move { Ok(coordinator.resume_sources().await?) })
    }
}

impl Handler<TakeSavepoint> for RegionAdmin {
    type Result = ResponseFuture<Result<SavepointKept, AdminRefused>>;

    fn handle(
        &mut self,
        TakeSavepoint { name }: TakeSavepoint,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let (coordinator, mut watching) = (self.access.coordinator.clone(), self.watching());
        self.answer(async move {
            coordinator.savepoint(&name).await?;
            let seq = watching.savepoint(&name).await?;
            Ok(SavepointKept { name, seq })
        })
    }
}

impl Handler<RestoreSavepoint> for RegionAdmin {
    type Result = ResponseFuture<Result<ResetDone, AdminRefused>>;

    fn handle(&mut self, restore: RestoreSavepoint, _: &mut Context<Self>) -> Self::Result {
        let (coordinator, watching) = (self.access.coordinator.clone(), self.watching());
        self.answer(async move {
            coordinator.restore_savepoint(restore.name).await?;
            watching.reset().await
        })
    }
}

impl Handler<ForgetSavepoint> for RegionAdmin {
    type Result = ResponseFuture<Result<(), AdminRefused>>;

    fn handle(&mut self, forget: ForgetSavepoint, _: &mut Context<Self>) -> Self::Result {
        let coordinator = self.access.coordinator.clone();
        self.answer(async move { Ok(coordinator.forget_savepoint(forget.name).await?) })
    }
}

impl Handler<StopRegion> for RegionAdmin {
    type Result = ResponseFuture<Result<RegionEnded, AdminRefused>>;

    fn handle(&mut self, stop: StopRegion, _: &mut Context<Self>) -> Self::Result {
        let (coordinator, watching) = (self.access.coordinator.clone(), self.watching());
        let before_stop = self.before_stop.clone().filter(|_| self.access.leads());
        self.answer(async move {
            if let Some(tell) = before_stop {
                tell();
            }
            match stop.savepoint {
                Some(name) => coordinator.stop_with_savepoint(name).await?,
                None => coordinator.stop().await?,
            }
            watching.end().await
        })
    }
}
