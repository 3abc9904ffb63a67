//! The connector that repairs itself, on the embedded server.

use std::time::{Duration, Instant};

use lockkeeper_canal::testing::{CanalServer, Fault, Request, Restart};
use lockkeeper_canal::{
    CanalConnectorBuilder, CanalError, ClientIdentity, ClientRole, ClusterCanalConnector, Filter,
    Message,
};

use crate::contract::Database as _;
use crate::embedded::Scripted;
use crate::peer::Peer;

/// A guard against a hang, not a measure.
const HANG: Duration = Duration::from_secs(120);

struct Lab {
    server: CanalServer,
    database: Scripted,
}

impl Lab {
    fn new() -> Self {
        let server = CanalServer::builder()
            .destination("example")
            .start()
            .unwrap();
        let database = Scripted::new(server.handle());
        Self { server, database }
    }

    fn builder(&self) -> CanalConnectorBuilder {
        builder([self.server.address().to_string()])
    }

    async fn subscribed(&self) -> ClusterCanalConnector {
        let mut connector = self.builder().build_cluster().unwrap();
        assert_eq!(connector.connect().await.unwrap(), ClientRole::Active);
        connector.subscribe(&Filter::all()).await.unwrap();
        connector
    }
}

fn builder(addresses: impl IntoIterator<Item = String>) -> CanalConnectorBuilder {
    CanalConnectorBuilder::new(ClientIdentity::new("example"))
        .addresses(addresses)
        .retry(5, Duration::from_millis(1), Duration::from_millis(20))
}

async fn next(connector: &mut ClusterCanalConnector) -> Message {
    let until = Instant::now() + HANG;
    loop {
        if let Some(message) = connector.get_without_ack(1000, None).await.unwrap() {
            return message;
        }
        assert!(Instant::now() < until, "no batch comes");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[actix_rt::test]
async fn a_broken_connection_is_repaired_and_the_subscription_applied_again() {
    let lab = Lab::new();
    let mut connector = lab.subscribed().await;
    lab.database.insert(1..=3);
    let first = next(&mut connector).await;
    lab.server.handle().restart(Restart::Killed);
    let again = next(&mut connector).await;
    assert_eq!(again.raw_entries(), first.raw_entries());
    assert!(again.id().epoch() > first.id().epoch());
    connector.ack(again.id()).await.unwrap();
    connector.confirm_acks().await.unwrap();
    assert_eq!(lab.server.handle().statistics().acked_transactions, 1);
}

#[actix_rt::test]
async fn an_ack_from_before_a_repair_is_refused_and_harms_nothing() {
    let lab = Lab::new();
    let mut connector = lab.subscribed().await;
    lab.database.insert(1..=3);
    let first = next(&mut connector).await;
    lab.server.handle().disconnect_all();
    let again = next(&mut connector).await;
    let sent = lab.server.handle().statistics();
    let refused = connector.ack(first.id()).await.unwrap_err();
    assert!(
        matches!(refused, CanalError::StaleBatch { .. }),
        "{refused}"
    );
    let refused = connector.rollback_to(first.id()).await.unwrap_err();
    assert!(
        matches!(refused, CanalError::StaleBatch { .. }),
        "{refused}"
    );
    connector.ack(again.id()).await.unwrap();
    connector.confirm_acks().await.unwrap();
    let after = lab.server.handle().statistics();
    assert_eq!(
        after.connections, sent.connections,
        "the connection is kept"
    );
    assert_eq!(after.acked_transactions, 1);
}

#[actix_rt::test]
async fn a_refused_subscription_is_tried_again() {
    let lab = Lab::new();
    lab.server.handle().inject(
        Request::Subscribe,
        1,
        Fault::refuse("destination:example should start first"),
    );
    let mut connector = lab.subscribed().await;
    lab.database.insert(1..=1);
    next(&mut connector).await;
}

#[actix_rt::test]
async fn the_servers_of_a_list_are_taken_in_turn() {
    let lab = Lab::new();
    let dead = Peer::nobody().await;
    let mut connector = builder([dead, lab.server.address().to_string()])
        .build_cluster()
        .unwrap();
    connector.connect().await.unwrap();
    assert_eq!(
        connector.address(),
        Some(lab.server.address().to_string().as_str())
    );
}

#[actix_rt::test]
async fn the_last_error_is_told_after_so_many_tries() {
    let dead = Peer::nobody().await;
    let mut connector = builder([dead]).build_cluster().unwrap();
    let error = connector.connect().await.unwrap_err();
    assert!(matches!(error, CanalError::Unreachable(_)), "{error}");
    let error = connector.get_without_ack(10, None).await.unwrap_err();
    assert!(matches!(error, CanalError::Unreachable(_)), "{error}");
}

#[actix_rt::test]
async fn a_wrong_password_is_told_at_once() {
    let server = CanalServer::builder()
        .destination("example")
        .user("canal", "right")
        .start()
        .unwrap();
    let mut connector = builder([server.address().to_string()])
        .credentials("canal", "wrong")
        .build_cluster()
        .unwrap();
    let error = connector.connect().await.unwrap_err();
    assert!(matches!(error, CanalError::AuthFailed { .. }), "{error}");
    assert_eq!(server.handle().statistics().connections, 1);
}

#[actix_rt::test]
async fn without_a_subscription_a_get_is_refused_and_not_repeated() {
    let lab = Lab::new();
    let mut connector = lab.builder().build_cluster().unwrap();
    connector.connect().await.unwrap();
    let error = connector.get_without_ack(10, None).await.unwrap_err();
    assert!(matches!(error, CanalError::NotSubscribed { .. }), "{error}");
    let error = connector.get_without_ack(0, None).await.unwrap_err();
    assert!(matches!(error, CanalError::InvalidArgument(_)), "{error}");
    assert_eq!(lab.server.handle().statistics().connections, 1);
}

#[actix_rt::test]
async fn after_unsubscribing_a_repair_does_not_subscribe() {
    let lab = Lab::new();
    let mut connector = lab.subscribed().await;
    connector.unsubscribe().await.unwrap();
    lab.server.handle().disconnect_all();
    let error = loop {
        match connector.get_without_ack(10, None).await {
            Err(error) => break error,
            Ok(message) => assert!(message.is_none()),
        }
    };
    assert!(matches!(error, CanalError::NotSubscribed { .. }), "{error}");
}

/// What Java's `CanalConnector` interface has, in the connector that repairs itself; the contracts
/// do the same with the simple one.
#[actix_rt::test]
async fn every_call_of_javas_interface_is_there() {
    let lab = Lab::new();
    let mut connector = lab.builder().build_cluster().unwrap();
    assert_eq!(connector.connect().await.unwrap(), ClientRole::Active);
    assert!(!connector.check_valid());
    connector.subscribe(&Filter::keep()).await.unwrap();
    assert!(connector.check_valid());
    lab.database.insert(1..=1);
    let first = next(&mut connector).await;
    connector.rollback().await.unwrap();
    assert_eq!(connector.outstanding_batches(), 0);
    let again = next(&mut connector).await;
    assert_eq!(again.raw_entries(), first.raw_entries());
    connector.rollback_to(again.id()).await.unwrap();
    let again = next(&mut connector).await;
    assert_eq!(again.raw_entries(), first.raw_entries());
    connector.ack(again.id()).await.unwrap();
    lab.database.insert(2..=2);
    let wait = Some(Duration::from_millis(1));
    let until = Instant::now() + HANG;
    let got = loop {
        if let Some(message) = connector.get(1000, wait).await.unwrap() {
            break message;
        }
        assert!(Instant::now() < until, "no batch comes");
    };
    assert_ne!(got.raw_entries(), first.raw_entries());
    connector.confirm_acks().await.unwrap();
    assert_eq!(lab.server.handle().statistics().acked_transactions, 2);
    connector.unsubscribe().await.unwrap();
    connector.disconnect().await;
    assert!(!connector.check_valid());
    assert_eq!(lab.server.handle().statistics().unsubscriptions, 1);
}
