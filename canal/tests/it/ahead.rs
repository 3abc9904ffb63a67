//! The next batch is fetched while one is decoded.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use actix::prelude::*;
use lockkeeper_canal::testing::{CanalServer, CanalServerHandle, Table, Transaction};
use lockkeeper_canal::{
    BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, ClientIdentity,
    DecodedBatch, Filter, RowDecoding, Stop,
};
use serde::{Deserialize, Deserializer};
use tokio::sync::mpsc;

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(120);

static SERVER: OnceLock<CanalServerHandle> = OnceLock::new();

/// A row whose decoding takes until the server has given the batch behind the row's own.
struct Slow(u64);

impl<'de> Deserialize<'de> for Slow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Id {
            id: u64,
        }
        let Id { id } = Id::deserialize(deserializer)?;
        let server = SERVER.get().unwrap();
        let begun = Instant::now();
        while id < ROWS && server.statistics().batches <= id {
            assert!(
                begun.elapsed() < HANG,
                "the batch behind row {id} is not asked for"
            );
            std::thread::yield_now();
        }
        Ok(Self(id))
    }
}

/// Each of them fills a batch.
const ROWS: u64 = 5;

struct Ids(mpsc::UnboundedSender<u64>);

impl Actor for Ids {
    type Context = Context<Self>;
}

impl Handler<DecodedBatch<Slow>> for Ids {
    type Result = BatchResult;

    fn handle(&mut self, batch: DecodedBatch<Slow>, _: &mut Self::Context) -> BatchResult {
        for row in batch.changes.into_iter().flat_map(|change| change.rows) {
            self.0.send(row?.after.ok_or("an insert")?.0)?;
        }
        Ok(())
    }
}

#[actix_rt::test]
async fn with_a_window_the_server_works_on_the_next_batch_while_one_is_decoded() {
    let server = CanalServer::builder().destination("lab").start().unwrap();
    let texts = Table::new("lab", "texts")
        .key("id", "bigint(20)")
        .column("text", "varchar(2000)");
    for id in 1..=ROWS {
        let row = [id.to_string(), "x".repeat(2000)];
        let transaction = Transaction::new(id).insert(&texts, row);
        server.handle().commit(transaction).unwrap();
    }
    SERVER.set(server.handle().clone()).unwrap();
    let simple = CanalConnectorBuilder::new(ClientIdentity::new("lab"))
        .address(server.address().to_string())
        .build()
        .unwrap();
    let settings = CanalConnectorSettings::default()
        .with_filter(Filter::all())
        .with_fetch_size(1)
        .with_window(2);
    let (sender, mut ids) = mpsc::unbounded_channel();
    let recipient = Ids(sender).start().recipient();
    let decoding = RowDecoding::every_table();
    let connector = CanalConnector::rows::<Slow>(simple, settings, decoding, recipient);
    let connector = connector.unwrap().start();
    for id in 1..=ROWS {
        let next = tokio::time::timeout(HANG, ids.recv());
        assert_eq!(next.await.expect("a row comes"), Some(id));
    }
    connector.send(Stop).await.unwrap();
    let acked = server.handle().statistics().acked_transactions;
    assert_eq!(acked, ROWS);
}
