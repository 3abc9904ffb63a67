//! The connector that pushes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use lockkeeper_canal::{
    Batch, BatchResult, CanalConnector, CanalConnectorSettings, CommittedTransaction, ConnectorEnd,
    ConnectorState, ConnectorStatus, EventType, GetStatus, Stop,
};
use tokio::sync::{mpsc, watch};

use super::{HANG, Order, Subject, ids, until_inserted};

/// Reports the ids that were inserted.
pub(crate) struct Reporter {
    pub(crate) table: (String, String),
    pub(crate) ids: mpsc::UnboundedSender<u64>,
}

impl Actor for Reporter {
    type Context = Context<Self>;
}

impl Handler<Batch> for Reporter {
    type Result = BatchResult;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> BatchResult {
        for entry in batch.message.entries() {
            let entry = entry?;
            if (entry.schema_name(), entry.table_name()) != (&*self.table.0, &*self.table.1) {
                continue;
            }
            let Some(change) = entry.row_change()? else {
                continue;
            };
            for row in change.rows::<Order>() {
                if let Some(order) = row?.after {
                    self.ids.send(order.id)?;
                }
            }
        }
        Ok(())
    }
}

pub(crate) async fn the_actor_delivers_each_row_soon_and_acknowledges_it(subject: &Subject) {
    let (ids, mut seen) = mpsc::unbounded_channel();
    let (schema, table) = subject.database.table();
    let reporter = Reporter {
        table: (schema.to_owned(), table.to_owned()),
        ids,
    }
    .start();
    let settings = CanalConnectorSettings::default().with_filter(subject.filter());
    let simple = subject.builder().build().unwrap();
    let connector = CanalConnector::new(simple, settings, reporter.recipient()).unwrap();
    let status = connector.watch();
    let connector = connector.start();
    caught_up(status).await;
    for id in 1..=5 {
        subject.database.insert(id..=id);
        let got = tokio::time::timeout(HANG, seen.recv()).await.unwrap();
        assert_eq!(got, Some(id));
    }
    assert_eq!(connector.send(Stop).await.unwrap(), ConnectorEnd::Stopped);
    let mut connector = subject.subscribed().await;
    subject.database.insert(6..=6);
    let (_, seen) = until_inserted(subject, &mut connector, 1000, 6).await;
    assert_eq!(seen.inserted, [6], "what was handled came again");
}

/// Until the connector has all there is.
async fn caught_up(mut status: watch::Receiver<ConnectorStatus>) {
    let streams =
        status.wait_for(|status| status.state == ConnectorState::Streaming && status.caught_up);
    tokio::time::timeout(HANG, streams)
        .await
        .expect("it subscribes")
        .unwrap();
}

/// Refuses the first transaction that it gets.
struct Ledger {
    table: (String, String),
    refused: bool,
    transactions: mpsc::UnboundedSender<Vec<u64>>,
}

impl Actor for Ledger {
    type Context = Context<Self>;
}

impl Handler<CommittedTransaction> for Ledger {
    type Result = BatchResult;

    fn handle(&mut self, transaction: CommittedTransaction, _: &mut Self::Context) -> BatchResult {
        let mut ids = Vec::new();
        for entry in transaction.entries() {
            if (entry.schema_name(), entry.table_name()) != (&*self.table.0, &*self.table.1) {
                continue;
            }
            if let Some(change) = entry.row_change()?
                && change.event_type() == EventType::Insert
            {
                for row in change.rows::<Order>() {
                    ids.extend(row?.after.map(|order| order.id));
                }
            }
        }
        if !ids.is_empty() {
            self.transactions.send(ids)?;
            if !std::mem::replace(&mut self.refused, true) {
                return Err("the first one is refused".into());
            }
        }
        Ok(())
    }
}

pub(crate) async fn the_actor_pushes_whole_transactions_however_batches_are_cut(subject: &Subject) {
    let (transactions, mut seen) = mpsc::unbounded_channel();
    let (schema, table) = subject.database.table();
    let ledger = Ledger {
        table: (schema.to_owned(), table.to_owned()),
        refused: false,
        transactions,
    }
    .start();
    // Of the smallest batches: a statement's rows come in several entries, an entry is a batch.
    let settings = CanalConnectorSettings::default()
        .with_filter(subject.filter())
        .with_fetch_size(1)
        .with_window(2)
        .with_back_off(Duration::from_millis(5), Duration::from_millis(50));
    let simple = subject.builder().build().unwrap();
    let connector = CanalConnector::transactions(simple, settings, ledger.recipient()).unwrap();
    let status = connector.watch();
    let connector = connector.start();
    caught_up(status).await;
    subject.database.insert(1..=500);
    subject.database.insert(501..=900);
    subject.database.insert(901..=901);
    let mut last = Vec::new();
    // What was behind the refused one may have come before it comes again.
    let mut count = 0;
    while count < 4 || last != [901] {
        last = tokio::time::timeout(HANG, seen.recv())
            .await
            .unwrap()
            .unwrap();
        count += 1;
        let whole = [ids(1..=500), ids(501..=900), ids(901..=901)];
        assert!(
            whole.contains(&last),
            "{} rows of {:?}",
            last.len(),
            last.first()
        );
        assert!(count < 20, "it comes again and again");
    }
    assert_eq!(connector.send(Stop).await.unwrap(), ConnectorEnd::Stopped);
    let mut connector = subject.subscribed().await;
    subject.database.insert(902..=902);
    let (_, seen) = until_inserted(subject, &mut connector, 1000, 902).await;
    assert_eq!(seen.inserted, [902], "what was handled came again");
}

pub(crate) async fn the_actor_reports_a_server_that_stalls_while_the_binlog_grows(
    subject: &Subject,
) {
    let (ids, mut seen) = mpsc::unbounded_channel();
    let (schema, table) = subject.database.table();
    let reporter = Reporter {
        table: (schema.to_owned(), table.to_owned()),
        ids,
    }
    .start();
    let settings = CanalConnectorSettings::default().with_filter(subject.filter());
    let simple = subject.builder().build().unwrap();
    let binlog = Arc::new(subject.database.binlog());
    let probe = move || {
        let binlog = Arc::clone(&binlog);
        async move { Ok(tokio::task::spawn_blocking(move || binlog()).await?) }
    };
    let connector = CanalConnector::new(simple, settings, reporter.recipient())
        .unwrap()
        .with_binlog_probe(probe, Duration::from_secs(4));
    let mut status = connector.watch();
    let connector = connector.start();
    caught_up(status.clone()).await;
    // A filter that is no regular expression: the server takes it, and its parser dies of it.
    let mut other = subject.connected().await;
    let broken = r"a\.[z-a]".parse().unwrap();
    other.subscribe(&broken).await.unwrap();
    let mut last = 0;
    let stalled = |status: &ConnectorStatus| matches!(status.state, ConnectorState::Stalled { .. });
    let until = tokio::time::Instant::now() + HANG;
    while !stalled(&status.borrow_and_update()) {
        last += 1;
        subject.database.insert(last..=last);
        // The binlog grows until it is told.
        let told = tokio::time::timeout(Duration::from_millis(500), status.wait_for(stalled));
        let _ = told.await;
        assert!(
            tokio::time::Instant::now() < until,
            "{:?}",
            *status.borrow()
        );
    }
    let state = connector.send(GetStatus).await.unwrap();
    assert!(!state.caught_up && state.stalls == 1, "{state:?}");
    assert!(seen.is_empty());
    // Nothing is lost, and the report ends by itself. Below 1.1.4 subscribing takes a batch, which
    // is noticed with the next one and comes again.
    other.subscribe(&subject.filter()).await.unwrap();
    other.disconnect().await;
    subject.database.insert(last + 1..=last + 1);
    let mut missing: BTreeSet<_> = (1..=last + 1).collect();
    while !missing.is_empty() {
        let got = tokio::time::timeout(HANG, seen.recv()).await.unwrap();
        missing.remove(&got.unwrap());
    }
    caught_up(status).await;
    assert_eq!(connector.send(Stop).await.unwrap(), ConnectorEnd::Stopped);
}
