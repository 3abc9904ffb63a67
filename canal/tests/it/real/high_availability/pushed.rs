//! The connector that pushes, with a running monitor.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use lockkeeper_canal::{
    CanalConnector, CanalConnectorSettings, ClientRunningMonitor, ConnectorEnd, ConnectorState,
    ConnectorStatus, Stop,
};
use tokio::sync::{mpsc, watch};

use super::cluster::{Cluster, HANG, SESSION, on_the_cluster};
use super::line::Line;
use crate::contract::{Database as _, Reporter};
use crate::real::MariaDb;

/// An actor that follows the cluster's destination, and what its handler gets.
struct Follower {
    connector: Addr<CanalConnector>,
    status: watch::Receiver<ConnectorStatus>,
    ids: mpsc::UnboundedReceiver<u64>,
}

impl Follower {
    async fn start(
        cluster: &Cluster,
        database: &Arc<MariaDb>,
        monitor: &ClientRunningMonitor,
    ) -> Self {
        let (told, ids) = mpsc::unbounded_channel();
        let (schema, table) = database.table();
        let reporter = Reporter {
            table: (schema.to_owned(), table.to_owned()),
            ids: told,
        };
        // Being standby is no failure: none is allowed here.
        let settings = CanalConnectorSettings::default()
            .with_filter(cluster.filter(database))
            .with_back_off(Duration::from_millis(5), Duration::from_millis(50))
            .with_reconnect_limit(Some(0));
        let simple = cluster.builder(monitor).await.build().unwrap();
        let recipient = reporter.start().recipient();
        let connector = CanalConnector::new(simple, settings, recipient).unwrap();
        Self {
            status: connector.watch(),
            connector: connector.start(),
            ids,
        }
    }

    async fn until(&mut self, state: ConnectorState) {
        let reached = self.status.wait_for(|status| status.state == state);
        let reached = tokio::time::timeout(HANG, reached).await.map(|_| ());
        assert!(reached.is_ok(), "{state:?}: {:?}", *self.status.borrow());
    }

    /// Waits until all of these rows came; they may come more than once.
    async fn rows(&mut self, wanted: RangeInclusive<u64>) {
        let mut missing: BTreeSet<_> = wanted.collect();
        while !missing.is_empty() {
            let id = tokio::time::timeout(HANG, self.ids.recv()).await;
            missing.remove(&id.expect("a row comes").unwrap());
        }
    }

    async fn stop(self) {
        let end = tokio::time::timeout(HANG, self.connector.send(Stop)).await;
        assert_eq!(end.unwrap().unwrap(), ConnectorEnd::Stopped);
    }
}

#[test]
fn the_actor_waits_as_standby_and_pushes_once_it_is_its_turn() {
    on_the_cluster("waits_as_standby", async |cluster, database| {
        let monitors = [(); 2].map(|()| cluster.monitor().start().unwrap());
        let mut first = Follower::start(cluster, database, &monitors[0]).await;
        first.until(ConnectorState::Streaming).await;
        let mut second = Follower::start(cluster, database, &monitors[1]).await;
        second.until(ConnectorState::Standby).await;
        cluster.insert(database, 1..=5);
        first.rows(1..=5).await;
        cluster.release().await;
        second.until(ConnectorState::Streaming).await;
        cluster.insert(database, 6..=10);
        second.rows(6..=10).await;
        // And back: what stops makes room.
        second.stop().await;
        cluster.insert(database, 11..=15);
        first.rows(11..=15).await;
        assert_eq!(first.status.borrow().connections, 2);
        first.stop().await;
    });
}

#[test]
fn the_actor_pushes_nothing_without_zookeeper_and_goes_on_with_it() {
    on_the_cluster("nothing_without", async |cluster, database| {
        let line = Line::to(&cluster.ensemble).await;
        let monitor = ClientRunningMonitor::builder(&line.address, cluster.identity())
            .session(SESSION)
            .start()
            .unwrap();
        let mut follower = Follower::start(cluster, database, &monitor).await;
        follower.until(ConnectorState::Streaming).await;
        cluster.insert(database, 1..=5);
        follower.rows(1..=5).await;
        line.cut();
        follower.until(ConnectorState::Standby).await;
        cluster.insert(database, 6..=10);
        line.mend();
        follower.rows(6..=10).await;
        follower.stop().await;
    });
}
