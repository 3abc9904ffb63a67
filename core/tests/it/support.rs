//! An endpoint that does what it is told, and a System to run it in.

use std::{sync::Arc, time::Duration};

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};

/// Against a hang; never a pass mark.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Runs a test on an actix System, with a limit.
pub fn run<F: Future>(test: F) -> F::Output {
    System::new().block_on(async { tokio::time::timeout(LIMIT, test).await.unwrap() })
}

pub fn service() -> RpcService {
    RpcService::builder().build().unwrap()
}

#[derive(Message, Serialize, Deserialize, Clone, Debug)]
#[rtype(result = "i64")]
pub struct Add(pub i64);

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Result<i64, String>")]
pub struct Divide(pub i64);

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "Option<i64>")]
pub struct Nothing;

#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct Panic;

/// Panics in a future of the actor.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct PanicLater;

/// Answers when the gate is opened; tells `events` what becomes of it.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "i64")]
pub struct Wait;

/// The same in a future that is detached from the actor.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "i64")]
pub struct WaitDetached;

/// Holds the endpoint's thread until the channel speaks or closes.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Block(pub std::sync::mpsc::Receiver<()>);

/// Adds to the counter of somebody else.
#[derive(Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct ReplyTo(pub GatewayRef<AddGateway>, pub i64);

/// Brings the very same value back.
#[derive(Message)]
#[rtype(result = "Arc<str>")]
pub struct Same(pub Arc<str>);

rpc_gateway! {
    /// What the test endpoint can be asked.
    pub TestGateway("test.Test", version = 1) {
        Add, Divide, Nothing, Panic, PanicLater, Wait, WaitDetached, ReplyTo, local Block, local Same,
    }
}

rpc_gateway! {
    /// Only a part of it.
    pub AddGateway("test.Add", version = 3) { Add }
}

rpc_gateway! {
    /// The first one in a version that nobody serves.
    pub NewerGateway("test.Test", version = 2) { Add }
}

rpc_gateway! {
    /// What nobody serves.
    pub OtherGateway("test.Other", version = 1) { Add }
}

rpc_gateway! {
    /// For the leader only.
    pub fenced LeaderGateway("test.Leader", version = 1) { Add, Wait, WaitDetached, local Block }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Started,
    Resumed,
    Stopped,
    Waiting,
    Cancelled,
    Dropped,
}

/// What the test holds of the endpoint.
#[derive(Clone)]
pub struct Hands {
    pub gate: Arc<Notify>,
    pub seen: mpsc::UnboundedSender<Seen>,
    pub service: Option<RpcService>,
}

pub struct Body {
    pub total: i64,
    pub hands: Hands,
    pub fail_start: bool,
    pub fail_stop: bool,
    /// `on_stop` waits for the gate.
    pub slow_stop: bool,
}

pub fn body() -> (Body, Hands, mpsc::UnboundedReceiver<Seen>) {
    let (seen, events) = mpsc::unbounded_channel();
    let hands = Hands {
        gate: Arc::new(Notify::new()),
        seen,
        service: None,
    };
    let body = Body {
        total: 0,
        hands: hands.clone(),
        fail_start: false,
        fail_stop: false,
        slow_stop: false,
    };
    (body, hands, events)
}

pub struct Drops(Hands);

impl Drop for Drops {
    fn drop(&mut self) {
        let _ = self.0.seen.send(Seen::Dropped);
    }
}

impl Body {
    fn wait(&self) -> impl Future<Output = i64> + use<> {
        let hands = self.hands.clone();
        let context = CallContext::current().unwrap();
        async move {
            let _drops = Drops(hands.clone());
            let _ = hands.seen.send(Seen::Waiting);
            let watch = hands.clone();
            let cancelled = context.cancelled();
            actix::spawn(async move {
                cancelled.await;
                let _ = watch.seen.send(Seen::Cancelled);
            });
            hands.gate.notified().await;
            7
        }
    }
}

macro_rules! handlers {
    ($actor:ident) => {
        impl Actor for $actor {
            type Context = Context<Self>;
        }

        impl Handler<Add> for $actor {
            type Result = i64;

            fn handle(&mut self, Add(n): Add, _: &mut Context<Self>) -> i64 {
                self.0.total += n;
                self.0.total
            }
        }

        impl Handler<Wait> for $actor {
            type Result = ResponseActFuture<Self, i64>;

            fn handle(&mut self, _: Wait, _: &mut Context<Self>) -> Self::Result {
                Box::pin(self.0.wait().into_actor(self))
            }
        }

        impl Handler<WaitDetached> for $actor {
            type Result = ResponseFuture<i64>;

            fn handle(&mut self, _: WaitDetached, _: &mut Context<Self>) -> Self::Result {
                Box::pin(self.0.wait())
            }
        }

        impl Handler<Block> for $actor {
            type Result = ();

            fn handle(&mut self, Block(until): Block, _: &mut Context<Self>) {
                let _ = until.recv_timeout(LIMIT);
            }
        }

        impl RpcLifecycle for $actor {
            fn on_start(&mut self, _: &mut Context<Self>) -> HookFuture<Self> {
                let _ = self.0.hands.seen.send(Seen::Started);
                hook_done(if self.0.fail_start {
                    Err("no disk".into())
                } else {
                    Ok(())
                })
            }

            fn on_resume(&mut self, _: &mut Context<Self>) -> HookFuture<Self> {
                let _ = self.0.hands.seen.send(Seen::Resumed);
                hook_done(Ok(()))
            }

            fn on_stop(&mut self, _: &mut Context<Self>) -> HookFuture<Self> {
                let hands = self.0.hands.clone();
                let _ = hands.seen.send(Seen::Stopped);
                let (slow, fails) = (self.0.slow_stop, self.0.fail_stop);
                Box::pin(
                    async move {
                        if slow {
                            hands.gate.notified().await;
                        }
                        if fails { Err("no disk".into()) } else { Ok(()) }
                    }
                    .into_actor(self),
                )
            }
        }
    };
}

#[derive(RpcEndpoint)]
#[rpc(gateways(TestGateway, AddGateway), lifecycle)]
pub struct Endpoint(pub Body);
handlers!(Endpoint);

impl Handler<Divide> for Endpoint {
    type Result = Result<i64, String>;

    fn handle(&mut self, Divide(by): Divide, _: &mut Context<Self>) -> Self::Result {
        self.0
            .total
            .checked_div(by)
            .ok_or_else(|| "divided by zero".into())
    }
}

impl Handler<Nothing> for Endpoint {
    type Result = Option<i64>;

    fn handle(&mut self, _: Nothing, _: &mut Context<Self>) -> Option<i64> {
        None
    }
}

impl Handler<Panic> for Endpoint {
    type Result = ();

    fn handle(&mut self, _: Panic, _: &mut Context<Self>) {
        panic!("told to")
    }
}

impl Handler<PanicLater> for Endpoint {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, _: PanicLater, _: &mut Context<Self>) -> Self::Result {
        Box::pin(async { panic!("told to, later") }.into_actor(self))
    }
}

impl Handler<ReplyTo> for Endpoint {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, ReplyTo(to, n): ReplyTo, _: &mut Context<Self>) -> Self::Result {
        let service = self.0.hands.service.clone();
        Box::pin(async move {
            let gateway = service.unwrap().connect_ref(&to).await.unwrap();
            gateway.send(Add(n)).await.unwrap();
        })
    }
}

impl Handler<Same> for Endpoint {
    type Result = MessageResult<Same>;

    fn handle(&mut self, Same(value): Same, _: &mut Context<Self>) -> Self::Result {
        MessageResult(value)
    }
}

#[derive(RpcEndpoint)]
#[rpc(
    gateways(LeaderGateway),
    unfenced_gateways(AddGateway),
    fenced,
    lifecycle
)]
pub struct Leader(pub Body);
handlers!(Leader);

#[derive(RpcEndpoint)]
#[rpc(gateways(SerialGateway), serial, lifecycle)]
pub struct Serial(pub Body);
handlers!(Serial);

rpc_gateway! {
    /// One call after the other.
    pub SerialGateway("test.Serial", version = 1) { Add, Wait }
}

/// A started endpoint, its gateway and the test's hands.
pub struct Setup {
    pub service: RpcService,
    pub server: RpcServer<Endpoint>,
    pub gateway: Gateway<TestGateway>,
    pub hands: Hands,
    pub seen: mpsc::UnboundedReceiver<Seen>,
}

pub async fn started() -> Setup {
    started_on(service()).await
}

pub async fn started_on(service: RpcService) -> Setup {
    let (mut body, hands, mut seen) = body();
    body.hands.service = Some(service.clone());
    let server = service.start_server("test", Endpoint(body)).await.unwrap();
    server.start().await.unwrap();
    assert_eq!(seen.recv().await, Some(Seen::Started));
    let gateway = service
        .connect::<TestGateway>(&server.address())
        .await
        .unwrap();
    Setup {
        service,
        server,
        gateway,
        hands,
        seen,
    }
}

pub fn kind<T: std::fmt::Debug>(result: Result<T, RpcError>) -> RpcErrorKind {
    result.unwrap_err().kind()
}
