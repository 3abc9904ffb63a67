//! What drivers of real servers do when their link goes silent, when the server is started again, and
//! when it has lost its data: the same tests for each.

use std::time::{Duration, Instant};

use lockkeeper_fencing::clock::{Clock, SystemClock};
use lockkeeper_fencing::election::{ElectionError, LeaderElectionDriverFactory, Leadership};
use lockkeeper_fencing::retrieval::{LeaderRetrievalDriverFactory, LeaderRetrievalService};
use tokio::sync::mpsc::UnboundedReceiver;

use super::servers::Server;
use crate::link::Link;
use crate::told::{self, Told, contend, granted, next};

/// A driver for the server at that address.
pub(super) trait Connect<D>: Fn(&str) -> D {}

impl<D, F: Fn(&str) -> D> Connect<D> for F {}

/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(180);

/// Another one leads only after the old one's own deadline has passed; that one is told, and contends
/// again when its link is back.
pub(super) async fn a_silent_link_stops_the_leader_before_the_next_one_leads<D>(
    address: &str,
    driver: impl Connect<D>,
) where
    D: LeaderElectionDriverFactory,
{
    let link = Link::to(address);
    let (old, mut old_told) = contend(driver(&link.address)).await;
    let first = granted(&mut old_told).await;
    let (new, mut new_told) = contend(driver(address)).await;
    link.silence();
    let second = granted(&mut new_told).await;
    assert!(first.deadline.check().is_err(), "two may act at once");
    assert!(matches!(next(&mut old_told).await, Told::Revoked));
    assert!(second.token.epoch > first.token.epoch);
    assert_eq!(second.token.lineage, first.token.lineage);
    // Back on the link, it contends again and comes after the other one.
    link.restore();
    new.close().await;
    let third = granted(&mut old_told).await;
    assert!(third.token.epoch > second.token.epoch);
    old.close().await;
}

/// A leader that nobody replaced keeps its token over an outage, and makes no effect meanwhile. The
/// driver keeps working on suspension.
pub(super) async fn a_leader_may_outlast_a_suspension_without_effects<D>(
    mut server: Server,
    driver: impl Connect<D>,
) where
    D: LeaderElectionDriverFactory,
{
    server.start();
    let link = Link::to(&server.address);
    let (service, mut told) = contend(driver(&link.address)).await;
    let leadership = granted(&mut told).await;
    // Cut until the own deadline has passed, and back before the server's session has.
    link.silence();
    until_effects_are(false, &leadership, &mut told).await;
    link.restore();
    until_effects_are(true, &leadership, &mut told).await;
    service.close().await;
}

async fn until_effects_are(
    allowed: bool,
    leadership: &Leadership,
    told: &mut UnboundedReceiver<Told>,
) {
    let began = Instant::now();
    while leadership.deadline.check().is_ok() != allowed {
        assert_is_not_revoked(told);
        assert!(began.elapsed() < LIMIT, "effects stay as they are");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn assert_is_not_revoked(told: &mut UnboundedReceiver<Told>) {
    while let Ok(told) = told.try_recv() {
        assert!(matches!(told, Told::Failed(_)), "told was {told:?}");
    }
}

/// A connection that breaks within the session: the leader goes on under its token, and `candidates`
/// finds one candidate, not also what a request left whose answer was lost.
pub(super) async fn a_reconnect_keeps_the_leader_and_leaves_one_candidate<D>(
    mut server: Server,
    driver: impl Connect<D>,
    candidates: impl AsyncFn(&str) -> usize,
) where
    D: LeaderElectionDriverFactory,
{
    server.start();
    let link = Link::to(&server.address);
    let (service, mut told) = contend(driver(&link.address)).await;
    let leadership = granted(&mut told).await;
    for _ in 0..2 {
        link.restore();
        until_renewed(&leadership, &mut told).await;
    }
    assert_eq!(candidates(&server.address).await, 1);
    service.close().await;
}

/// Until an answer that comes after now has moved the deadline.
async fn until_renewed(leadership: &Leadership, told: &mut UnboundedReceiver<Told>) {
    let deadline = || SystemClock.now().after(leadership.deadline.remaining());
    let before = deadline();
    let began = Instant::now();
    while leadership.deadline.check().is_err() || deadline() <= before.after(MOVED) {
        assert_is_not_revoked(told);
        assert!(began.elapsed() < LIMIT, "it is not renewed any longer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_is_not_revoked(told);
}

/// A retrieval that hears nothing while the leader changes shows the next one when it hears again.
pub(super) async fn a_retrieval_finds_the_next_leader_after_its_link_was_silent<D>(
    address: &str,
    driver: impl Connect<D>,
) where
    D: LeaderElectionDriverFactory + LeaderRetrievalDriverFactory,
{
    let link = Link::to(address);
    let retrieval = LeaderRetrievalService::new(driver(&link.address));
    let mut found = retrieval.retrieve(told::component()).unwrap();
    let mut shown = None;
    for name in ["first", "second"] {
        let (service, mut told) = contend(driver(address)).await;
        let leadership = granted(&mut told).await;
        let election = service.election(told::component());
        election
            .confirm(leadership.token.session, name)
            .await
            .unwrap();
        link.restore();
        let leader = match &shown {
            None => tokio::time::timeout(LIMIT, found.leader()).await,
            Some(before) => tokio::time::timeout(LIMIT, found.leader_other_than(before)).await,
        };
        let leader = leader.unwrap().unwrap();
        assert_eq!(
            (leader.address.as_str(), leader.token),
            (name, leadership.token)
        );
        shown = Some(leader);
        link.silence();
        service.close().await;
    }
}

/// A server that is killed and is there again within the session: its leader goes on under the same
/// token, and nobody else was granted.
pub(super) async fn a_leader_keeps_its_token_over_a_restart<D>(
    mut server: Server,
    driver: impl Connect<D>,
) where
    D: LeaderElectionDriverFactory,
{
    server.start();
    let (service, mut told) = contend(driver(&server.address)).await;
    let leadership = granted(&mut told).await;
    let (standby, mut standby_told) = contend(driver(&server.address)).await;
    server.kill();
    server.start();
    // Nothing but an answer of the new process moves it.
    until_renewed(&leadership, &mut told).await;
    assert_is_not_revoked(&mut standby_told);
    service.close().await;
    let next = granted(&mut standby_told).await;
    assert!(next.token.epoch > leadership.token.epoch);
    assert_eq!(next.token.lineage, leadership.token.lineage);
    standby.close().await;
}

/// More than the two readings of a clock are apart.
const MOVED: Duration = Duration::from_millis(500);

/// A server that comes back without its data counts epochs anew: whoever led there does not lead.
pub(super) async fn a_candidate_does_not_lead_at_a_server_that_lost_its_data<D>(
    mut server: Server,
    driver: impl Connect<D>,
) where
    D: LeaderElectionDriverFactory,
{
    server.start();
    let (service, mut told) = contend(driver(&server.address)).await;
    let leadership = granted(&mut told).await;
    server.kill();
    server.forget();
    server.start();
    loop {
        match tokio::time::timeout(LIMIT, told.recv()).await {
            Ok(Some(Told::Failed(ElectionError::LineageChanged { expected, found }))) => {
                assert_eq!(expected, leadership.token.lineage);
                assert_ne!(found, expected);
                break;
            }
            Ok(Some(Told::Failed(_) | Told::Revoked)) => {}
            other => panic!("it is not told that the lineage has changed, but {other:?}"),
        }
    }
    service.close().await;
}
