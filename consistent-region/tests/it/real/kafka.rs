//! Messages of a Kafka topic, each counted once and in the order of its partition, although the process
//! that reads them is killed in mid-stream. The judge reads the published files alone.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix::{Actor, Context};
use lockkeeper_canal::mq::{KafkaConsumer, KafkaProducer, KafkaSettings, MqProducer};
use lockkeeper_consistent_region::coordinator::{
    CoordinatorSettings, RegionCoordinator, RegionEvent,
};
use lockkeeper_consistent_region::graph::Region;
use lockkeeper_consistent_region::operator::{Cut, Operator, OperatorError, Output, Prepared};
use lockkeeper_consistent_region::point::{Hook, Point};
use lockkeeper_consistent_region::sink::FileSink;
use lockkeeper_consistent_region::source::canal::Mapped;
use lockkeeper_consistent_region::source::queue::{KafkaSource, MapMessage, QueueSourceConfig};
use lockkeeper_consistent_region::store::FileStore;
use lockkeeper_consistent_region::worker::{RegionWorker, WorkerConfig};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::servers;
use crate::child::{self, Child};
use crate::numbers::lines;
use crate::place::LIMIT;

const PARTITIONS: u32 = 3;
/// Messages of each partition that are written before each start of the process.
const PART: u64 = 200;

/// A topic of one test.
struct Topic {
    producer: KafkaProducer,
    name: String,
    /// How many messages each partition has: they are numbered.
    written: u64,
}

impl Topic {
    async fn create(broker: &str, test: &str) -> Self {
        let settings = KafkaSettings::new([broker]).with_create_topics(PARTITIONS, 1);
        let producer = KafkaProducer::new(settings).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let name = format!("region-{test}-{}-{}", now.as_micros(), std::process::id());
        assert_eq!(producer.partitions(&name).await.unwrap(), PARTITIONS);
        Self {
            producer,
            name,
            written: 0,
        }
    }

    async fn write(&mut self) {
        let numbers: Vec<u64> = (self.written..self.written + PART).collect();
        for partition in 0..PARTITIONS {
            for numbers in numbers.chunks(50) {
                let messages = numbers.iter().map(|number| format!("{number:0100}").into());
                let written = self
                    .producer
                    .produce(&self.name, partition, messages.collect());
                timeout(LIMIT, written).await.unwrap().unwrap();
            }
        }
        self.written += PART;
    }
}

/// Counts the messages of each partition, and gives (partition, count so far, number) for each.
#[derive(Default)]
struct Numbered {
    counts: BTreeMap<u32, u64>,
}

impl Actor for Numbered {
    type Context = Context<Self>;
}

impl Operator for Numbered {
    type Input = (u32, u64);
    type Output = (u32, u64, u64);
    const STATE_TYPE: &'static str = "numbered";

    fn process(
        &mut self,
        batch: Vec<(u32, u64)>,
        output: &mut Output<(u32, u64, u64)>,
    ) -> Result<(), OperatorError> {
        for (partition, number) in batch {
            let count = self.counts.entry(partition).or_default();
            *count += 1;
            output.extend([(partition, *count, number)]);
        }
        Ok(())
    }

    fn prepare(&mut self, _: Cut) -> Result<Prepared, OperatorError> {
        let counts = self.counts.clone();
        let write = move |to: &mut dyn Write| {
            serde_json::to_writer(to, &counts).map_err(std::io::Error::from)
        };
        Ok(Prepared {
            state: Some(Box::new(write)),
            stage: None,
        })
    }

    fn reset(&mut self, state: &mut dyn Read, _: u32) -> Result<(), OperatorError> {
        self.counts = serde_json::from_reader(state)
            .map_err(|error| OperatorError::Permanent(error.to_string()))?;
        Ok(())
    }

    fn reset_to_initial_state(&mut self) -> Result<(), OperatorError> {
        self.counts.clear();
        Ok(())
    }
}

/// A process with the whole region.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    broker: String,
    topic: String,
    end: Option<End>,
}

/// When the process is killed.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum End {
    /// When it has read so many messages.
    Messages(u32),
    /// At a point, once it has handed on messages.
    Point(String),
}

impl End {
    fn at(point: Point) -> Self {
        Self::Point(point.to_string())
    }
}

impl Task {
    fn output(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// Two instances share the three partitions.
    fn region(&self) -> Region {
        let mut graph = Region::builder("messages");
        let (broker, topic) = (self.broker.clone(), self.topic.clone());
        let most = match self.end {
            Some(End::Messages(most)) => most,
            _ => u32::MAX,
        };
        let left = Arc::new(AtomicU32::new(most));
        let messages = graph.parallel_start("messages", 2, move |context| {
            let mut config = QueueSourceConfig::new(&topic);
            config.wait = Duration::from_millis(20);
            // Ten messages.
            config.fetch_bytes = 1_000;
            let consumer = KafkaConsumer::new(KafkaSettings::new([&broker])).unwrap();
            let left = Arc::clone(&left);
            let map: MapMessage<(u32, u64)> = Box::new(move |message| {
                if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    child::kill_myself();
                }
                let payload = message.payload.as_deref().unwrap_or_default();
                let number = std::str::from_utf8(payload)?.parse()?;
                Ok(Mapped::Tuples(vec![(message.partition, number)]))
            });
            KafkaSource::new(context, config, Arc::new(consumer), map)
        });
        let partition = |(partition, _): &(u32, u64)| *partition;
        let numbered = graph.keyed("numbered", messages, 2, partition, |_| Numbered::default());
        let output = self.output();
        graph.end("sink", numbered, move |context| {
            FileSink::new(context, &output, "cut-", ".txt", |_, numbered, to| {
                for (partition, count, number) in numbered {
                    writeln!(to, "{partition} {count} {number}")?;
                }
                Ok(())
            })
        });
        graph.build().unwrap()
    }

    fn hook(&self) -> Hook {
        match &self.end {
            Some(End::Point(point)) => child::dies_at(point.parse().unwrap(), 1),
            _ => Hook::default(),
        }
    }

    async fn run(self) {
        let region = self.region();
        let settings = CoordinatorSettings {
            period: Some(Duration::from_millis(20)),
            lease: Duration::from_secs(10),
            ..CoordinatorSettings::for_region(&region)
        };
        let store = Arc::new(FileStore::open(self.folder.join("store")).unwrap());
        let hook = self.hook();
        let coordinator =
            RegionCoordinator::start_local(settings, Arc::clone(&store) as _, hook.clone())
                .unwrap();
        let mut events = coordinator.events();
        let (link, inbox) = coordinator.way().connect();
        let config = WorkerConfig {
            hook,
            ..WorkerConfig::new("worker")
        };
        let _worker = RegionWorker::start(region, store, Arc::new(link), inbox, config);
        loop {
            match events.recv().await.unwrap() {
                RegionEvent::CutCompleted(_) => child::say("cut"),
                RegionEvent::Failed { reason } => panic!("{reason}"),
                _ => {}
            }
        }
    }
}

#[actix::test]
#[ignore = "a process that other tests start"]
async fn a_region_that_reads_kafka() {
    if let Some(task) = child::task::<Task>() {
        task.run().await;
    }
}

/// For each partition what was written, in the order of the cuts: (count, number).
fn published(output: &Path) -> BTreeMap<u32, Vec<(u64, u64)>> {
    let mut published: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    for line in lines(output) {
        let fields: Vec<u64> = line
            .split(' ')
            .map(|field| field.parse().unwrap())
            .collect();
        let partition = u32::try_from(fields[0]).unwrap();
        published
            .entry(partition)
            .or_default()
            .push((fields[1], fields[2]));
    }
    published
}

#[actix::test]
async fn a_region_killed_while_it_reads_kafka_counts_each_message_once_and_in_order() {
    let test = "killed-while-it-reads";
    let Some([broker]) = servers(test, ["LOCKKEEPER_KAFKA"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut topic = Topic::create(&broker, test).await;
    let mut task = Task {
        folder: folder.path().to_owned(),
        broker,
        topic: topic.name.clone(),
        end: None,
    };
    std::fs::create_dir(task.output()).unwrap();
    let ends = [
        End::Messages(1),
        End::Messages(350),
        End::at(Point::BetweenCheckAndGet),
        End::at(Point::Staging),
        End::at(Point::AfterManifest),
        End::at(Point::BeforeCommit),
        End::at(Point::AfterCommitBeforeAck),
        End::Messages(599),
    ];
    for end in ends {
        topic.write().await;
        task.end = Some(end);
        let mut process = Child::start("real::kafka::a_region_that_reads_kafka", &task);
        process.killed().await;
    }
    task.end = None;
    let mut process = Child::start("real::kafka::a_region_that_reads_kafka", &task);
    process.says("cut").await;
    topic.write().await;
    let all = usize::try_from(topic.written * u64::from(PARTITIONS)).unwrap();
    let whole = async {
        // A cut is told when it is complete, and published after that.
        while lines(&task.output()).len() < all {
            process.says("cut").await;
        }
        process.says("cut").await;
    };
    let whole = timeout(LIMIT, whole).await;
    process.kill();
    let found = published(&task.output());
    let truth: Vec<(u64, u64)> = (0..topic.written)
        .map(|number| (number + 1, number))
        .collect();
    for partition in 0..PARTITIONS {
        assert_eq!(found[&partition], truth, "partition {partition}");
    }
    assert_eq!(whole, Ok(()), "messages are missing");
}
