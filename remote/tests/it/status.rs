//! What a console and a recorder of metrics see of connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use lockkeeper_core::prelude::*;
use lockkeeper_core::status::{StatusSnapshot, StatusValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

fn connections(service: &RpcService) -> StatusSnapshot {
    let sources = service.status().sources();
    let source = sources
        .iter()
        .find(|source| source.name().starts_with("connections of "));
    source.unwrap().snapshot()
}

#[actix::test]
async fn connections_and_refused_strangers_are_shown() {
    let (one, server, two) = pair().await;
    assert_eq!(
        connections(&one).get("connections"),
        Some(&StatusValue::Count(0))
    );
    let counter = two.connect(&server.address()).await.unwrap();
    assert_answers(&counter).await;
    let shown = connections(&one);
    assert_eq!(shown.get("connections"), Some(&StatusValue::Count(1)));
    let peer = format!("127.0.0.1:{}", two.port().unwrap());
    let row = &shown.tables[0].rows[0];
    assert_eq!(row[..3], [peer.into(), "in use".into(), "the peer".into()]);
    // What was sent is counted a moment after it is there.
    let bytes = |place: usize| connections(&one).tables[0].rows[0][place].as_f64().unwrap();
    soon(async {
        while bytes(4) == 0.0 || bytes(5) == 0.0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let sessions = &connections(&two).tables[1];
    assert_eq!(sessions.rows[0][0], "counter".into());
    for credit in &sessions.rows[0][3..] {
        assert!(credit.as_f64().unwrap() > 0.0, "{sessions:?}");
    }
    // A stranger that got its answer has been counted.
    let mut stranger = tokio::net::TcpStream::connect(("127.0.0.1", one.port().unwrap()))
        .await
        .unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    stranger.read_to_end(&mut Vec::new()).await.unwrap();
    drop(stranger);
    soon(async {
        while connections(&one).get("refused: HTTP").is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Counters and gauges by name, and reason. Other tests share them, so they may be more than what one
/// has caused.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

struct Gauge(Arc<AtomicU64>);

impl metrics::GaugeFn for Gauge {
    fn increment(&self, value: f64) {
        self.0.fetch_add(whole(value), Ordering::Relaxed);
    }

    fn decrement(&self, value: f64) {
        self.0.fetch_sub(whole(value), Ordering::Relaxed);
    }

    fn set(&self, _: f64) {}
}

/// Gauges count connections and calls.
fn whole(value: f64) -> u64 {
    (0_u32..)
        .find(|whole| f64::from(*whole) >= value)
        .unwrap()
        .into()
}

impl Recorder {
    /// The process' one recorder.
    fn installed() -> Self {
        static INSTALLED: LazyLock<Recorder> = LazyLock::new(|| {
            let recorder = Recorder::default();
            metrics::set_global_recorder(recorder.clone()).unwrap();
            recorder
        });
        INSTALLED.clone()
    }

    fn cell(&self, key: &metrics::Key) -> Arc<AtomicU64> {
        let mut name = key.name().to_owned();
        for label in key.labels() {
            name = format!("{name} {}", label.value());
        }
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    #[cfg(feature = "testing")]
    async fn becomes_more_than(&self, name: &str, before: u64) {
        soon(async {
            while self.value(name) <= before {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    fn value(&self, name: &str) -> u64 {
        let counters = self.0.lock().unwrap();
        counters
            .get(name)
            .map_or(0, |value| value.load(Ordering::Relaxed))
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn describe_gauge(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn describe_histogram(
        &self,
        _: metrics::KeyName,
        _: Option<metrics::Unit>,
        _: metrics::SharedString,
    ) {
    }

    fn register_counter(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        metrics::Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::from_arc(Arc::new(Gauge(self.cell(key))))
    }

    fn register_histogram(
        &self,
        _: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

#[actix::test]
async fn bytes_are_counted_in_both_directions() {
    let recorder = Recorder::installed();
    let (_one, server, two) = pair().await;
    let counter = two
        .connect::<CounterGateway>(&server.address())
        .await
        .unwrap();
    let answer = counter.send(Echo(vec![1; 10_000])).await.unwrap();
    assert_eq!(answer.len(), 10_000);
    for name in [
        "lockkeeper_remote_sent_bytes_total",
        "lockkeeper_remote_received_bytes_total",
    ] {
        // There and back: what one side sends the other receives, and counts a moment later.
        soon(async {
            while recorder.value(name) < 20_000 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[cfg(feature = "testing")]
#[actix::test]
async fn connections_calls_reconnects_credits_and_refusals_are_counted() {
    let recorder = Recorder::installed();
    let (one, server, two) = pair().await;
    let reconnects = recorder.value("lockkeeper_remote_reconnects_total");
    let without_credit = recorder.value("lockkeeper_remote_without_credit_total");
    let refused = recorder.value("lockkeeper_remote_refused_total HTTP");
    let proxy = lockkeeper_remote::testing::FaultProxy::start("127.0.0.1", one.port().unwrap())
        .await
        .unwrap();
    let counter = two
        .connect::<CounterGateway>(&proxy.through(&server.address()))
        .await
        .unwrap();
    let held = actix::spawn(counter.send(Hold));
    let in_flight = "lockkeeper_remote_calls_in_flight";
    recorder.becomes_more_than(in_flight, 0).await;
    assert!(recorder.value("lockkeeper_remote_connections") > 0);
    proxy.cut();
    let lost = held.await.unwrap().unwrap_err();
    assert_eq!(lost.kind(), RpcErrorKind::ConnectionLost);
    assert_answers(&counter).await;
    assert!(recorder.value("lockkeeper_remote_reconnects_total") > reconnects);
    // More than all credit, while nothing of it can come back.
    proxy.half_open(true);
    while counter.try_send(Add(1)).is_ok() {}
    assert!(recorder.value("lockkeeper_remote_without_credit_total") > without_credit);
    proxy.half_open(false);
    let mut stranger = tokio::net::TcpStream::connect(("127.0.0.1", one.port().unwrap()))
        .await
        .unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    recorder
        .becomes_more_than("lockkeeper_remote_refused_total HTTP", refused)
        .await;
}
