//! What a console is told of a region.

use std::time::Duration;

use super::*;
use crate::coordinator::status::{RoundStatus, WorkerStatus};
use crate::graph::topology::{Connection, InputPort, OperatorNode, Partition, Role, Topology};
use crate::protocol::InstanceId;

fn instance(operator: &str, index: u16) -> InstanceId {
    InstanceId {
        operator: operator.to_owned(),
        index,
    }
}

fn topology() -> Topology {
    let operator = |name: &str, role, width, inputs: usize| OperatorNode {
        name: name.to_owned(),
        role,
        width,
        inputs: vec![InputPort::default(); inputs],
        outputs: 1,
        labels: Vec::new(),
    };
    Topology {
        operators: vec![
            operator("source", Role::Start, 1, 0),
            operator("totals", Role::Inner, 2, 1),
        ],
        connections: vec![Connection {
            from: 0,
            output: 0,
            to: 1,
            input: 0,
            partition: Partition::Keyed,
        }],
    }
}

/// Two workers: one runs the source and one instance of the totals, the other the other one.
fn status(state: RegionState) -> RegionStatus {
    let worker = |name: &str, instances: Vec<InstanceId>| WorkerStatus {
        worker: name.to_owned(),
        worker_epoch: 1,
        address: String::new(),
        instances: instances.into(),
    };
    RegionStatus {
        region: "orders".to_owned(),
        term: 3,
        state,
        reason: None,
        seq: 8,
        completed: 7,
        oldest_retained: 6,
        attempt: 1,
        consecutive_resets: 0,
        workers: vec![
            worker("a", vec![instance("source", 0), instance("totals", 0)]),
            worker("b", vec![instance("totals", 1)]),
        ],
        waiting: Vec::new(),
        stale_messages: 0,
        finished: false,
        round: None,
        sources_paused_since_unix_ms: None,
    }
}

fn round(a: RoundPhase, b: RoundPhase, publishing: bool) -> Option<RoundStatus> {
    Some(RoundStatus {
        seq: 8,
        last: false,
        workers: vec![("a".to_owned(), a), ("b".to_owned(), b)],
        publishing,
    })
}

#[test]
fn a_round_is_seen_flowing_through_the_graph() {
    let mut status = status(RegionState::Processing);
    let picture = picture::of(&topology(), &status);
    assert_eq!(picture.caption, "tuples flow, no round is under way");
    assert!(picture.edges[0].flows);
    assert_eq!(picture.nodes[1].text, "flows");
    assert_eq!(picture.nodes[1].parts, [Level::Good, Level::Good]);

    status.state = RegionState::Draining;
    status.round = round(RoundPhase::Durable, RoundPhase::Draining, false);
    let picture = picture::of(&topology(), &status);
    assert_eq!(
        picture.caption,
        "round 8: 1 of 2 workers drained, 1 durable"
    );
    assert!(!picture.edges[0].flows);
    assert_eq!(picture.nodes[0].text, "durable");
    assert_eq!(picture.nodes[1].text, "draining: 1 of 2");
    assert_eq!(picture.nodes[1].parts, [Level::Good, Level::Busy]);

    status.state = RegionState::CheckpointPending;
    status.round = round(RoundPhase::Durable, RoundPhase::Durable, true);
    let picture = picture::of(&topology(), &status);
    assert_eq!(picture.caption, "round 8: the manifest is being written");
    assert!(picture.edges[0].flows);
    assert_eq!(workers(&status).rows[1][1], "durable".into());
}

#[test]
fn what_has_no_worker_is_seen_at_its_operator() {
    let mut status = status(RegionState::Unhealthy);
    status.workers.pop();
    status.waiting = vec![instance("totals", 1)];
    let picture = picture::of(&topology(), &status);
    assert_eq!(picture.nodes[0].level, Level::Busy);
    assert_eq!(picture.nodes[1].level, Level::Bad);
    assert_eq!(picture.nodes[1].text, "no place: 1 of 2");
}

#[test]
fn only_states_in_which_work_is_done_are_ready() {
    for (state, ready) in [
        (RegionState::Opening, false),
        (RegionState::Started, false),
        (RegionState::Processing, true),
        (RegionState::Draining, true),
        (RegionState::CheckpointPending, true),
        (RegionState::Resetting, false),
        (RegionState::Unhealthy, false),
        (RegionState::Failed, false),
        (RegionState::Ending, true),
        (RegionState::Completed, true),
    ] {
        assert_eq!(judged(state).1, ready, "{state:?}");
    }
}

#[test]
fn a_paused_region_says_so_and_offers_to_go_on() {
    let names = |state, paused| -> Vec<String> {
        let offered = offered(state, paused).into_iter();
        offered.map(|action| action.name).collect()
    };
    assert_eq!(
        names(RegionState::Processing, false),
        ["cut", "reset", "pause"]
    );
    assert_eq!(
        names(RegionState::Processing, true),
        ["cut", "reset", "resume"]
    );
    assert_eq!(names(RegionState::Failed, false), ["force-reset"]);
    assert_eq!(names(RegionState::Failed, true), ["force-reset", "resume"]);
    assert_eq!(names(RegionState::Ending, true), [""; 0]);

    let mut status = status(RegionState::Processing);
    assert_eq!(
        named(&status),
        ("Processing".to_owned(), Level::Good),
        "not paused"
    );
    status.sources_paused_since_unix_ms = Some(1_700_000_000_000);
    let (text, level) = named(&status);
    assert_eq!(
        (text.as_str(), level),
        ("Processing, paused", Level::Warning)
    );
    status.state = RegionState::Failed;
    assert_eq!(named(&status).1, Level::Bad, "not better than it is");
}

#[test]
fn the_states_of_every_round_are_no_news() {
    let change = |from, to| RegionEvent::State {
        from,
        to,
        reason: None,
    };
    let routine = change(RegionState::Processing, RegionState::Draining);
    assert_eq!(events::told(&routine), None);
    let news = change(RegionState::Processing, RegionState::Unhealthy);
    let told = events::told(&news).unwrap();
    assert_eq!(told.text, "Processing → Unhealthy");
    assert_eq!(told.level, Level::Bad);
    let done = RegionEvent::ResetCompleted {
        attempt: 2,
        restored: 7,
        took: Duration::from_millis(120),
    };
    let told = events::told(&done).unwrap();
    assert_eq!(told.text, "reset 2 is done after 120ms: back at cut 7");
}
