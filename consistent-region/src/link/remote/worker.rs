//! The worker's end: the way to whoever leads, and an endpoint for notices.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix::{Actor, Context, Handler, Message};
use futures_util::future::BoxFuture;
use lockkeeper_core::gateway::Carries;
use lockkeeper_core::{FencedGateway, RpcAddress, RpcEndpoint, RpcError, RpcService};
use lockkeeper_fencing::election::LeaderInformation;
use lockkeeper_fencing::retrieval::LeaderRetrieval;

use super::{
    CoordinatorGateway, PushNotice, RegisterWorker, ReportProgress, WorkerGateway, WorkerHeartbeat,
};
use crate::link::local::{WorkerInbox, WorkerInboxSender};
use crate::link::{CoordinatorLink, LinkError, WorkerLink};
use crate::protocol::{Heartbeat, HeartbeatAnswer, Progress, Refusal, Register, Registered};

/// A worker's way to the coordinator that leads now, in whatever process.
///
/// Each call goes to the leader that is known at that moment, under its token. Where none is known,
/// and where the leader does not answer, the call is [`LinkError::Unreachable`]: the worker says it
/// again, and finds the next leader.
pub struct RemoteLink {
    service: RpcService,
    retrieval: LeaderRetrieval,
    call_timeout: Duration,
    connected: Mutex<Option<Connected>>,
}

#[derive(Clone)]
struct Connected {
    leader: LeaderInformation,
    gateway: FencedGateway<CoordinatorGateway>,
}

impl RemoteLink {
    /// Calls through `service` whoever `retrieval` shows; each call may take `call_timeout`.
    #[must_use]
    pub fn new(service: RpcService, retrieval: LeaderRetrieval, call_timeout: Duration) -> Self {
        Self {
            service,
            retrieval,
            call_timeout,
            connected: Mutex::new(None),
        }
    }

    async fn ask<M, T>(&self, message: M) -> Result<T, LinkError>
    where
        CoordinatorGateway: Carries<M>,
        M: Message<Result = Result<T, Refusal>> + Send + 'static,
        T: Send + 'static,
    {
        let gateway = self.gateway().await?;
        match gateway.send(message).timeout(self.call_timeout).await {
            Ok(answer) => Ok(answer?),
            Err(error) => {
                *self.connected() = None;
                Err(unreachable(&error))
            }
        }
    }

    async fn gateway(&self) -> Result<FencedGateway<CoordinatorGateway>, LinkError> {
        let nobody = || LinkError::Unreachable("no leader is known".to_owned());
        let leader = self.retrieval.current().ok_or_else(nobody)?;
        if let Some(connected) = self.connected().clone()
            && connected.leader == leader
        {
            return Ok(connected.gateway);
        }
        let address: RpcAddress = leader
            .address
            .parse()
            .map_err(|error| unreachable(&error))?;
        let gateway = self.service.connect_fenced(&address, leader.token).await;
        let gateway = gateway.map_err(|error| unreachable(&error))?;
        *self.connected() = Some(Connected {
            leader,
            gateway: gateway.clone(),
        });
        Ok(gateway)
    }

    fn connected(&self) -> std::sync::MutexGuard<'_, Option<Connected>> {
        self.connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreachable(error: &RpcError) -> LinkError {
    LinkError::Unreachable(error.to_string())
}

impl CoordinatorLink for RemoteLink {
    fn register(&self, register: Register) -> BoxFuture<'_, Result<Registered, LinkError>> {
        Box::pin(self.ask(RegisterWorker(register)))
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> BoxFuture<'_, Result<HeartbeatAnswer, LinkError>> {
        Box::pin(self.ask(WorkerHeartbeat(heartbeat)))
    }

    fn progress(&self, progress: Progress) -> BoxFuture<'_, Result<(), LinkError>> {
        Box::pin(self.ask(ReportProgress(progress)))
    }
}

impl fmt::Debug for RemoteLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLink")
            .field("leader", &self.retrieval.current())
            .finish_non_exhaustive()
    }
}

/// Puts the notices that arrive for a worker into its inbox.
#[derive(Debug, RpcEndpoint)]
#[rpc(gateways(WorkerGateway))]
pub struct NoticeEndpoint {
    inbox: WorkerInboxSender,
}

impl NoticeEndpoint {
    /// An endpoint, and the inbox that it fills.
    #[must_use]
    pub fn new() -> (Self, WorkerInbox) {
        let (sender, inbox) = WorkerInbox::channel();
        (Self { inbox: sender }, inbox)
    }
}

impl Actor for NoticeEndpoint {
    type Context = Context<Self>;
}

impl Handler<PushNotice> for NoticeEndpoint {
    type Result = ();

    fn handle(&mut self, PushNotice(notice): PushNotice, _: &mut Context<Self>) {
        self.inbox.push(notice);
    }
}
