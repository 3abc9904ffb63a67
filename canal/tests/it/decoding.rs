//! Rows pushed as values of a type, and what becomes of those that don't fit it: on the embedded
//! server.

use std::time::Duration;

use actix::prelude::*;
use lockkeeper_canal::testing::{CanalServer, Table, Transaction};
use lockkeeper_canal::{
    Batch, BatchResult, CanalConnector, CanalConnectorBuilder, CanalConnectorSettings, CanalError,
    ChangeKind, ClientIdentity, ConnectorEnd, ConnectorStatus, DeadRow, DecodedBatch, Filter,
    GetStatus, OnDecodeError, RowDecoding, RowError, SimpleCanalConnector, Stop, WaitForEnd,
};
use serde::Deserialize;
use tokio::sync::mpsc;

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Reading {
    id: u64,
    celsius: i32,
}

fn readings() -> Table {
    Table::new("lab", "readings")
        .key("id", "bigint(20) unsigned")
        .column("celsius", "varchar(10)")
}

/// Three rows of which the second does not fit, and a row behind them.
fn server() -> CanalServer {
    let server = CanalServer::builder().destination("lab").start().unwrap();
    let three =
        Transaction::new(1).insert_rows(&readings(), [["1", "20"], ["2", "warm"], ["3", "21"]]);
    server.handle().commit(three).unwrap();
    let fourth = Transaction::new(2).insert(&readings(), ["4", "22"]);
    server.handle().commit(fourth).unwrap();
    server
}

fn simple(server: &CanalServer) -> SimpleCanalConnector {
    CanalConnectorBuilder::new(ClientIdentity::new("lab"))
        .address(server.address().to_string())
        .build()
        .unwrap()
}

fn settings() -> CanalConnectorSettings {
    CanalConnectorSettings::default()
        .with_filter(Filter::all())
        .with_back_off(Duration::from_millis(5), Duration::from_millis(50))
        .with_reconnect_limit(None)
}

/// Passes on what comes; refuses so many messages first.
struct Collector<M> {
    seen: mpsc::UnboundedSender<M>,
    refusals: usize,
}

impl<M: Unpin + 'static> Actor for Collector<M> {
    type Context = Context<Self>;
}

impl<M> Handler<M> for Collector<M>
where
    M: Message<Result = BatchResult> + Unpin + 'static,
{
    type Result = BatchResult;

    fn handle(&mut self, message: M, _: &mut Self::Context) -> BatchResult {
        if self.refusals > 0 {
            self.refusals -= 1;
            return Err("not now".into());
        }
        self.seen.send(message).map_err(|_| "nobody looks".into())
    }
}

fn collector<M>(refusals: usize) -> (Recipient<M>, mpsc::UnboundedReceiver<M>)
where
    M: Message<Result = BatchResult> + Unpin + Send + 'static,
{
    let (seen, sees) = mpsc::unbounded_channel();
    (Collector { seen, refusals }.start().recipient(), sees)
}

/// A connector that decodes readings, and what its handler gets.
fn follow(
    server: &CanalServer,
    decoding: RowDecoding,
) -> (
    Addr<CanalConnector>,
    mpsc::UnboundedReceiver<DecodedBatch<Reading>>,
) {
    let (recipient, batches) = collector(0);
    let connector = CanalConnector::rows(simple(server), settings(), decoding, recipient);
    (connector.unwrap().start(), batches)
}

/// Rows as they come, until the one with this id.
async fn until(
    batches: &mut mpsc::UnboundedReceiver<DecodedBatch<Reading>>,
    last: u64,
) -> Vec<Result<Reading, RowError>> {
    let mut rows = Vec::new();
    loop {
        let batch = tokio::time::timeout(HANG, batches.recv());
        for change in batch.await.expect("a batch comes").unwrap().changes {
            let values = change.rows.into_iter();
            rows.extend(values.map(|row| row.map(|row| row.after.unwrap())));
        }
        if rows
            .iter()
            .any(|row| matches!(row, Ok(row) if row.id == last))
        {
            return rows;
        }
    }
}

fn reading(id: u64, celsius: i32) -> Reading {
    Reading { id, celsius }
}

fn assert_names_the_row(error: &RowError) {
    assert_eq!(error.destination(), "lab");
    assert!(!error.position().journal.is_empty() && error.position().offset > 0);
    assert_eq!(
        (error.schema_name(), error.table_name()),
        ("lab", "readings")
    );
    assert_eq!(
        (error.column(), error.text(), error.row()),
        (Some("celsius"), Some("warm"), 1)
    );
}

async fn end(connector: &Addr<CanalConnector>) -> ConnectorEnd {
    let end = tokio::time::timeout(HANG, connector.send(WaitForEnd));
    end.await.expect("it ends").unwrap()
}

async fn status(connector: &Addr<CanalConnector>) -> ConnectorStatus {
    connector.send(GetStatus).await.unwrap()
}

async fn acked(server: &CanalServer, transactions: u64) {
    let acked = server
        .handle()
        .wait_until(HANG, |seen| seen.acked_transactions >= transactions)
        .await;
    acked.unwrap();
}

#[actix_rt::test]
async fn by_default_a_row_that_does_not_fit_stops_the_connector_and_nothing_is_lost() {
    let server = server();
    let (connector, mut batches) = follow(&server, RowDecoding::every_table());
    let ConnectorEnd::Failed(CanalError::Row(error)) = end(&connector).await else {
        panic!("{:?}", status(&connector).await);
    };
    assert_names_the_row(&error);
    assert_eq!(status(&connector).await.undecodable_rows, 1);
    assert!(
        batches.try_recv().is_err(),
        "nothing of the batch is handed out"
    );
    assert_eq!(server.handle().statistics().acked_transactions, 0);
    // A program that knows what to do with it gets everything.
    let (_again, mut batches) = follow(
        &server,
        RowDecoding::every_table().on_decode_error(OnDecodeError::Raw),
    );
    assert_eq!(until(&mut batches, 4).await.len(), 4);
}

#[actix_rt::test]
async fn a_dead_letter_has_the_row_and_its_place_and_the_others_go_on() {
    let server = server();
    let (letters, mut dead) = collector::<DeadRow>(0);
    let decoding = RowDecoding::every_table().on_decode_error(OnDecodeError::DeadLetter(letters));
    let (connector, mut batches) = follow(&server, decoding);
    let rows = until(&mut batches, 4).await;
    let rows: Vec<_> = rows.into_iter().map(Result::unwrap).collect();
    assert_eq!(rows, [reading(1, 20), reading(3, 21), reading(4, 22)]);
    acked(&server, 2).await;
    let letter = dead.try_recv().expect("it came before the batch");
    assert_names_the_row(&letter.error);
    let raw = letter.raw().unwrap();
    assert_eq!(raw.after().get("id").unwrap().text(), Some("2"));
    assert!(dead.try_recv().is_err(), "once");
    assert_eq!(status(&connector).await.undecodable_rows, 1);
    assert_eq!(connector.send(Stop).await.unwrap(), ConnectorEnd::Stopped);
}

#[actix_rt::test]
async fn a_dead_letter_that_is_not_taken_comes_again_with_its_batch() {
    let server = server();
    let (letters, mut dead) = collector::<DeadRow>(2);
    let decoding = RowDecoding::every_table().on_decode_error(OnDecodeError::DeadLetter(letters));
    let (connector, mut batches) = follow(&server, decoding);
    let rows = until(&mut batches, 4).await;
    let ids: Vec<_> = rows.into_iter().map(|row| row.unwrap().id).collect();
    assert_eq!(ids, [1, 3, 4], "the batch waited for its dead letter");
    acked(&server, 2).await;
    assert_names_the_row(&dead.try_recv().unwrap().error);
    assert_eq!(status(&connector).await.failed_batches, 2);
}

#[actix_rt::test]
async fn a_raw_row_stands_in_its_place() {
    let server = server();
    let decoding = RowDecoding::every_table().on_decode_error(OnDecodeError::Raw);
    let (_connector, mut batches) = follow(&server, decoding);
    let rows = until(&mut batches, 4).await;
    assert_eq!(rows[0], Ok(reading(1, 20)));
    assert_names_the_row(rows[1].as_ref().unwrap_err());
    assert_eq!(rows[2..], [Ok(reading(3, 21)), Ok(reading(4, 22))]);
    acked(&server, 2).await;
}

#[actix_rt::test]
async fn rows_of_other_tables_are_left_out_and_statements_are_not() {
    let server = CanalServer::builder().destination("lab").start().unwrap();
    let other = Table::new("lab", "notes")
        .key("id", "int(11)")
        .column("text", "text");
    let handle = server.handle();
    handle
        .commit(Transaction::new(1).insert(&other, ["1", "of another type"]))
        .unwrap();
    handle
        .commit(Transaction::ddl("lab", "notes", "DROP TABLE notes"))
        .unwrap();
    handle
        .commit(Transaction::new(2).insert(&readings(), ["1", "20"]))
        .unwrap();
    let (recipient, mut batches) = collector::<DecodedBatch<Reading>>(0);
    let decoding = RowDecoding::table("lab", "readings");
    let connector = CanalConnector::rows(simple(&server), settings(), decoding, recipient);
    let connector = connector.unwrap().start();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let batch = tokio::time::timeout(HANG, batches.recv()).await.unwrap();
        let changes = batch.unwrap().changes.into_iter();
        seen.extend(changes.map(|change| (change.change.kind(), change.rows.len())));
    }
    assert_eq!(seen, [(ChangeKind::SchemaChange, 0), (ChangeKind::Rows, 1)]);
    assert_eq!(connector.send(Stop).await.unwrap(), ConnectorEnd::Stopped);
}

#[actix_rt::test]
async fn a_handler_that_decodes_by_itself_stops_the_connector_too() {
    struct Decodes;
    impl Actor for Decodes {
        type Context = Context<Self>;
    }
    impl Handler<Batch> for Decodes {
        type Result = BatchResult;
        fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> BatchResult {
            for entry in batch.message.entries() {
                let Some(change) = entry?.row_change()? else {
                    continue;
                };
                for row in change.rows::<Reading>() {
                    row?;
                }
            }
            Ok(())
        }
    }
    let server = server();
    let recipient = Decodes.start().recipient();
    let connector = CanalConnector::new(simple(&server), settings(), recipient).unwrap();
    let connector = connector.start();
    let end = end(&connector).await;
    let ConnectorEnd::Failed(CanalError::Row(error)) = end else {
        panic!("{end:?}");
    };
    assert_names_the_row(&error);
    assert_eq!(server.handle().statistics().acked_transactions, 0);
}

#[actix_rt::test]
async fn dead_letters_with_a_window_are_refused() {
    let server = server();
    let (letters, _dead) = collector::<DeadRow>(0);
    let decoding = RowDecoding::every_table().on_decode_error(OnDecodeError::DeadLetter(letters));
    let (recipient, _batches) = collector::<DecodedBatch<Reading>>(0);
    let settings = settings().with_window(2);
    let refused = CanalConnector::rows(simple(&server), settings, decoding, recipient);
    assert!(matches!(refused, Err(CanalError::InvalidArgument(_))));
}
