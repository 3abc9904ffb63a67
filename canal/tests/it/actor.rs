//! The connector that pushes, on the embedded server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::prelude::*;
use lockkeeper_canal::testing::{CanalServer, Fault, Request, Restart};
use lockkeeper_canal::{
    Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings,
    CanalConnectors, CanalError, CanalNodeAccessStrategy, ClientIdentity, ConnectorEnd,
    ConnectorState, ConnectorStatus, EventType, Filter, GetStatus, Pause, Resume, Stop, WaitForEnd,
};
use lockkeeper_core::status::StatusSource;
use tokio::sync::{mpsc, oneshot, watch};

use crate::contract::{Database as _, Order};
use crate::embedded::Scripted;
use crate::peer::Peer;
use crate::recorder::Recorder;

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(120);

/// What a handler does with its next batches; then it succeeds at once.
enum Script {
    Fail,
    Take(Duration),
    /// Until it is told to go on.
    Wait(oneshot::Receiver<()>),
}

/// Reports the ids that were inserted.
struct Handling {
    script: Arc<Mutex<VecDeque<Script>>>,
    ids: mpsc::UnboundedSender<u64>,
}

impl Actor for Handling {
    type Context = Context<Self>;
}

impl Handler<Batch> for Handling {
    type Result = ResponseFuture<BatchResult>;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> Self::Result {
        for entry in batch.message.entries() {
            let Some(change) = entry.unwrap().row_change().unwrap() else {
                continue;
            };
            if change.event_type() == EventType::Insert {
                for row in change.rows::<Order>() {
                    self.ids.send(row.unwrap().after.unwrap().id).unwrap();
                }
            }
        }
        let script = self.script.lock().unwrap().pop_front();
        Box::pin(async move {
            match script {
                None => Ok(()),
                Some(Script::Fail) => Err("the script says so".into()),
                Some(Script::Take(time)) => {
                    tokio::time::sleep(time).await;
                    Ok(())
                }
                Some(Script::Wait(told)) => Ok(told.await?),
            }
        })
    }
}

/// A server, and a connector that follows it.
struct Lab {
    server: CanalServer,
    database: Scripted,
    connector: Addr<CanalConnector>,
    watch: watch::Receiver<ConnectorStatus>,
    source: Arc<dyn StatusSource>,
    handling: Addr<Handling>,
    ids: mpsc::UnboundedReceiver<u64>,
}

fn settings() -> CanalConnectorSettings {
    CanalConnectorSettings::default()
        .with_filter(Filter::all())
        .with_back_off(Duration::from_millis(5), Duration::from_millis(50))
        .with_reconnect_limit(None)
}

fn builder(address: &str) -> CanalConnectorBuilder {
    CanalConnectorBuilder::new(ClientIdentity::new("example"))
        .address(address)
        .credentials("canal", "secret")
}

fn handling(script: Vec<Script>) -> (Addr<Handling>, mpsc::UnboundedReceiver<u64>) {
    let (ids, seen) = mpsc::unbounded_channel();
    let script = Arc::new(Mutex::new(script.into()));
    (Handling { script, ids }.start(), seen)
}

impl Lab {
    fn new(script: Vec<Script>) -> Self {
        Self::with(script, settings(), |builder| builder)
    }

    fn with(
        script: Vec<Script>,
        settings: CanalConnectorSettings,
        change: impl FnOnce(CanalConnectorBuilder) -> CanalConnectorBuilder,
    ) -> Self {
        let server = CanalServer::builder()
            .destination("example")
            .user("canal", "secret")
            .start()
            .unwrap();
        let database = Scripted::new(server.handle());
        let (handling, ids) = handling(script);
        let simple = change(builder(&server.address().to_string()))
            .build()
            .unwrap();
        let recipient = handling.clone().recipient();
        let connector = CanalConnector::new(simple, settings, recipient).unwrap();
        let (watch, source) = (connector.watch(), connector.status_source());
        Self {
            server,
            database,
            source,
            connector: connector.start(),
            watch,
            handling,
            ids,
        }
    }

    async fn next(&mut self) -> u64 {
        tokio::time::timeout(HANG, self.ids.recv())
            .await
            .expect("a row comes")
            .unwrap()
    }

    async fn expect(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            assert_eq!(self.next().await, id);
        }
    }

    async fn acked(&self, transactions: u64) {
        let handle = self.server.handle();
        handle
            .wait_until(HANG, |seen| seen.acked_transactions >= transactions)
            .await
            .unwrap();
    }

    /// Until it has asked so many times more.
    async fn asks(&self, times: u64) {
        let handle = self.server.handle();
        let before = handle.statistics().gets;
        handle
            .wait_until(HANG, |seen| seen.gets >= before + times)
            .await
            .unwrap();
    }

    async fn subscribed(&self, times: u64) {
        let handle = self.server.handle();
        handle
            .wait_until(HANG, |seen| seen.subscriptions >= times)
            .await
            .unwrap();
    }

    async fn until(&self, what: &str, condition: impl FnMut(&ConnectorStatus) -> bool) {
        let mut watch = self.watch.clone();
        let reached = tokio::time::timeout(HANG, watch.wait_for(condition)).await;
        assert!(
            matches!(reached, Ok(Ok(_))),
            "{what}: {:?}",
            self.watch.borrow()
        );
    }

    async fn status(&self) -> ConnectorStatus {
        self.connector.send(GetStatus).await.unwrap()
    }

    async fn stop(self) {
        let end = tokio::time::timeout(HANG, self.connector.send(Stop))
            .await
            .unwrap();
        assert_eq!(end.unwrap(), ConnectorEnd::Stopped);
        self.server.stop();
    }
}

async fn end(connector: &Addr<CanalConnector>) -> ConnectorEnd {
    tokio::time::timeout(HANG, connector.send(WaitForEnd))
        .await
        .unwrap()
        .unwrap()
}

#[actix_rt::test]
async fn handled_batches_are_acknowledged() {
    let mut lab = Lab::new(Vec::new());
    lab.subscribed(1).await;
    (1..=20).for_each(|id| lab.database.insert(id..=id));
    lab.expect(1..=20).await;
    lab.acked(20).await;
    let status = lab.status().await;
    assert_eq!(status.state, ConnectorState::Streaming);
    assert_eq!((status.connections, status.failed_batches), (1, 0));
    assert!(status.batches >= 1 && status.entries == 40);
    assert!(status.position.is_some() && status.lag().is_some());
    lab.stop().await;
}

#[actix_rt::test]
async fn a_batch_that_was_not_handled_comes_again_with_all_later_ones() {
    let script = vec![Script::Fail, Script::Fail];
    let mut lab = Lab::with(script, settings().with_fetch_size(1), |builder| builder);
    lab.database.insert(1..=1);
    lab.expect([1, 1, 1]).await;
    lab.database.insert(2..=2);
    lab.expect([2]).await;
    lab.acked(2).await;
    assert_eq!(lab.status().await.failed_batches, 2);
    assert_eq!(
        lab.server.handle().statistics().rollbacks,
        3,
        "one belongs to the subscription"
    );
    lab.stop().await;
}

#[actix_rt::test]
async fn with_a_window_the_order_holds_and_nothing_is_lost() {
    let script = (0..30)
        .map(|number| match number % 5 {
            2 => Script::Fail,
            _ => Script::Take(Duration::from_millis(number % 3)),
        })
        .collect();
    let settings = settings().with_fetch_size(1).with_window(4);
    let mut lab = Lab::with(script, settings, |builder| builder);
    (1..=40).for_each(|id| lab.database.insert(id..=id));
    lab.acked(40).await;
    let mut highest = 0;
    while highest < 40 {
        let id = lab.next().await;
        assert!(id <= highest + 1, "{id} came before {}", highest + 1);
        highest = highest.max(id);
    }
    lab.stop().await;
}

#[actix_rt::test]
async fn one_row_at_an_idle_moment_comes_soon_and_without_a_busy_loop() {
    let mut lab = Lab::new(Vec::new());
    lab.database.insert(1..=1);
    lab.expect([1]).await;
    lab.acked(1).await;
    lab.asks(12).await;
    // Idle: the questions have become rare.
    let idle = Instant::now();
    lab.asks(4).await;
    assert!(idle.elapsed() >= Duration::from_millis(150), "a busy loop");
    assert!(lab.status().await.caught_up);
    let began = Instant::now();
    for id in 2.. {
        let committed = Instant::now();
        lab.database.insert(id..=id);
        lab.expect([id]).await;
        let took = committed.elapsed();
        // 100 ms are promised; five times that against a busy machine, which may do something else meanwhile.
        if took < Duration::from_millis(500) {
            break;
        }
        assert!(began.elapsed() < HANG, "{took:?}");
        lab.asks(12).await;
    }
    lab.stop().await;
}

#[actix_rt::test]
async fn a_server_that_is_gone_and_back_is_followed_again() {
    let mut lab = Lab::new(Vec::new());
    lab.database.insert(1..=1);
    lab.expect([1]).await;
    lab.acked(1).await;
    let handle = lab.server.handle();
    handle.stop_listening().unwrap();
    handle.restart(Restart::Graceful);
    lab.until("it backs off", |status| {
        matches!(
            status.state,
            ConnectorState::BackingOff { failures: 3.., .. }
        )
    })
    .await;
    handle.start_listening().unwrap();
    lab.database.insert(2..=2);
    lab.expect([2]).await;
    assert_eq!(lab.status().await.connections, 2);
    lab.stop().await;
}

#[actix_rt::test]
async fn every_fault_of_the_server_ends_in_a_new_connection_and_no_loss() {
    let mut lab = Lab::new(Vec::new());
    let faults = [
        (Request::Get, Fault::Disconnect),
        (Request::Get, Fault::LoseAnswer),
        (
            Request::Get,
            Fault::Garbage(b"\xff\xff\xff\xff".to_vec().into()),
        ),
        (Request::Get, Fault::refuse("something odd")),
        (
            Request::Ack,
            Fault::refuse("ack error , clientId:1001 batchId:1 is not exist"),
        ),
        (Request::Ack, Fault::Disconnect),
        (Request::Get, Fault::Truncate(3)),
        (Request::Subscribe, Fault::Disconnect),
    ];
    let mut highest = 0;
    for (id, (request, fault)) in (1..).zip(faults) {
        lab.server.handle().inject(request, 1, fault);
        if request == Request::Subscribe {
            lab.server.handle().disconnect_all();
        }
        lab.database.insert(id..=id);
        while highest < id {
            let got = lab.next().await;
            assert!(got <= highest + 1, "{got} came before {}", highest + 1);
            highest = highest.max(got);
        }
    }
    lab.acked(8).await;
    lab.stop().await;
}

#[actix_rt::test]
async fn a_slow_handler_keeps_its_connection_and_gets_its_batch_once() {
    // Two thirds of it are what a busy machine may lose.
    let limit = Duration::from_secs(5);
    let script = vec![Script::Take(limit * 2)];
    let mut lab = Lab::with(script, settings(), |builder| {
        builder
            .net_read_timeout(limit)
            .net_write_timeout(limit)
            .request_timeout(limit / 2)
    });
    lab.database.insert(1..=1);
    lab.expect([1]).await;
    lab.acked(1).await;
    lab.database.insert(2..=2);
    lab.expect([2]).await;
    assert_eq!(lab.status().await.connections, 1);
    lab.stop().await;
}

#[actix_rt::test]
async fn paused_it_fetches_nothing_and_resumed_it_goes_on() {
    let settings = settings().with_keep_alive(Duration::from_millis(10));
    let mut lab = Lab::with(Vec::new(), settings, |builder| builder);
    lab.subscribed(1).await;
    lab.connector.send(Pause).await.unwrap();
    lab.until("it pauses", |status| status.state == ConnectorState::Paused)
        .await;
    let seen = lab.server.handle().statistics();
    lab.database.insert(1..=1);
    // It asks whether the server lives, and for nothing else.
    lab.server
        .handle()
        .wait_until(HANG, |now| now.heartbeats >= seen.heartbeats + 5)
        .await
        .unwrap();
    assert_eq!(lab.server.handle().statistics().gets, seen.gets);
    assert!(lab.ids.is_empty());
    lab.connector.send(Resume).await.unwrap();
    lab.expect([1]).await;
    lab.stop().await;
}

#[actix_rt::test]
async fn a_console_pauses_it_says_since_when_and_resumes_it() {
    let mut lab = Lab::new(Vec::new());
    lab.subscribed(1).await;
    let source = &lab.source;
    let act = |action: &'static str| {
        let control = source.control().unwrap();
        let offered = control.actions().into_iter().map(|action| action.name);
        assert_eq!(offered.collect::<Vec<_>>(), [action]);
        control.act(action)
    };
    assert_eq!(source.snapshot().get("paused since"), None);
    act("pause").await.unwrap();
    let paused = |status: &ConnectorStatus| status.state == ConnectorState::Paused;
    lab.until("it pauses", paused).await;
    let shown = source.snapshot();
    assert_eq!(shown.state.as_ref().unwrap().text, "paused");
    assert!(shown.get("paused since").unwrap().as_f64().unwrap() > 1e12);
    assert_eq!(shown.get("caught up"), Some(&false.into()));
    lab.database.insert(1..=1);
    act("resume").await.unwrap();
    lab.expect([1]).await;
    assert_eq!(lab.source.snapshot().get("paused since"), None);
    lab.connector.send(Stop).await.unwrap();
    assert!(lab.source.control().is_none(), "it has ended");
}

#[actix_rt::test]
async fn stopping_waits_for_the_handler_and_its_acknowledgement() {
    let mut lab = Lab::new(vec![Script::Take(Duration::from_millis(100))]);
    lab.database.insert(1..=1);
    lab.expect([1]).await;
    assert_eq!(
        lab.connector.send(Stop).await.unwrap(),
        ConnectorEnd::Stopped
    );
    assert_eq!(lab.server.handle().statistics().acked_transactions, 1);
}

#[actix_rt::test]
async fn stopping_does_not_wait_for_ever() {
    let settings = settings().with_stop_timeout(Duration::from_millis(50));
    let mut lab = Lab::with(vec![Script::Take(HANG * 10)], settings, |builder| builder);
    lab.database.insert(1..=1);
    lab.expect([1]).await;
    let end = tokio::time::timeout(HANG, lab.connector.send(Stop))
        .await
        .unwrap();
    assert_eq!(end.unwrap(), ConnectorEnd::Stopped);
    assert_eq!(lab.server.handle().statistics().acked_transactions, 0);
}

#[actix_rt::test]
async fn a_wrong_password_ends_at_once() {
    let lab = Lab::with(Vec::new(), settings(), |builder| {
        builder.credentials("canal", "wrong")
    });
    let end = end(&lab.connector).await;
    assert!(
        matches!(end, ConnectorEnd::Failed(CanalError::AuthFailed { .. })),
        "{end:?}"
    );
    assert_eq!(lab.server.handle().statistics().connections, 1);
}

#[actix_rt::test]
async fn connecting_again_is_given_up_at_the_limit() {
    let (handling, _ids) = handling(Vec::new());
    let simple = builder(&Peer::nobody().await).build().unwrap();
    let settings = settings().with_reconnect_limit(Some(3));
    let connector = CanalConnector::new(simple, settings, handling.recipient())
        .unwrap()
        .start();
    let end = end(&connector).await;
    assert!(
        matches!(end, ConnectorEnd::Failed(CanalError::Unreachable(_))),
        "{end:?}"
    );
    // the status stays readable
    let status = connector.send(GetStatus).await.unwrap();
    assert_eq!(status.state, ConnectorState::Ended(end));
}

#[actix_rt::test]
async fn a_handler_that_is_gone_ends_the_connector_without_an_ack() {
    #[derive(Message)]
    #[rtype(result = "()")]
    struct Leave;
    impl Handler<Leave> for Handling {
        type Result = ();
        fn handle(&mut self, _: Leave, context: &mut Self::Context) {
            context.stop();
        }
    }
    let lab = Lab::new(Vec::new());
    lab.handling.send(Leave).await.unwrap();
    lab.database.insert(1..=1);
    assert_eq!(end(&lab.connector).await, ConnectorEnd::RecipientClosed);
    assert_eq!(lab.server.handle().statistics().acked_transactions, 0);
}

#[actix_rt::test]
async fn settings_that_cannot_work_are_refused() {
    let (handling, _ids) = handling(Vec::new());
    for settings in [
        settings().with_window(0),
        settings().with_fetch_size(0),
        settings().with_longest_poll_pause(Duration::ZERO),
    ] {
        let simple = builder("127.0.0.1:1").build().unwrap();
        let refused = CanalConnector::new(simple, settings, handling.clone().recipient());
        assert!(matches!(refused, Err(CanalError::InvalidArgument(_))));
    }
}

#[actix_rt::test]
async fn a_panic_within_the_connectors_task_ends_the_connection_and_not_the_connector() {
    /// Panics when it is asked for the first time.
    #[derive(Debug)]
    struct Panics(String, bool);
    impl CanalNodeAccessStrategy for Panics {
        fn current_node(&self) -> Option<String> {
            None
        }
        fn next_node(&mut self) -> Result<String, CanalError> {
            assert!(std::mem::replace(&mut self.1, true), "the first time");
            Ok(self.0.clone())
        }
        fn node_count(&self) -> usize {
            1
        }
    }
    let mut lab = Lab::with(Vec::new(), settings(), |builder| builder);
    assert_eq!(
        lab.connector.send(Stop).await.unwrap(),
        ConnectorEnd::Stopped
    );
    let strategy = Panics(lab.server.address().to_string(), false);
    let simple = builder("").access_strategy(strategy).build().unwrap();
    let recipient = lab.handling.clone().recipient();
    let connector = CanalConnector::new(simple, settings(), recipient).unwrap();
    lab.watch = connector.watch();
    lab.connector = connector.start();
    lab.database.insert(1..=1);
    lab.expect([1]).await;
    assert_eq!(lab.status().await.panics, 1);
    lab.stop().await;
}

#[actix_rt::test]
async fn each_destination_has_a_connector_of_its_own() {
    let server = CanalServer::builder()
        .destination("one")
        .destination("two")
        .start()
        .unwrap();
    let (handling, mut ids) = handling(Vec::new());
    let mut sources = Vec::new();
    let mut make = |destination: &str| {
        let simple = CanalConnectorBuilder::new(ClientIdentity::new(destination))
            .address(server.address().to_string())
            .build()?;
        let connector = CanalConnector::new(simple, settings(), handling.clone().recipient())?;
        sources.push(connector.status_source());
        Ok(connector)
    };
    let twice = CanalConnectors::start(["one", "one"], &mut make).unwrap_err();
    assert!(matches!(twice, CanalError::InvalidArgument(_)), "{twice}");
    let connectors = CanalConnectors::start(["one", "two"], &mut make).unwrap();
    let two = Scripted::new(server.destination("two").unwrap());
    // The other one stands still.
    server.destination("one").unwrap().set_running(false);
    two.insert(1..=2);
    for id in [1, 2] {
        let got = tokio::time::timeout(HANG, ids.recv()).await.unwrap();
        assert_eq!(got, Some(id));
    }
    server.destination("one").unwrap().set_running(true);
    Scripted::new(server.destination("one").unwrap()).insert(7..=7);
    let got = tokio::time::timeout(HANG, ids.recv()).await.unwrap();
    assert_eq!(got, Some(7));
    let statuses = connectors.statuses().await;
    assert_eq!(statuses.keys().collect::<Vec<_>>(), ["one", "two"]);
    let source = sources.last().unwrap();
    assert_eq!(source.name(), "canal two");
    assert_eq!(source.snapshot().get("batches"), Some(&1_u64.into()));
    let ends = connectors.stop().await;
    assert!(
        ends.values().all(|end| *end == ConnectorEnd::Stopped),
        "{ends:?}"
    );
    assert_eq!(source.snapshot().state.unwrap().text, "stopped");
}

#[test]
fn what_it_does_is_measured_by_destination() {
    let recorder = Recorder::default();
    let count = |name: &str| recorder.value(&format!("lockkeeper_canal_{name}_total example"));
    let gauge = |name: &str| format!("lockkeeper_canal_{name} example");
    metrics::with_local_recorder(&recorder, || {
        actix_rt::System::new().block_on(async {
            // Gauges are set so often while a handler works.
            let settings = settings().with_keep_alive(Duration::from_millis(2));
            let (go_on, told) = oneshot::channel();
            let script = vec![Script::Wait(told), Script::Fail];
            let mut lab = Lab::with(script, settings, |builder| builder);
            lab.database.insert(1..=5);
            lab.expect(1..=5).await;
            let oldest = gauge("oldest_unacknowledged_seconds");
            recorder.until(&oldest, |age| age > 0.0).await;
            go_on.send(()).unwrap();
            lab.acked(1).await;
            recorder.until(&oldest, |age| age == 0.0).await;
            assert_eq!(count("rows"), 5.0);
            // It fails once, and comes again.
            lab.database.insert(6..=8);
            lab.expect((6..=8).chain(6..=8)).await;
            lab.acked(2).await;
            assert_eq!(recorder.value(&gauge("streaming")), 1.0);
            let outstanding = gauge("outstanding_batches");
            recorder.until(&outstanding, |batches| batches == 0.0).await;
            recorder
                .until(&gauge("lag_seconds"), |lag| lag == 0.0)
                .await;
            let stopped = lab.connector.send(Stop).await.unwrap();
            assert_eq!(stopped, ConnectorEnd::Stopped);
            lab.server.stop();
        });
    });
    assert_eq!(count("rows"), 5.0 + 3.0 + 3.0);
    assert_eq!(count("rollbacks"), 1.0);
    assert_eq!(count("connections"), 1.0);
    assert_eq!(count("undecodable_rows") + count("stalls"), 0.0);
    let (batches, acknowledged) = (count("batches"), count("acknowledged_batches"));
    assert!(
        acknowledged >= 2.0 && batches > acknowledged,
        "{batches} {acknowledged}"
    );
    assert!(count("entries") > batches);
    assert!(recorder.value(&gauge("position_time_seconds")) > 1_600_000_000.0);
    assert_eq!(recorder.value(&gauge("streaming")), 0.0, "it has ended");
}
