//! The coordinator's end: the endpoint that workers call, and the way back to each of them.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, ResponseFuture};
use lockkeeper_core::{Gateway, RpcAddress, RpcEndpoint, RpcError, RpcService};
use tokio::sync::{mpsc, oneshot};

use super::{
    CoordinatorGateway, PushNotice, RegisterWorker, ReportProgress, WorkerGateway, WorkerHeartbeat,
};
use crate::link::WorkerLink;
use crate::link::local::{CoordinatorRequest, LocalCoordinator, WORKER_INBOX};
use crate::protocol::{HeartbeatAnswer, Notice, Refusal, Registered};

/// A push that takes longer has not arrived: a heartbeat brings the notice.
const PUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Hands the requests of workers in other processes to the coordinator of this one.
#[derive(RpcEndpoint)]
#[rpc(gateways(CoordinatorGateway), fenced)]
pub(crate) struct CoordinatorEndpoint {
    way: LocalCoordinator,
    service: RpcService,
}

impl CoordinatorEndpoint {
    pub(crate) fn new(way: LocalCoordinator, service: RpcService) -> Self {
        Self { way, service }
    }

    /// Hands a request over and waits for its answer. A coordinator that has ended leads nothing.
    fn ask<T: 'static>(
        &self,
        request: CoordinatorRequest,
        answered: oneshot::Receiver<Result<T, Refusal>>,
    ) -> ResponseFuture<Result<T, Refusal>> {
        let way = self.way.clone();
        Box::pin(async move {
            if way.request(request).await.is_err() {
                return Err(Refusal::NotLeading);
            }
            answered.await.unwrap_or(Err(Refusal::NotLeading))
        })
    }
}

impl Actor for CoordinatorEndpoint {
    type Context = Context<Self>;
}

impl Handler<RegisterWorker> for CoordinatorEndpoint {
    type Result = ResponseFuture<Result<Registered, Refusal>>;

    fn handle(
        &mut self,
        RegisterWorker(register): RegisterWorker,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let (answer, answered) = oneshot::channel();
        let link = Arc::new(Pusher::start(
            self.service.clone(),
            register.address.clone(),
        ));
        self.ask(
            CoordinatorRequest::Register {
                register,
                link,
                answer,
            },
            answered,
        )
    }
}

impl Handler<WorkerHeartbeat> for CoordinatorEndpoint {
    type Result = ResponseFuture<Result<HeartbeatAnswer, Refusal>>;

    fn handle(
        &mut self,
        WorkerHeartbeat(heartbeat): WorkerHeartbeat,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let (answer, answered) = oneshot::channel();
        self.ask(
            CoordinatorRequest::Heartbeat { heartbeat, answer },
            answered,
        )
    }
}

impl Handler<ReportProgress> for CoordinatorEndpoint {
    type Result = ResponseFuture<Result<(), Refusal>>;

    fn handle(
        &mut self,
        ReportProgress(progress): ReportProgress,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let (answer, answered) = oneshot::channel();
        self.ask(CoordinatorRequest::Progress { progress, answer }, answered)
    }
}

/// Sends notices to one worker, one after the other, for as long as its registration is kept.
struct Pusher {
    notices: mpsc::Sender<Notice>,
}

impl Pusher {
    fn start(service: RpcService, address: String) -> Self {
        let (sender, notices) = mpsc::channel(WORKER_INBOX);
        actix_rt::spawn(push_all(service, address, notices));
        Self { notices: sender }
    }
}

impl WorkerLink for Pusher {
    fn push(&self, notice: Notice) {
        // No room: the next heartbeat brings the notice.
        let _ = self.notices.try_send(notice);
    }
}

async fn push_all(service: RpcService, address: String, mut notices: mpsc::Receiver<Notice>) {
    let mut gateway: Option<Gateway<WorkerGateway>> = None;
    while let Some(notice) = notices.recv().await {
        if let Err(error) = push(&service, &address, &mut gateway, notice).await {
            tracing::debug!(address, %error, "a notice was not pushed; a heartbeat will bring it");
            gateway = None;
        }
    }
}

async fn push(
    service: &RpcService,
    address: &str,
    gateway: &mut Option<Gateway<WorkerGateway>>,
    notice: Notice,
) -> Result<(), RpcError> {
    let connected = match gateway {
        Some(connected) => connected,
        None => {
            let address: RpcAddress = address.parse()?;
            gateway.insert(service.connect(&address).await?)
        }
    };
    connected
        .send(PushNotice(notice))
        .timeout(PUSH_TIMEOUT)
        .await
}
