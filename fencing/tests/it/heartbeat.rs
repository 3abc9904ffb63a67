//! The actor of heartbeats, over gateways to endpoints of the same process.

use std::time::Duration;

use actix::prelude::*;
use lockkeeper_core::prelude::*;
use lockkeeper_core::{RpcError, RpcErrorKind};
use lockkeeper_fencing::heartbeat::{
    GetHeartbeats, Heard, HeartbeatEvent, HeartbeatOptions, Heartbeats, Monitor, Unmonitor,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(50);
/// So long that nobody who answers is silent for it, however busy the machine is.
const LONG: Duration = Duration::from_secs(600);

type Event = HeartbeatEvent<&'static str, u64>;

#[derive(Message, Serialize, Deserialize, Clone, Debug)]
#[rtype(result = "u64")]
struct Beat {
    round: u64,
}

rpc_gateway! {
    /// Answers with its load.
    WorkerGateway("test.Worker", version = 1) { Beat }
}

#[derive(RpcEndpoint)]
#[rpc(gateways(WorkerGateway))]
struct Worker;

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<Beat> for Worker {
    type Result = u64;

    fn handle(&mut self, Beat { round }: Beat, _: &mut Context<Self>) -> u64 {
        round * 10
    }
}

/// The endpoint that is told.
struct Told(UnboundedSender<Event>);

impl Actor for Told {
    type Context = Context<Self>;
}

impl Handler<Event> for Told {
    type Result = ();

    fn handle(&mut self, event: Event, _: &mut Context<Self>) {
        let _ = self.0.send(event);
    }
}

fn heartbeats(
    timeout: Duration,
) -> (
    Addr<Heartbeats<&'static str, u64>>,
    UnboundedReceiver<Event>,
) {
    let (sender, events) = unbounded_channel();
    let options = HeartbeatOptions::default().with_times(INTERVAL, timeout);
    let told = Told(sender).start().recipient();
    let heartbeats = Heartbeats::new(options, told).unwrap();
    (heartbeats.start(), events)
}

async fn next(events: &mut UnboundedReceiver<Event>) -> Event {
    let next = tokio::time::timeout(LIMIT, events.recv());
    next.await.unwrap().unwrap()
}

async fn worker(service: &RpcService) -> (RpcServer<Worker>, Gateway<WorkerGateway>) {
    let server = service.start_server("worker", Worker).await.unwrap();
    server.start().await.unwrap();
    let address = server.address();
    let gateway = service.connect::<WorkerGateway>(&address).await.unwrap();
    (server, gateway)
}

fn asking(name: &'static str, gateway: Gateway<WorkerGateway>) -> Monitor<&'static str, u64> {
    Monitor::asking(name, move |round, limit| {
        let gateway = gateway.clone();
        async move { gateway.send(Beat { round }).timeout(limit).await }
    })
}

#[actix::test]
async fn an_endpoint_answers_each_interval_with_its_payload() {
    let service = RpcService::builder().build().unwrap();
    let (_server, gateway) = worker(&service).await;
    let (heartbeats, mut events) = heartbeats(LONG);
    heartbeats.send(asking("worker", gateway)).await.unwrap();
    for _ in 0..3 {
        let Event::Beat { target, payload } = next(&mut events).await else {
            panic!("no beat")
        };
        assert_eq!((target, payload % 10), ("worker", 0));
    }
    let state = heartbeats.send(GetHeartbeats::new()).await.unwrap();
    assert!(
        matches!(state.targets.get("worker"), Some(Some(_))),
        "{state:?}"
    );
}

#[actix::test]
async fn an_endpoint_that_has_ended_is_unreachable_once() {
    let service = RpcService::builder().build().unwrap();
    let (server, gateway) = worker(&service).await;
    let (heartbeats, mut events) = heartbeats(LONG);
    heartbeats.send(asking("worker", gateway)).await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Beat { .. }));
    server.terminate().await.unwrap();
    let ended = loop {
        match next(&mut events).await {
            Event::Beat { .. } => {}
            other => break other,
        }
    };
    assert_eq!(ended, Event::Unreachable { target: "worker" });
    let state = heartbeats.send(GetHeartbeats::new()).await.unwrap();
    assert!(state.targets.is_empty(), "{state:?}");
}

/// Also where each call's own time-out comes first: that is no sign of an unreachable process.
#[actix::test]
async fn a_target_that_does_not_answer_times_out_once_and_its_late_answer_is_not_told() {
    let (heartbeats, mut events) = heartbeats(INTERVAL * 4);
    let (answer, mut answers) = tokio::sync::watch::channel(false);
    answers.mark_unchanged();
    let silent = Monitor::asking("silent", move |_, _| {
        let mut answers = answers.clone();
        async move {
            // At last, long after it was given up.
            let _ = answers.wait_for(|answer| *answer).await;
            Ok(1)
        }
    });
    let slow = Monitor::asking("slow", |_, _| async {
        Err(RpcError::new(RpcErrorKind::Timeout, "as always"))
    });
    heartbeats.send(silent).await.unwrap();
    heartbeats.send(slow).await.unwrap();
    let mut timed_out = [next(&mut events).await, next(&mut events).await];
    timed_out.sort_by_key(|event| format!("{event:?}"));
    let silence = |target| Event::TimedOut { target };
    assert_eq!(timed_out, [silence("silent"), silence("slow")]);
    answer.send(true).unwrap();
    // Whatever is told of those answers is told before this one's.
    let living = Monitor::asking("living", |_, _| async { Ok(2) });
    heartbeats.send(living).await.unwrap();
    let target = "living";
    let beat = Event::Beat { target, payload: 2 };
    assert_eq!(next(&mut events).await, beat);
}

#[actix::test]
async fn a_target_that_asks_by_itself_times_out_when_it_asks_no_more() {
    let (heartbeats, mut events) = heartbeats(INTERVAL * 4);
    let listening = || Monitor::<_, u64>::listening("leader");
    heartbeats.send(listening()).await.unwrap();
    heartbeats.send(Heard("leader")).await.unwrap();
    heartbeats.send(Heard("stranger")).await.unwrap();
    let target = "leader";
    assert_eq!(next(&mut events).await, Event::TimedOut { target });
}

#[actix::test]
async fn nothing_is_told_of_a_target_that_is_monitored_no_more() {
    let (heartbeats, mut events) = heartbeats(INTERVAL * 4);
    let (asked, mut asks) = unbounded_channel();
    let silent = Monitor::asking("silent", move |round, _| {
        let _ = asked.send(round);
        std::future::pending::<Result<u64, RpcError>>()
    });
    heartbeats.send(silent).await.unwrap();
    assert_eq!(asks.recv().await, Some(1));
    heartbeats.send(Unmonitor("silent")).await.unwrap();
    let other = Monitor::<_, u64>::listening("other");
    heartbeats.send(other).await.unwrap();
    // It would have been told before.
    let target = "other";
    assert_eq!(next(&mut events).await, Event::TimedOut { target });
    let state = heartbeats.send(GetHeartbeats::new()).await.unwrap();
    assert!(state.targets.is_empty(), "{state:?}");
}

/// The thread of the endpoint is stuck for longer than the time-out: nobody is declared dead for it, and
/// that it was is seen.
#[actix::test]
async fn a_thread_that_was_stuck_declares_nobody_dead_and_its_lateness_is_visible() {
    let (heartbeats, mut events) = heartbeats(INTERVAL * 4);
    let living = Monitor::asking("living", |_, _| async { Ok(1) });
    heartbeats.send(living).await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Beat { .. }));
    // A handler that blocks, on purpose.
    let stuck = INTERVAL * 12;
    let began = std::time::Instant::now();
    while began.elapsed() < stuck {
        std::hint::spin_loop();
    }
    // The first thing that is told afterwards is a beat, or one that was under way.
    assert!(matches!(next(&mut events).await, Event::Beat { .. }));
    let state = heartbeats.send(GetHeartbeats::new()).await.unwrap();
    assert!(state.targets.contains_key("living"), "{state:?}");
    assert!(state.largest_lateness >= INTERVAL, "{state:?}");
}
