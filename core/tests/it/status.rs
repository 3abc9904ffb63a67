//! What a console would show.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use lockkeeper_core::{prelude::*, status::StatusValue};

use crate::support::*;

#[test]
fn an_endpoint_and_the_dead_letters_show_their_counts() {
    run(async {
        let setup = started().await;
        setup.gateway.send(Add(1)).await.unwrap();
        setup.server.stop().await.unwrap();
        setup.gateway.do_send(Add(1));
        let find = |name: &str| {
            let sources = setup.service.status().sources();
            sources
                .iter()
                .find(|s| s.name() == name)
                .unwrap()
                .snapshot()
        };
        let endpoint = find("endpoint test");
        assert_eq!(endpoint.state.as_ref().unwrap().text, "STOPPED");
        assert_eq!(endpoint.get("handled"), Some(&StatusValue::Count(1)));
        assert_eq!(
            find("dead letters").get("lost: not started"),
            Some(&StatusValue::Count(1))
        );
    });
}

#[test]
fn the_call_context_tells_method_caller_and_deadline() {
    run(async {
        let setup = started().await;
        assert!(CallContext::current().is_none());
        let mut setup = setup;
        let call = actix::spawn(setup.gateway.send(Wait));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        setup.hands.gate.notify_one();
        assert_eq!(call.await.unwrap().unwrap(), 7);
        assert!(CallContext::current().is_none());
    });
}

/// P11
#[test]
fn the_watchdog_names_a_handler_that_holds_its_arbiter() {
    run(async {
        let limit = std::time::Duration::from_millis(20);
        let service = RpcService::builder().watchdog(limit).build().unwrap();
        let arbiter = actix::Arbiter::new();
        let server = service
            .start_server_in(&arbiter.handle(), "test", || Endpoint(body().0))
            .await
            .unwrap();
        server.start().await.unwrap();
        let mut events = service
            .status()
            .sources()
            .iter()
            .find(|source| source.name() == "endpoint test")
            .and_then(|source| source.events())
            .unwrap();
        let (release, until) = std::sync::mpsc::channel();
        let gateway = server.gateway::<TestGateway>();
        gateway.send(Add(1)).await.unwrap();
        gateway.try_send(Block(until)).unwrap();
        let stall = events.recv().await.unwrap();
        assert!(
            stall.text.starts_with("Block has held the arbiter for"),
            "{}",
            stall.text
        );
        assert!(stall.at_unix_ms > 1_600_000_000_000);
        release.send(()).unwrap();
        gateway.send(Add(1)).await.unwrap();
        server.terminate().await.unwrap();
        let mut texts = Vec::new();
        while let Ok(event) = events.try_recv() {
            texts.push(event.text);
        }
        texts.retain(|text| !text.contains("held"));
        assert_eq!(texts, ["TERMINATING", "TERMINATED"]);
        arbiter.stop();
    });
}

#[test]
fn calls_are_measured_by_endpoint_and_method() {
    let recorder = Recorder::default();
    metrics::with_local_recorder(&recorder, || {
        run(async {
            let builder = RpcService::builder().force_serialization(true);
            let mut setup = started_on(builder.build().unwrap()).await;
            for _ in 0..3 {
                setup.gateway.send(Add(1)).await.unwrap();
            }
            let waiting = actix::spawn(setup.gateway.send(Wait));
            assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
            assert_eq!(recorder.value("lockkeeper_rpc_in_flight test"), 1);
            setup.hands.gate.notify_one();
            waiting.await.unwrap().unwrap();
            setup.server.stop().await.unwrap();
            assert!(setup.gateway.send(Add(1)).await.is_err());
            setup.server.terminate().await.unwrap();
        });
    });
    for (name, value) in [
        ("lockkeeper_rpc_calls_total test Add", 3),
        ("lockkeeper_rpc_queue_seconds test Add", 3),
        ("lockkeeper_rpc_handle_seconds test Add", 3),
        ("lockkeeper_rpc_handle_seconds test Wait", 1),
        ("lockkeeper_rpc_in_flight test", 0),
        ("lockkeeper_rpc_refused_total not started", 1),
    ] {
        assert_eq!(recorder.value(name), value, "{name}");
    }
    assert!(recorder.value("lockkeeper_rpc_message_bytes_total test Add") >= 3);
    assert!(recorder.value("lockkeeper_rpc_reply_bytes_total test Add") >= 3);
}

#[test]
fn the_age_of_what_waits_is_measured() {
    let recorder = Recorder::default();
    metrics::with_local_recorder(&recorder, || {
        run(async {
            let limit = std::time::Duration::from_millis(20);
            let service = RpcService::builder().watchdog(limit).build().unwrap();
            let (body, hands, mut seen) = body();
            let server = service.start_server("serial", Serial(body)).await.unwrap();
            server.start().await.unwrap();
            assert_eq!(seen.recv().await, Some(Seen::Started));
            let becomes = async |value| {
                let gauge =
                    |name: &str| recorder.value(&format!("lockkeeper_rpc_queue_{name} serial"));
                while (gauge("age_seconds"), gauge("messages")) != (value, value) {
                    tokio::task::yield_now().await;
                }
            };
            let gateway = server.gateway::<SerialGateway>();
            let busy = actix::spawn(gateway.send(Wait));
            assert_eq!(seen.recv().await, Some(Seen::Waiting));
            gateway.try_send(Add(1)).unwrap();
            becomes(1).await;
            hands.gate.notify_one();
            busy.await.unwrap().unwrap();
            becomes(0).await;
            server.terminate().await.unwrap();
        });
    });
}

/// Counts what it is told, by name and labels.
#[derive(Default)]
struct Recorder(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Recorder {
    fn cell(&self, key: &metrics::Key) -> Arc<AtomicU64> {
        let mut name = key.name().to_owned();
        for label in key.labels() {
            name = format!("{name} {}", label.value());
        }
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    fn value(&self, name: &str) -> u64 {
        let cells = self.0.lock().unwrap();
        cells
            .get(name)
            .map_or(0, |cell| cell.load(Ordering::Relaxed))
    }
}

struct Cell(Arc<AtomicU64>);

impl metrics::HistogramFn for Cell {
    fn record(&self, seconds: f64) {
        assert!(seconds.is_finite() && seconds >= 0.0);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl metrics::GaugeFn for Cell {
    fn increment(&self, _: f64) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn decrement(&self, _: f64) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn set(&self, value: f64) {
        // Above nothing is what tests ask for.
        self.0
            .store(if value > 0.0 { 1 } else { 0 }, Ordering::Relaxed);
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
        metrics::Gauge::from_arc(Arc::new(Cell(self.cell(key))))
    }

    fn register_histogram(
        &self,
        key: &metrics::Key,
        _: &metrics::Metadata<'_>,
    ) -> metrics::Histogram {
        metrics::Histogram::from_arc(Arc::new(Cell(self.cell(key))))
    }
}
