//! What the two actors of queues show: metrics, and a status for a console.

use std::time::Duration;

use actix::prelude::*;
use lockkeeper_canal::mq::testing::{MemoryQueue, QueueFault};
use lockkeeper_canal::mq::{
    MemoryOffsets, MqConnector, MqConnectorSettings, MqForwarder, MqForwarderSettings, MqRouting,
    StopMq,
};
use lockkeeper_canal::testing::CanalServer;
use lockkeeper_canal::{
    CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity, Filter, Stop,
};
use lockkeeper_core::status::{StatusSource, StatusValue};

use super::support::{HANG, Handling, in_time, rows};
use crate::contract::Database as _;
use crate::embedded::Scripted;
use crate::recorder::Recorder;

fn count(source: &dyn StatusSource, name: &str) -> u64 {
    match source.snapshot().get(name) {
        Some(StatusValue::Count(count)) => *count,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_forwarder_and_a_reader_are_measured_by_topic_and_show_their_status() {
    let recorder = Recorder::default();
    metrics::with_local_recorder(&recorder, || {
        actix_rt::System::new().block_on(async {
            let queue = MemoryQueue::default();
            queue.create("changes", 1);
            // The first attempt fails.
            queue.inject([QueueFault::Lost]);
            let back_off = (Duration::from_millis(1), Duration::from_millis(20));
            let settings = MqForwarderSettings::new(MqRouting::to("changes"));
            let settings = settings.with_back_off(back_off.0, back_off.1);
            let forwarder = MqForwarder::new(queue.clone(), settings).unwrap();
            let forwarders = forwarder.status_source();
            assert_eq!(forwarders.name(), "canal to queue changes");
            let server = CanalServer::builder()
                .destination("example")
                .start()
                .unwrap();
            let database = Scripted::new(server.handle());
            let simple = CanalConnectorBuilder::new(ClientIdentity::new("example"))
                .address(server.address().to_string())
                .build()
                .unwrap();
            let settings = CanalConnectorSettings::default().with_filter(Filter::all());
            let recipient = forwarder.start().recipient();
            let connector = CanalConnector::new(simple, settings, recipient);
            let connector = connector.unwrap().start();
            let (handling, mut seen) = Handling::start(["it fails once"]);
            let settings =
                MqConnectorSettings::new("changes").with_back_off(back_off.0, back_off.1);
            let offsets = MemoryOffsets::default();
            let reader = MqConnector::new(queue, offsets, settings, handling.recipient()).unwrap();
            let readers = reader.status_source();
            assert_eq!(readers.name(), "canal from queue changes");
            let reader = reader.start();
            database.insert(1..=3);
            // Once in vain.
            assert_eq!(rows(&mut seen, 6).await.len(), 6);
            let handle = server.handle();
            let acked = handle.wait_until(HANG, |seen| seen.acked_transactions >= 1);
            acked.await.unwrap();
            in_time("the connector stops", connector.send(Stop))
                .await
                .unwrap();
            in_time("the reader stops", reader.send(StopMq))
                .await
                .unwrap();
            let state = |source: &dyn StatusSource| source.snapshot().state.unwrap().text;
            assert_eq!(state(&*forwarders), "idle");
            assert_eq!(state(&*readers), "stopped");
            assert!(count(&*forwarders, "messages") >= 1);
            assert_eq!(count(&*forwarders, "failures"), 1);
            assert_eq!(count(&*readers, "failed batches"), 1);
            assert_eq!(count(&*readers, "messages behind"), 0);
            server.stop();
        });
    });
    let value = |name: &str| recorder.value(&format!("lockkeeper_canal_mq_{name} changes"));
    assert!(value("forwarded_batches_total") >= 1.0);
    assert!(value("forwarded_messages_total") >= 1.0);
    assert!(value("forwarded_bytes_total") > value("forwarded_messages_total"));
    assert_eq!(value("forward_failures_total"), 1.0);
    assert_eq!(value("returned_batches_total"), 0.0);
    assert_eq!(value("forward_seconds"), value("forwarded_batches_total"));
    assert!(value("handled_batches_total") >= 1.0);
    assert_eq!(value("failed_batches_total"), 1.0);
    assert_eq!(
        recorder.value("lockkeeper_canal_mq_lag_messages changes 0"),
        0.0
    );
}
