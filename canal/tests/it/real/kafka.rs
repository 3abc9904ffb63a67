//! Kafka: the contract on a real broker, and rows from MariaDB through Canal and Kafka to a handler.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use actix::prelude::*;
use lockkeeper_canal::mq::testing::contract;
use lockkeeper_canal::mq::{
    FileOffsets, GetForwarderStatus, GetMqStatus, KafkaConnector, KafkaConsumer, KafkaForwarder,
    KafkaProducer, KafkaSettings, MemoryOffsets, MqConnectorSettings, MqConsumer as _, MqEnd,
    MqError, MqForm, MqForwarderSettings, MqProducer, MqRouting, StopMq,
};
use lockkeeper_canal::{
    CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity, ConnectorEnd,
    GetStatus, Stop,
};
use rust_decimal::Decimal;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{on_the_real_server, variable};
use crate::contract::{Order, Subject};
use crate::mq::support::{Change, Handling, in_time, rows};

const BROKER: &str = "LOCKKEEPER_KAFKA";

/// The broker's address, and one of two with nothing between or with a test between.
fn broker(name: &str, variable_name: &str) -> Option<String> {
    let found = variable(variable_name);
    if found.is_none() {
        let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
        assert!(!ci, "no Kafka broker: set {variable_name}");
        eprintln!("skipped {name}: no Kafka broker, set {variable_name}");
    }
    found
}

/// A topic for one test alone.
fn topic(name: &str) -> String {
    static RUN: Mutex<Option<u128>> = Mutex::new(None);
    let now = || {
        std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_micros()
    };
    let run = *RUN.lock().unwrap().get_or_insert_with(now);
    format!("{name}-{run}-{}", std::process::id())
}

fn settings(address: &str) -> KafkaSettings {
    KafkaSettings::new([address]).with_create_topics(2, 1)
}

fn on_a_real_broker(name: &str, contract: impl AsyncFnOnce(KafkaProducer, KafkaConsumer, String)) {
    let Some(address) = broker(name, BROKER) else {
        return;
    };
    actix_rt::System::new().block_on(async {
        let topic = topic(name);
        let producer = KafkaProducer::new(settings(&address)).unwrap();
        producer.partitions(&topic).await.unwrap();
        let consumer = KafkaConsumer::new(KafkaSettings::new([&address])).unwrap();
        contract(producer, consumer, topic).await;
    });
}

crate::mq::every_queue_contract!(on_a_real_broker);

#[test]
fn a_broker_that_is_not_there_is_an_error_in_time() {
    actix_rt::System::new().block_on(async {
        // A port that nobody listens on: it was just let go.
        let gone = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let settings =
            KafkaSettings::new([gone.to_string()]).with_timeout(Duration::from_millis(300));
        let producer = KafkaProducer::new(settings.clone()).unwrap();
        let failed = in_time("partitions", producer.partitions("t")).await;
        assert!(matches!(failed, Err(MqError::Unavailable(_))), "{failed:?}");
        let consumer = KafkaConsumer::new(settings).unwrap();
        let failed = in_time("range", consumer.range("t", 0)).await;
        assert!(matches!(failed, Err(MqError::Unavailable(_))), "{failed:?}");
        assert!(KafkaProducer::new(KafkaSettings::new([""; 0])).is_err());
    });
}

#[test]
fn a_message_above_the_brokers_limit_is_refused_and_not_tried_for_ever() {
    on_a_real_broker("too_large", async |producer, _, topic| {
        let large = vec![b'x'; 2_000_000].into();
        let failed = producer.produce(&topic, 0, vec![large]).await.unwrap_err();
        assert!(
            matches!(&failed, MqError::Refused(text) if text.contains("2000000 bytes")),
            "{failed}"
        );
        assert!(!failed.is_retryable());
    });
}

/// Canal to Kafka.
struct Pipeline {
    canal: Addr<CanalConnector>,
    forwarder: Addr<KafkaForwarder>,
}

impl Pipeline {
    fn start(subject: &Subject, settings: KafkaSettings, routing: MqRouting, form: MqForm) -> Self {
        let forwarding = MqForwarderSettings::new(routing)
            .with_form(form)
            .with_back_off(Duration::from_millis(10), Duration::from_millis(200));
        let producer = KafkaProducer::new(settings).unwrap();
        let forwarder = KafkaForwarder::new(producer, forwarding).unwrap().start();
        let connector = CanalConnectorBuilder::new(ClientIdentity::new(&subject.destination))
            .address(&subject.address)
            .credentials(&subject.user, &*subject.password)
            .build()
            .unwrap();
        let settings = CanalConnectorSettings::default()
            .with_filter(subject.filter())
            .with_back_off(Duration::from_millis(10), Duration::from_millis(200));
        let canal = CanalConnector::new(connector, settings, forwarder.clone().recipient());
        Self {
            forwarder,
            canal: canal.unwrap().start(),
        }
    }

    /// Changes that are made from now on come.
    async fn subscribed(&self) {
        let subscribed = async {
            while self.canal.send(GetStatus).await.unwrap().connections == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time("the subscription", subscribed).await;
    }

    /// Resolves when one more attempt has failed at the broker.
    async fn failed_again(&self) {
        let failures = async || {
            self.forwarder
                .send(GetForwarderStatus)
                .await
                .unwrap()
                .failures
        };
        let before = failures().await;
        let failed = async {
            while failures().await == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time("an attempt fails", failed).await;
    }

    async fn stop(self) {
        let end = in_time("the connector stops", self.canal.send(Stop)).await;
        assert_eq!(end.unwrap(), ConnectorEnd::Stopped);
    }
}

/// Resolves when everything that is in the topic was handled and its offsets are kept: what the handler
/// failed at has come again.
async fn handled(connector: &Addr<KafkaConnector<FileOffsets>>, address: &str, topic: &str) {
    let consumer = KafkaConsumer::new(KafkaSettings::new([address])).unwrap();
    for partition in 0..2 {
        let end = consumer.range(topic, partition).await.unwrap().end;
        let handled = async {
            loop {
                let status = connector.send(GetMqStatus).await.unwrap();
                let partition = status.partitions.get(&partition);
                if partition.is_some_and(|partition| partition.next >= end) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time("the offsets are kept", handled).await;
    }
}

fn changed(id: u64) -> Order {
    let mut order = Order::of(id);
    order.amount += Decimal::ONE;
    order
}

fn round_trip(name: &str, form: MqForm) {
    let Some(address) = broker(name, BROKER) else {
        return;
    };
    on_the_real_server(name, async |subject| {
        let topic = topic(name);
        let routing = MqRouting::to(&topic)
            .with_partition_hash(r".*\..*:$pk$")
            .unwrap();
        let pipeline = Pipeline::start(subject, settings(&address), routing, form);
        pipeline.subscribed().await;
        let database = &subject.database;
        database.insert(1..=100);
        database.update(1..=50);
        database.delete(51..=60);
        let folder = tempfile::tempdir().unwrap();
        let offsets = FileOffsets::open(folder.path()).unwrap();
        let read = |handling: Addr<Handling>| {
            let consumer = KafkaConsumer::new(KafkaSettings::new([&address])).unwrap();
            let settings = MqConnectorSettings::new(&topic)
                .with_back_off(Duration::from_millis(10), Duration::from_millis(200));
            let connector =
                KafkaConnector::new(consumer, offsets.clone(), settings, handling.recipient());
            connector.unwrap().start()
        };
        let (handling, mut seen) =
            Handling::of_schema(subject.database.table().0, ["the handler fails once"]);
        let connector = read(handling);
        // What the handler failed at comes again: the first time counts, in whose order it came.
        let mut found: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
        let whole = async {
            while found.values().map(Vec::len).sum::<usize>() < 160 {
                for change in rows(&mut seen, 1).await {
                    let (_, before, after) = &change;
                    let id = before.as_ref().or(after.as_ref()).unwrap().id;
                    let history = found.entry(id).or_default();
                    if !history.contains(&change) {
                        history.push(change);
                    }
                }
            }
        };
        in_time("all rows", whole).await;
        for id in 1..=100 {
            let mut wanted = vec![("Insert".to_owned(), None, Some(Order::of(id)))];
            if id <= 50 {
                wanted.push(("Update".to_owned(), Some(Order::of(id)), Some(changed(id))));
            } else if id <= 60 {
                wanted.push(("Delete".to_owned(), Some(Order::of(id)), None));
            }
            assert_eq!(found[&id], wanted);
        }
        handled(&connector, &address, &topic).await;
        assert_eq!(
            in_time("it stops", connector.send(StopMq)).await.unwrap(),
            MqEnd::Stopped
        );
        // The offsets are kept: the next reader gets what is new alone.
        database.insert(101..=101);
        let (handling, mut seen) = Handling::of_schema(subject.database.table().0, []);
        let connector = read(handling);
        let wanted = vec![("Insert".to_owned(), None, Some(Order::of(101)))];
        assert_eq!(rows(&mut seen, 1).await, wanted);
        assert_eq!(
            in_time("it stops", connector.send(StopMq)).await.unwrap(),
            MqEnd::Stopped
        );
        pipeline.stop().await;
    });
}

#[test]
fn rows_of_a_real_database_travel_as_flat_messages() {
    round_trip("kafka_flat", MqForm::Flat);
}

#[test]
fn rows_of_a_real_database_travel_as_protobuf_messages() {
    round_trip("kafka_protobuf", MqForm::Protobuf);
}

/// Stands between the broker and its clients; while it is shut, the broker is gone for them.
struct Between {
    open: watch::Sender<bool>,
    _task: JoinSet<io::Result<()>>,
}

impl Between {
    async fn listen(between: &str, behind: &str) -> Self {
        let listener = TcpListener::bind(between).await.unwrap();
        let (open, seen) = watch::channel(true);
        let behind = behind.to_owned();
        let mut task = JoinSet::new();
        task.spawn_local(async move {
            let mut links = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await?;
                let (behind, seen) = (behind.clone(), seen.clone());
                links.spawn_local(pass(client, behind, seen));
            }
        });
        Self { open, _task: task }
    }
}

/// Passes bytes on in both directions until it is shut.
async fn pass(
    mut client: TcpStream,
    behind: String,
    mut open: watch::Receiver<bool>,
) -> io::Result<()> {
    if !*open.borrow_and_update() {
        return Ok(());
    }
    let mut broker = TcpStream::connect(behind).await?;
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut broker) => {}
        _ = open.wait_for(|open| !*open) => {}
    }
    Ok(())
}

#[test]
fn a_broker_that_is_gone_for_a_while_gets_every_row_and_canal_no_ack_meanwhile() {
    let name = "kafka_outage";
    let Some(addresses) = broker(name, "LOCKKEEPER_KAFKA_BETWEEN") else {
        return;
    };
    let Some(address) = broker(name, BROKER) else {
        return;
    };
    on_the_real_server(name, async |subject| {
        let (between, behind) = addresses.split_once(',').unwrap();
        let proxy = Between::listen(between, behind).await;
        let topic = topic(name);
        let through = settings(between).with_timeout(Duration::from_secs(2));
        let routing = MqRouting::to(&topic)
            .with_partition_hash(r".*\..*:$pk$")
            .unwrap();
        let pipeline = Pipeline::start(subject, through, routing, MqForm::Flat);
        pipeline.subscribed().await;
        let consumer = KafkaConsumer::new(KafkaSettings::new([&address])).unwrap();
        let (handling, mut seen) = Handling::of_schema(subject.database.table().0, []);
        let reading = MqConnectorSettings::new(&topic)
            .with_back_off(Duration::from_millis(10), Duration::from_millis(200));
        let offsets = MemoryOffsets::default();
        let reading = KafkaConnector::new(consumer, offsets, reading, handling.recipient());
        let _reading = reading.unwrap().start();
        subject.database.insert(1..=10);
        rows(&mut seen, 10).await;
        proxy.open.send_replace(false);
        subject.database.insert(11..=20);
        pipeline.failed_again().await;
        let before = pipeline.canal.send(GetStatus).await.unwrap();
        assert_eq!(before.outstanding_batches, 1);
        pipeline.failed_again().await;
        let after = pipeline.canal.send(GetStatus).await.unwrap();
        assert_eq!(after.handled_batches, before.handled_batches);
        proxy.open.send_replace(true);
        let mut ids = BTreeSet::new();
        let all = async {
            while ids.len() < 10 {
                for (_, _, row) in rows(&mut seen, 1).await {
                    // What was on its way at the break may come twice.
                    ids.extend(row.map(|row| row.id).filter(|id| *id > 10));
                }
            }
        };
        in_time("every row", all).await;
        assert!(ids.into_iter().eq(11..=20));
        pipeline.stop().await;
    });
}
