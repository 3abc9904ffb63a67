//! Batches from a queue: the same rows in either form, offsets that follow the handler, and messages
//! that cannot be read.

use std::time::Duration;

use actix::prelude::*;
use bytes::Bytes;
use lockkeeper_canal::mq::testing::MemoryQueue;
use lockkeeper_canal::mq::{
    FileOffsets, GetMqStatus, MemoryOffsets, MqConnector, MqConnectorSettings, MqEnd, MqError,
    MqForm, MqForwarder, MqForwarderSettings, MqRouting, OffsetStore, StartFrom, StopMq,
    WaitForMqEnd,
};
use lockkeeper_canal::testing::CanalServer;
use lockkeeper_canal::{
    CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity, Filter, Stop,
};

use tokio::sync::mpsc;

use super::support::{Handling, Seen, in_time, next, rows};
use crate::contract::{Database as _, Order};
use crate::embedded::Scripted;

fn settings() -> MqConnectorSettings {
    MqConnectorSettings::new("changes")
        .with_back_off(Duration::from_millis(1), Duration::from_millis(20))
}

fn queue(partitions: usize) -> MemoryQueue {
    let queue = MemoryQueue::default();
    queue.create("changes", partitions);
    queue
}

fn insert(id: u64) -> Bytes {
    let Order {
        customer,
        amount,
        placed,
        ..
    } = Order::of(id);
    let message = serde_json::json!({
        "type": "INSERT", "database": "shop", "table": "orders", "isDdl": false, "pkNames": ["id"],
        "mysqlType": {"id": "bigint(20) unsigned", "customer": "varchar(40)"},
        "data": [{"id": id.to_string(), "customer": customer, "amount": amount.to_string(), "placed": placed}],
    });
    message.to_string().into()
}

fn inserted(ids: impl IntoIterator<Item = u64>) -> Vec<super::support::Change> {
    let rows = ids
        .into_iter()
        .map(|id| ("Insert".to_owned(), None, Some(Order::of(id))));
    rows.collect()
}

type Connector<O> = Addr<MqConnector<MemoryQueue, O>>;

fn start<O: OffsetStore>(
    queue: &MemoryQueue,
    offsets: O,
    settings: MqConnectorSettings,
    handling: &Addr<Handling>,
) -> Connector<O> {
    let recipient = handling.clone().recipient();
    MqConnector::new(queue.clone(), offsets, settings, recipient)
        .unwrap()
        .start()
}

async fn ended<O: OffsetStore>(connector: &Connector<O>) -> MqEnd {
    in_time("the connector ends", connector.send(WaitForMqEnd))
        .await
        .unwrap()
}

#[actix_rt::test]
async fn rows_come_out_of_the_queue_as_they_came_from_the_server() {
    for form in [MqForm::Flat, MqForm::Protobuf] {
        let server = CanalServer::builder()
            .destination("example")
            .start()
            .unwrap();
        let database = Scripted::new(server.handle());
        let queue = queue(1);
        let routing = MqRouting::to("changes");
        let forwarder = MqForwarderSettings::new(routing).with_form(form);
        let forwarder = MqForwarder::new(queue.clone(), forwarder).unwrap().start();
        let builder = CanalConnectorBuilder::new(ClientIdentity::new("example"))
            .address(server.address().to_string());
        let canal = CanalConnectorSettings::default().with_filter(Filter::all());
        let canal = CanalConnector::new(builder.build().unwrap(), canal, forwarder.recipient());
        let canal = canal.unwrap().start();
        let (handling, mut seen) = Handling::start([]);
        let connector = start(&queue, MemoryOffsets::default(), settings(), &handling);
        database.insert(1..=3);
        database.update(2..=2);
        database.delete(3..=3);
        let mut changed = Order::of(2);
        changed.amount += rust_decimal::Decimal::ONE;
        let mut wanted = inserted(1..=3);
        wanted.push(("Update".to_owned(), Some(Order::of(2)), Some(changed)));
        wanted.push(("Delete".to_owned(), Some(Order::of(3)), None));
        assert_eq!(rows(&mut seen, 5).await, wanted, "{form:?}");
        database.add_column("note");
        loop {
            if let Seen::Statement(sql) = next(&mut seen).await {
                assert!(sql.contains("note"), "{sql}");
                break;
            }
        }
        assert_eq!(connector.send(StopMq).await.unwrap(), MqEnd::Stopped);
        canal.send(Stop).await.unwrap();
    }
}

/// Reports what it keeps.
#[derive(Clone)]
struct Reporting {
    kept: MemoryOffsets,
    seen: mpsc::UnboundedSender<Seen>,
}

impl OffsetStore for Reporting {
    async fn load(&self, topic: &str, partition: u32) -> Result<Option<i64>, MqError> {
        self.kept.load(topic, partition).await
    }

    async fn save(&self, topic: &str, partition: u32, next: i64) -> Result<(), MqError> {
        self.kept.save(topic, partition, next).await?;
        let _ = self.seen.send(Seen::Kept(next));
        Ok(())
    }
}

#[actix_rt::test]
async fn an_offset_is_kept_when_the_handler_has_succeeded_and_not_before() {
    let queue = queue(1);
    (1..=3).for_each(|id| queue.push("changes", 0, Some(insert(id))));
    let (report, mut seen) = mpsc::unbounded_channel();
    let offsets = Reporting {
        kept: MemoryOffsets::default(),
        seen: report.clone(),
    };
    let handling = Handling::reporting(["once", "twice"], report);
    let one_each = settings().with_batch_bytes(1);
    let connector = start(&queue, offsets.clone(), one_each.clone(), &handling);
    let row = |id| Seen::Row(inserted([id]).remove(0));
    // The number in a batch's id is its last message's offset.
    let batch = |offset| Seen::Batch("changes[0]".to_owned(), offset);
    for step in [
        [row(1), batch(0)].as_slice(),
        &[row(1), batch(0)],
        &[row(1), batch(0), Seen::Kept(1)],
        &[row(2), batch(1), Seen::Kept(2)],
        &[row(3), batch(2), Seen::Kept(3)],
    ] {
        for wanted in step {
            assert_eq!(next(&mut seen).await, *wanted);
        }
    }
    let stopped = in_time("it stops", connector.send(StopMq)).await.unwrap();
    assert_eq!(stopped, MqEnd::Stopped);
    // The next one goes on behind it.
    queue.push("changes", 0, Some(insert(4)));
    let _connector = start(&queue, offsets, one_each, &handling);
    assert_eq!(rows(&mut seen, 1).await, inserted([4]));
}

#[actix_rt::test]
async fn every_partition_is_read_and_kept_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(4);
    for id in 0..40 {
        queue.push("changes", u32::try_from(id % 4).unwrap(), Some(insert(id)));
    }
    let offsets = FileOffsets::open(folder.path()).unwrap();
    let (handling, mut seen) = Handling::start([]);
    let connector = start(&queue, offsets.clone(), settings(), &handling);
    let mut ids: Vec<_> = rows(&mut seen, 40).await;
    let stopped = in_time("it stops", connector.send(StopMq)).await.unwrap();
    assert_eq!(stopped, MqEnd::Stopped);
    ids.sort_by_key(|(_, _, row)| row.as_ref().unwrap().id);
    assert_eq!(ids, inserted(0..40));
    for partition in 0..4 {
        assert_eq!(offsets.load("changes", partition).await, Ok(Some(10)));
    }
    let (handling, mut seen) = Handling::start([]);
    let two = settings().with_partitions([1, 3]);
    let _connector = start(&queue, offsets, two, &handling);
    queue.push("changes", 0, Some(insert(100)));
    queue.push("changes", 3, Some(insert(103)));
    assert_eq!(rows(&mut seen, 1).await, inserted([103]));
}

#[actix_rt::test]
async fn a_message_that_cannot_be_read_ends_the_connector_and_names_its_place() {
    let queue = queue(2);
    queue.push("changes", 1, Some(insert(1)));
    queue.push("changes", 1, Some(Bytes::from_static(b"{\"type\":")));
    queue.push("changes", 1, Some(insert(2)));
    let offsets = MemoryOffsets::default();
    let (handling, mut seen) = Handling::start([]);
    let connector = start(&queue, offsets.clone(), settings(), &handling);
    assert_eq!(rows(&mut seen, 1).await, inserted([1]));
    match ended(&connector).await {
        MqEnd::Failed(MqError::BadMessage {
            topic,
            partition,
            offset,
            reason,
        }) => {
            assert_eq!((topic.as_str(), partition, offset), ("changes", 1, 1));
            assert!(reason.contains("no flat message"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        offsets.load("changes", 1).await,
        Ok(Some(1)),
        "it is tried again after a restart"
    );
}

#[actix_rt::test]
async fn who_takes_bad_messages_lets_the_others_through() {
    let queue = queue(1);
    let large = Bytes::from(vec![b' '; 5000]);
    for message in [
        Some(insert(1)),
        Some(Bytes::from_static(b"\x00")),
        None,
        Some(large),
        Some(insert(2)),
    ] {
        queue.push("changes", 0, message);
    }
    let offsets = MemoryOffsets::default();
    let (handling, mut seen) = Handling::start([]);
    // The first bad message is refused once, and comes again.
    let (taking, mut bad) = Handling::start(["not yet"]);
    let settings = settings()
        .with_message_limit(4096)
        .with_bad_messages(taking.recipient());
    let connector = start(&queue, offsets.clone(), settings, &handling);
    assert_eq!(rows(&mut seen, 2).await, inserted([1, 2]));
    for text in [
        "message 1 of",
        "message 1 of",
        "message 2 of",
        "message 3 of",
    ] {
        match next(&mut bad).await {
            Seen::Bad(error) => assert!(error.contains(text), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    let stopped = in_time("it stops", connector.send(StopMq)).await.unwrap();
    assert_eq!(stopped, MqEnd::Stopped);
    assert_eq!(offsets.load("changes", 0).await, Ok(Some(5)));
    let status = connector.send(GetMqStatus).await;
    // The actor may be gone by now.
    assert!(status.is_err() || status.is_ok_and(|status| status.bad_messages == 3));
}

#[actix_rt::test]
async fn messages_that_were_removed_before_they_were_read_are_an_error_and_not_skipped() {
    let queue = queue(1);
    (1..=5).for_each(|id| queue.push("changes", 0, Some(insert(id))));
    queue.remove("changes", 0, 3);
    let offsets = MemoryOffsets::default();
    offsets.save("changes", 0, 1).await.unwrap();
    let (handling, _seen) = Handling::start([]);
    let connector = start(&queue, offsets.clone(), settings(), &handling);
    let wanted = MqError::OffsetOutOfRange {
        topic: "changes".to_owned(),
        partition: 0,
        offset: 1,
        earliest: 3,
        end: 5,
    };
    assert_eq!(ended(&connector).await, MqEnd::Failed(wanted));
    // Without an offset the earliest message is where it begins.
    let (handling, mut seen) = Handling::start([]);
    let _connector = start(&queue, MemoryOffsets::default(), settings(), &handling);
    assert_eq!(rows(&mut seen, 2).await, inserted([4, 5]));
}

#[actix_rt::test]
async fn starting_from_the_latest_message_misses_none_after_a_restart() {
    let queue = queue(1);
    queue.push("changes", 0, Some(insert(1)));
    let offsets = MemoryOffsets::default();
    let (handling, mut seen) = Handling::start([]);
    let latest = settings().with_start_from(StartFrom::Latest);
    let connector = start(&queue, offsets.clone(), latest.clone(), &handling);
    let kept = async {
        while offsets.load("changes", 0).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    };
    in_time("the offset is kept", kept).await;
    let stopped = in_time("it stops", connector.send(StopMq)).await.unwrap();
    assert_eq!(stopped, MqEnd::Stopped);
    queue.push("changes", 0, Some(insert(2)));
    let _connector = start(&queue, offsets, latest, &handling);
    assert_eq!(rows(&mut seen, 1).await, inserted([2]));
}

#[actix_rt::test]
async fn a_queue_that_is_down_is_waited_for() {
    let queue = queue(1);
    queue.set_down(true);
    queue.push("changes", 0, Some(insert(1)));
    let (handling, mut seen) = Handling::start([]);
    let connector = start(&queue, MemoryOffsets::default(), settings(), &handling);
    in_time("attempts", queue.wait_until(|queue| queue.attempts() >= 3)).await;
    queue.set_down(false);
    assert_eq!(rows(&mut seen, 1).await, inserted([1]));
    queue.set_down(true);
    let before = queue.attempts();
    in_time(
        "attempts",
        queue.wait_until(|queue| queue.attempts() >= before + 3),
    )
    .await;
    let status = connector.send(GetMqStatus).await.unwrap();
    assert!(
        matches!(status.partitions[&0].error, Some(MqError::Unavailable(_))),
        "{status:?}"
    );
    queue.push("changes", 0, Some(insert(2)));
    queue.set_down(false);
    assert_eq!(rows(&mut seen, 1).await, inserted([2]));
}

#[actix_rt::test]
async fn a_handler_that_is_gone_and_settings_that_cannot_work_are_told() {
    let queue = queue(1);
    queue.push("changes", 0, Some(insert(1)));
    let (handling, seen) = Handling::start([]);
    let recipient = handling.clone().recipient();
    for wrong in [
        MqConnectorSettings::new(""),
        settings().with_partitions([]),
        settings().with_batch_bytes(0),
        settings().with_longest_wait(Duration::ZERO),
    ] {
        let made = MqConnector::new(
            queue.clone(),
            MemoryOffsets::default(),
            wrong,
            recipient.clone(),
        );
        assert!(matches!(made, Err(MqError::InvalidArgument(_))));
    }
    let unknown = settings().with_partitions([7]);
    let connector = start(&queue, MemoryOffsets::default(), unknown, &handling);
    assert!(matches!(
        ended(&connector).await,
        MqEnd::Failed(MqError::UnknownPartition { partition: 7, .. })
    ));
    struct Gone;
    impl Actor for Gone {
        type Context = Context<Self>;
        fn started(&mut self, context: &mut Self::Context) {
            context.stop();
        }
    }
    impl Handler<lockkeeper_canal::Batch> for Gone {
        type Result = lockkeeper_canal::BatchResult;
        fn handle(&mut self, _: lockkeeper_canal::Batch, _: &mut Self::Context) -> Self::Result {
            Ok(())
        }
    }
    drop(seen);
    let recipient = Gone.start().recipient();
    let connector = MqConnector::new(queue, MemoryOffsets::default(), settings(), recipient);
    assert_eq!(
        ended(&connector.unwrap().start()).await,
        MqEnd::RecipientClosed
    );
}
