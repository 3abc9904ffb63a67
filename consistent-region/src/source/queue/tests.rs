//! The source by itself, on a queue in memory: cuts and resets are played by hand.

use std::future::poll_fn;
use std::sync::Arc;

use lockkeeper_canal::mq::testing::MemoryQueue;
use tokio::time::timeout;

use super::*;
use crate::operator::{
    Cut, InstanceContext, Operator, OperatorError, Output, RegionHandle, StartOperator,
};
use crate::source::commands::SourceCommands;

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(60);
const TOPIC: &str = "numbers";

struct Played {
    source: QueueSource<u64, MemoryQueue>,
    context: InstanceContext,
    rows: Vec<u64>,
    seq: u64,
}

impl Played {
    fn start(queue: &Arc<MemoryQueue>, configure: impl FnOnce(&mut QueueSourceConfig)) -> Self {
        let mut config = QueueSourceConfig::new(TOPIC);
        config.wait = Duration::from_millis(5);
        config.fetch_bytes = 20;
        configure(&mut config);
        let context = InstanceContext::alone("source");
        let map: MapMessage<u64> = Box::new(|message| {
            let payload = message.payload.as_deref().unwrap_or_default();
            let number = std::str::from_utf8(payload)?.parse()?;
            Ok(Mapped::Tuples(vec![number]))
        });
        let mut source = QueueSource::new(context.clone(), config, Arc::clone(queue), map);
        source.resumed_at(0, 0).unwrap();
        Self {
            source,
            context,
            rows: Vec::new(),
            seq: 0,
        }
    }

    async fn until(&mut self, count: usize) -> Result<(), OperatorError> {
        let region = RegionHandle::new(|_| {});
        let mut output = Output::new();
        while self.rows.len() < count {
            let polled = poll_fn(|cx| self.source.poll_produce(cx, &mut output, &region));
            timeout(LIMIT, polled).await.expect("nothing comes")?;
            self.rows.extend(output.take());
        }
        Ok(())
    }

    /// Until so many partitions have a place.
    async fn begun(&mut self, partitions: usize) -> Result<(), OperatorError> {
        let region = RegionHandle::new(|_| {});
        let mut output = Output::new();
        loop {
            let (state, _) = self.cut();
            let saved: serde_json::Value = serde_json::from_slice(&state).unwrap();
            if saved["next"].as_object().unwrap().len() == partitions {
                return Ok(());
            }
            let polled = poll_fn(|cx| self.source.poll_produce(cx, &mut output, &region));
            timeout(LIMIT, polled).await.expect("nothing comes")?;
        }
    }

    /// The state, and what had come.
    fn cut(&mut self) -> (Vec<u8>, Vec<u64>) {
        self.seq += 1;
        let cut = Cut {
            seq: self.seq,
            term: 1,
            attempt: 1,
            completed: self.seq - 1,
            last: false,
        };
        let mut state = Vec::new();
        let prepared = self.source.prepare(cut).unwrap();
        prepared.state.unwrap()(&mut state).unwrap();
        (state, self.rows.clone())
    }

    fn reset(&mut self, (state, rows): &(Vec<u8>, Vec<u64>)) {
        self.source.reset(&mut &state[..], 1).unwrap();
        self.source.resumed_at(self.seq, 0).unwrap();
        self.rows.clone_from(rows);
    }
}

fn local(test: impl Future<Output = ()>) {
    actix_rt::Runtime::new().unwrap().block_on(test);
}

/// Number `n` lies in partition `n % 2`.
fn queue(numbers: std::ops::Range<u64>) -> Arc<MemoryQueue> {
    let queue = MemoryQueue::default();
    queue.create(TOPIC, 2);
    push(&queue, numbers);
    Arc::new(queue)
}

fn push(queue: &MemoryQueue, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let partition = u32::try_from(number % 2).unwrap();
        queue.push(TOPIC, partition, Some(number.to_string().into()));
    }
}

/// What came, without the order between partitions.
fn sorted(rows: &[u64]) -> Vec<u64> {
    for parity in [0, 1] {
        let of_one: Vec<_> = rows.iter().filter(|row| *row % 2 == parity).collect();
        assert!(of_one.is_sorted(), "a partition is out of order: {rows:?}");
    }
    let mut rows = rows.to_vec();
    rows.sort_unstable();
    rows
}

#[test]
fn every_message_comes_once_over_cuts_and_resets_and_in_the_order_of_its_partition() {
    local(async {
        let queue = queue(0..300);
        let mut played = Played::start(&queue, |_| {});
        let mut cuts = Vec::new();
        for count in [1, 100, 250] {
            played.until(count).await.unwrap();
            cuts.push(played.cut());
        }
        played.until(300).await.unwrap();
        assert_eq!(sorted(&played.rows), (0..300).collect::<Vec<_>>());
        for cut in cuts.iter().rev() {
            played.reset(cut);
            played.until(300).await.unwrap();
            assert_eq!(sorted(&played.rows), (0..300).collect::<Vec<_>>());
        }
        queue.set_down(true);
        played.reset(&cuts[1]);
        queue.set_down(false);
        push(&queue, 300..310);
        played.until(310).await.unwrap();
        assert_eq!(sorted(&played.rows), (0..310).collect::<Vec<_>>());
    });
}

#[test]
fn messages_that_were_removed_before_they_were_read_are_never_skipped_in_silence() {
    local(async {
        let queue = queue(0..100);
        let mut played = Played::start(&queue, |_| {});
        played.until(20).await.unwrap();
        let cut = played.cut();
        played.until(100).await.unwrap();
        queue.remove(TOPIC, 0, 40);
        played.reset(&cut);
        let error = played.until(100).await.unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
        assert!(
            error.to_string().contains("messages were removed"),
            "{error}"
        );

        let mut going_on = Played::start(&queue, |config| {
            config.on_source_change = OnSourceChange::AtLeastOnce;
        });
        going_on.reset(&cut);
        // Of partition 0 the last ten are left, of partition 1 what the cut does not hold.
        let saved: serde_json::Value = serde_json::from_slice(&cut.0).unwrap();
        let of_one = usize::try_from(saved["next"]["1"].as_u64().unwrap_or(0)).unwrap();
        going_on
            .until(cut.1.len() + 10 + 50 - of_one)
            .await
            .unwrap();
        let state: serde_json::Value = serde_json::from_slice(&going_on.cut().0).unwrap();
        assert_eq!(state["changes"], 1, "{state}");
    });
}

/// A partition without a message has a place as well.
#[test]
fn messages_of_a_partition_that_was_empty_at_the_cut_are_never_skipped_in_silence() {
    local(async {
        let queue = MemoryQueue::default();
        queue.create(TOPIC, 2);
        let queue = Arc::new(queue);
        let mut played = Played::start(&queue, |_| {});
        played.begun(2).await.unwrap();
        let cut = played.cut();
        push(&queue, 0..20);
        played.until(20).await.unwrap();
        queue.remove(TOPIC, 1, 5);
        played.reset(&cut);
        let error = played.until(20).await.unwrap_err();
        assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
    });
}

#[test]
fn a_bad_message_fails_the_region_by_its_place_and_is_left_out_by_command() {
    local(async {
        let queue = queue(0..4);
        queue.push(TOPIC, 1, Some("five".into()));
        push(&queue, 6..8);
        let mut played = Played::start(&queue, |_| {});
        let first = played.cut();
        let error = played.until(usize::MAX).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("numbers at 1:2: ") && text.contains("five"),
            "{text}"
        );
        let commands = SourceCommands::new(Arc::clone(played.context.store()));
        commands.skip(played.context.instance(), "1:2").unwrap();
        played.reset(&first);
        played.until(6).await.unwrap();
        assert_eq!(sorted(&played.rows), [0, 1, 2, 3, 6, 7]);
    });
}
