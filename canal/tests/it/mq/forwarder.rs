//! Batches to a queue: nothing is acknowledged before the queue has it, nothing is lost, and the
//! changes of a row keep their order.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::prelude::*;
use bytes::Bytes;
use lockkeeper_canal::mq::testing::{MemoryQueue, QueueFault};
use lockkeeper_canal::mq::{
    FlatMessage, GetForwarderStatus, MqError, MqForm, MqForwarder, MqForwarderSettings, MqRouting,
};
use lockkeeper_canal::testing::CanalServer;
use lockkeeper_canal::{
    CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity, Filter, Stop,
};

use super::support::{HANG, in_time};
use crate::contract::{Database as _, Order};
use crate::embedded::Scripted;

struct Lab {
    server: CanalServer,
    database: Scripted,
    queue: MemoryQueue,
    forwarder: Addr<MqForwarder<MemoryQueue>>,
    connector: Addr<CanalConnector>,
}

fn settings() -> MqForwarderSettings {
    let routing = MqRouting::to("changes")
        .with_partition_hash(r".*\..*:$pk$")
        .unwrap();
    MqForwarderSettings::new(routing)
        .with_back_off(Duration::from_millis(1), Duration::from_millis(20))
}

impl Lab {
    fn new(settings: MqForwarderSettings, window: usize) -> Self {
        let server = CanalServer::builder()
            .destination("example")
            .start()
            .unwrap();
        let database = Scripted::new(server.handle());
        let queue = MemoryQueue::default();
        queue.create("changes", 3);
        let forwarder = MqForwarder::new(queue.clone(), settings).unwrap().start();
        let connector = CanalConnectorBuilder::new(ClientIdentity::new("example"))
            .address(server.address().to_string())
            .build()
            .unwrap();
        let settings = CanalConnectorSettings::default()
            .with_filter(Filter::all())
            .with_fetch_size(1)
            .with_window(window)
            .with_back_off(Duration::from_millis(1), Duration::from_millis(20));
        let recipient = forwarder.clone().recipient();
        let connector = CanalConnector::new(connector, settings, recipient)
            .unwrap()
            .start();
        Self {
            server,
            database,
            queue,
            forwarder,
            connector,
        }
    }

    async fn acked(&self, transactions: u64) {
        let handle = self.server.handle();
        let acked = handle.wait_until(HANG, |seen| seen.acked_transactions >= transactions);
        acked.await.unwrap();
    }

    fn acked_now(&self) -> u64 {
        self.server.handle().statistics().acked_transactions
    }

    async fn messages(&self, done: impl Fn(&[FlatMessage]) -> bool) -> Vec<FlatMessage> {
        let queue = &self.queue;
        in_time("messages", queue.wait_until(|queue| done(&all(queue)))).await;
        all(queue)
    }
}

/// All flat messages, partition after partition.
fn all(queue: &MemoryQueue) -> Vec<FlatMessage> {
    let messages = (0..3).flat_map(|partition| queue.messages("changes", partition));
    messages
        .map(|message| FlatMessage::parse(&message).unwrap())
        .collect()
}

/// For every id, the kinds of its changes with their amounts, in order. Repetitions follow what they
/// repeat, so a change that was there before is no step of its own.
fn histories(queue: &MemoryQueue) -> BTreeMap<u64, Vec<String>> {
    let mut histories: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for message in all(queue) {
        let json: serde_json::Value = serde_json::from_slice(&message.to_json()).unwrap();
        for row in json["data"].as_array().unwrap() {
            let id = row["id"].as_str().unwrap().parse().unwrap();
            let step = format!(
                "{} {}",
                message.event_type(),
                row["amount"].as_str().unwrap()
            );
            let history = histories.entry(id).or_default();
            if !history.contains(&step) {
                history.push(step);
            }
        }
    }
    histories
}

/// What [`histories`] are after these ids were inserted, updated twice and deleted.
fn life(ids: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Vec<String>> {
    let life = |id| {
        let amount = Order::of(id).amount;
        let one = rust_decimal::Decimal::ONE;
        let steps = [
            format!("INSERT {amount}"),
            format!("UPDATE {}", amount + one),
            format!("UPDATE {}", amount + one + one),
            format!("DELETE {}", amount + one + one),
        ];
        (id, steps.to_vec())
    };
    ids.into_iter().map(life).collect()
}

fn live(database: &Scripted, ids: std::ops::RangeInclusive<u64>) {
    database.insert(ids.clone());
    database.update(ids.clone());
    database.update(ids.clone());
    database.delete(ids);
}

#[actix_rt::test]
async fn changes_of_a_row_are_in_one_partition_in_order() {
    let lab = Lab::new(settings(), 1);
    live(&lab.database, 1..=20);
    lab.acked(4).await;
    assert_eq!(histories(&lab.queue), life(1..=20));
    for partition in 0..3 {
        assert!(
            !lab.queue.messages("changes", partition).is_empty(),
            "{partition}"
        );
    }
    let status = lab.forwarder.send(GetForwarderStatus).await.unwrap();
    assert_eq!(
        (status.failures, status.returned, status.error),
        (0, 0, None)
    );
    assert!(
        status.batches >= 4 && status.messages >= 12,
        "{}",
        status.messages
    );
    lab.connector.send(Stop).await.unwrap();
}

#[actix_rt::test]
async fn nothing_is_acknowledged_while_the_queue_does_not_answer() {
    let lab = Lab::new(settings(), 1);
    lab.queue.set_down(true);
    lab.database.insert(1..=5);
    let attempts = lab.queue.wait_until(|queue| queue.attempts() >= 5);
    in_time("attempts", attempts).await;
    assert_eq!(lab.acked_now(), 0);
    let status = lab.forwarder.send(GetForwarderStatus).await.unwrap();
    assert!(
        matches!(status.error, Some(MqError::Unavailable(_))),
        "{status:?}"
    );
    lab.queue.set_down(false);
    lab.acked(1).await;
    assert_eq!(histories(&lab.queue).len(), 5);
    let status = lab.forwarder.send(GetForwarderStatus).await.unwrap();
    assert_eq!(status.error, None);
}

#[actix_rt::test]
async fn answers_that_are_lost_lose_and_reorder_nothing() {
    let lab = Lab::new(settings(), 4);
    let faults = [
        QueueFault::AnswerLost,
        QueueFault::Lost,
        QueueFault::FirstOnly,
    ];
    lab.queue.inject(faults.into_iter().cycle().take(30));
    for first in [1, 11, 21] {
        live(&lab.database, first..=first + 9);
    }
    lab.acked(12).await;
    assert_eq!(histories(&lab.queue), life(1..=30));
}

#[actix_rt::test]
async fn a_batch_that_is_given_back_takes_the_later_ones_with_it() {
    // No second attempt: each failure gives its batch back, with others behind it in the window.
    let lab = Lab::new(settings().with_retry_for(Duration::ZERO), 8);
    let faults = [
        QueueFault::Lost,
        QueueFault::AnswerLost,
        QueueFault::FirstOnly,
    ];
    lab.queue.inject(faults.into_iter().cycle().take(12));
    for first in [1, 11, 21, 31] {
        live(&lab.database, first..=first + 9);
    }
    lab.acked(16).await;
    assert_eq!(histories(&lab.queue), life(1..=40));
    let status = lab.forwarder.send(GetForwarderStatus).await.unwrap();
    assert!(status.returned > 0, "{status:?}");
}

#[actix_rt::test]
async fn a_topic_that_is_not_there_yet_is_waited_for() {
    let routing = MqRouting::to("later");
    let settings = MqForwarderSettings::new(routing)
        .with_back_off(Duration::from_millis(1), Duration::from_millis(20));
    let lab = Lab::new(settings, 1);
    lab.database.insert(1..=1);
    in_time(
        "attempts",
        lab.queue.wait_until(|queue| queue.attempts() >= 3),
    )
    .await;
    assert_eq!(lab.acked_now(), 0);
    lab.queue.create("later", 1);
    lab.acked(1).await;
    assert_eq!(lab.queue.messages("later", 0).len(), 1);
}

#[actix_rt::test]
async fn a_row_above_the_limit_is_shown_and_never_acknowledged() {
    let lab = Lab::new(settings().with_message_limit(1024), 1);
    lab.database.insert(1..=1);
    lab.acked(1).await;
    lab.database.add_column(&"n".repeat(1100));
    let shown = async {
        loop {
            let status = lab.forwarder.send(GetForwarderStatus).await.unwrap();
            if let Some(error) = status.error {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    let error = in_time("the error is shown", shown).await;
    assert!(matches!(error, MqError::MessageTooLarge { .. }), "{error}");
    assert_eq!(lab.acked_now(), 1);
}

#[actix_rt::test]
async fn schema_changes_go_to_partition_0_with_their_statement() {
    let lab = Lab::new(settings(), 1);
    lab.database.add_column("note");
    lab.database.insert(1..=1);
    let messages = lab.messages(|messages| messages.len() >= 2).await;
    let alter = &lab.queue.messages("changes", 0)[0];
    let alter = FlatMessage::parse(alter).unwrap();
    assert_eq!((alter.event_type(), alter.rows()), ("ALTER", 0));
    assert_eq!(messages.iter().map(FlatMessage::rows).sum::<usize>(), 1);
}

#[actix_rt::test]
async fn protobuf_messages_are_packets() {
    let lab = Lab::new(settings().with_form(MqForm::Protobuf), 1);
    lab.database.insert(1..=9);
    lab.acked(1).await;
    let messages: Vec<Bytes> = (0..3)
        .flat_map(|at| lab.queue.messages("changes", at))
        .collect();
    assert!(!messages.is_empty());
    // Version 1, type MESSAGES.
    assert!(
        messages
            .iter()
            .all(|message| message.starts_with(&[0x10, 1, 0x18, 7]))
    );
}
