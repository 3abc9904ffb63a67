//! What a console and a recorder of metrics see of connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

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
    assert_answers(&two.connect(&server.address()).await.unwrap()).await;
    let shown = connections(&one);
    assert_eq!(shown.get("connections"), Some(&StatusValue::Count(1)));
    let peer = format!("peer 127.0.0.1:{}", two.port().unwrap());
    assert_eq!(shown.get(&peer), Some(&StatusValue::Text("in use".into())));
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

/// Counters by name; gauges are not looked at, for other tests share the recorder.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Recorder {
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
        let mut counters = self.0.lock().unwrap();
        let value = counters.entry(key.name().to_owned()).or_default();
        metrics::Counter::from_arc(Arc::clone(value))
    }

    fn register_gauge(&self, _: &metrics::Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        metrics::Gauge::noop()
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
    let recorder = Recorder::default();
    // The process' one recorder: no other test here installs one.
    metrics::set_global_recorder(recorder.clone()).unwrap();
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
