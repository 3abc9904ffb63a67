//! The worker's machine, without actors and streams.

mod by_hand;

use super::*;
use crate::manifest::{ObjectRecord, RestorePoint};
use crate::operator::control::{InstanceEvent, StagedToken};
use crate::protocol::{InstanceTimings, Order, Placed, Refusal};

const LEASE: Duration = Duration::from_secs(10);

fn at(milliseconds: u64) -> Duration {
    Duration::from_secs(1_000) + Duration::from_millis(milliseconds)
}

fn id(operator: &str, index: u16) -> InstanceId {
    InstanceId {
        operator: operator.to_owned(),
        index,
    }
}

fn stamp(term: u64, seq: u64, attempt: u64) -> Stamp {
    Stamp { term, seq, attempt }
}

fn facts(start: bool, width: u16, state_type: &'static str) -> OperatorFacts {
    OperatorFacts {
        start,
        autonomous: false,
        permits: false,
        oldest_state_version: 1,
        rescale: crate::state::Rescale::Refused,
        width,
        state_type,
        state_version: 2,
    }
}

fn machine() -> Machine {
    Machine::new(Setup {
        region: "orders".to_owned(),
        worker: "a".to_owned(),
        incarnation: Uuid::nil(),
        address: String::new(),
        slots: 4,
        labels: Vec::new(),
        graph: 7,
        process: None,
        operators: BTreeMap::from([
            ("source".to_owned(), facts(true, 1, "position")),
            ("totals".to_owned(), facts(false, 2, "totals")),
        ]),
    })
}

fn registered(epoch: u64) -> Event {
    Event::RegisterAnswered(Ok(Registered {
        term: 3,
        worker_epoch: epoch,
        lease: LEASE,
        sources_paused: false,
    }))
}

fn notice(number: u64, stamp: Stamp, order: Order) -> Event {
    Event::Notice(Notice {
        number,
        worker_epoch: 1,
        stamp,
        order,
    })
}

fn placement(instances: &[(InstanceId, &str)]) -> Placement {
    let placed = |(instance, worker): &(InstanceId, &str)| Placed {
        instance: instance.clone(),
        worker: (*worker).to_owned(),
        worker_epoch: 1,
        address: String::new(),
    };
    Placement {
        instances: instances.iter().map(placed).collect(),
    }
}

fn both() -> Placement {
    placement(&[
        (id("source", 0), "a"),
        (id("totals", 0), "a"),
        (id("totals", 1), "b"),
    ])
}

fn reset(number: u64, attempt: u64, restore: Option<RestorePoint>) -> Event {
    let order = Order::Reset {
        placement: both(),
        restore,
        first_start: false,
    };
    notice(number, stamp(3, 5, attempt), order)
}

fn report(launch: u64, stamp: Stamp, event: InstanceEvent) -> Event {
    Event::Report(Report {
        launch,
        stamp,
        event,
    })
}

fn timings(instance: InstanceId) -> InstanceTimings {
    InstanceTimings {
        instance,
        start_delay: 0,
        blocking: 0,
        write: 0,
        bytes: 0,
        drain: 0,
        prepare: 0,
        queued: 0,
    }
}

fn told(actions: &[Action]) -> Vec<ProgressEvent> {
    let event = |action: &Action| match action {
        Action::Progress(progress) => Some(progress.event.clone()),
        _ => None,
    };
    actions.iter().filter_map(event).collect()
}

/// Registered at 0 and reset under attempt 1: `source[0]` is launch 1, `totals[0]` launch 2.
fn standing() -> Machine {
    let mut machine = machine();
    machine.step(at(0), Event::Tick);
    machine.step(at(0), registered(1));
    machine.step(at(0), reset(1, 1, None));
    machine.step(at(0), report(1, stamp(3, 5, 1), InstanceEvent::ResetDone));
    let actions = machine.step(at(0), report(2, stamp(3, 5, 1), InstanceEvent::ResetDone));
    assert_eq!(told(&actions), [ProgressEvent::ResetDone]);
    machine.step(at(0), Event::ProgressAnswered(Ok(())));
    machine
}

#[test]
fn the_deadline_counts_from_the_send_time_of_the_answered_heartbeat() {
    let mut machine = machine();
    machine.step(at(0), Event::Tick);
    let actions = machine.step(at(100), registered(1));
    assert!(
        actions.contains(&Action::RenewLease { until: at(8_000) }),
        "{actions:?}"
    );
    let actions = machine.step(at(2_500), Event::Tick);
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Heartbeat { .. }))
    );
    let answer = HeartbeatAnswer {
        term: 3,
        notices: Vec::new(),
        sources_paused: false,
    };
    let actions = machine.step(at(4_000), Event::HeartbeatAnswered(Ok(answer)));
    assert_eq!(actions, [Action::RenewLease { until: at(10_500) }]);
}

#[test]
fn a_lost_lease_abandons_everything_and_registers_anew() {
    let mut machine = standing();
    let actions = machine.step(at(8_000), Event::Tick);
    assert_eq!(actions[0], Action::Abandon);
    let Some(Action::Register(register)) = actions.get(1) else {
        panic!("{actions:?}")
    };
    assert_eq!((register.attempt, &register.standing), (2, &None));
}

#[test]
fn an_answer_after_the_deadline_does_not_bring_the_lease_back() {
    let mut machine = standing();
    machine.step(at(2_500), Event::Tick);
    let answer = HeartbeatAnswer {
        term: 3,
        notices: Vec::new(),
        sources_paused: false,
    };
    let actions = machine.step(at(9_000), Event::HeartbeatAnswered(Ok(answer)));
    assert_eq!(actions[0], Action::Abandon, "{actions:?}");
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::RenewLease { .. }))
    );
}

#[test]
fn s22_a_quiet_worker_says_how_it_stands_when_it_registers_with_a_new_coordinator() {
    let mut machine = standing();
    machine.step(at(2_500), Event::Tick);
    let refusal = Refusal::NotRegistered {
        worker: "a".to_owned(),
        worker_epoch: 1,
    };
    let actions = machine.step(at(2_600), Event::HeartbeatAnswered(Err(refusal.into())));
    let Some(Action::Register(register)) = actions.first() else {
        panic!("{actions:?}")
    };
    let standing = register.standing.as_ref().expect("everything runs");
    assert_eq!(standing.stamp, stamp(3, 5, 1));
    assert_eq!(standing.instances, [id("source", 0), id("totals", 0)]);
    let answer = Registered {
        term: 4,
        worker_epoch: 9,
        lease: LEASE,
        sources_paused: false,
    };
    let actions = machine.step(at(2_700), Event::RegisterAnswered(Ok(answer)));
    assert_eq!(actions, [Action::RenewLease { until: at(10_600) }]);
    let order = Notice {
        number: 1,
        worker_epoch: 9,
        stamp: stamp(4, 6, 1),
        order: Order::Resume,
    };
    let actions = machine.step(at(2_800), Event::Notice(order));
    assert_eq!(actions, [Action::Resume { launch: 1, seq: 6 }]);
}

/// However quickly cuts follow one another: the coordinator waits for no more than 64.
#[test]
fn many_notices_are_acknowledged_before_the_next_heartbeat_is_due() {
    let mut machine = standing();
    let mut acknowledged = Vec::new();
    for number in 1..=40 {
        let actions = machine.step(at(2), notice(number, stamp(3, 5, 1), Order::Resume));
        for action in actions {
            if let Action::Heartbeat { heartbeat, .. } = action {
                acknowledged.push(heartbeat.acknowledged);
                let answer = HeartbeatAnswer {
                    term: 3,
                    notices: Vec::new(),
                    sources_paused: false,
                };
                machine.step(at(2), Event::HeartbeatAnswered(Ok(answer)));
            }
        }
    }
    assert_eq!(acknowledged, [16, 32]);
}

#[test]
fn s3_repeated_early_and_stale_notices_are_dropped_and_counted() {
    let mut machine = standing();
    assert_eq!(machine.step(at(1), reset(1, 1, None)), []);
    let actions = machine.step(at(1), notice(3, stamp(3, 5, 1), Order::Resume));
    assert!(
        matches!(actions[..], [Action::Heartbeat { .. }]),
        "it asks for what it missed"
    );
    machine.step(
        at(1),
        notice(
            2,
            stamp(3, 4, 0),
            Order::Drain {
                last: false,
                completed: 0,
            },
        ),
    );
    let mut foreign = Notice {
        number: 3,
        worker_epoch: 8,
        stamp: stamp(3, 5, 1),
        order: Order::Drain {
            last: false,
            completed: 0,
        },
    };
    machine.step(at(1), Event::Notice(foreign.clone()));
    assert_eq!(
        machine.dropped(),
        Dropped {
            repeated_notices: 1,
            stale_notices: 2,
            early_notices: 1,
            stale_reports: 0
        }
    );
    foreign.worker_epoch = 1;
    let actions = machine.step(at(1), Event::Notice(foreign));
    let stamp = stamp(3, 5, 1);
    assert_eq!(
        actions,
        [Action::Drain {
            launch: 1,
            stamp,
            last: false,
            completed: 0,
        }]
    );
}

#[test]
fn a_round_is_told_when_the_last_instance_has_done_its_part() {
    let mut machine = standing();
    let round = stamp(3, 5, 1);
    machine.step(
        at(1),
        notice(
            2,
            round,
            Order::Drain {
                last: false,
                completed: 0,
            },
        ),
    );
    let prepared = InstanceEvent::Prepared;
    assert_eq!(machine.step(at(1), report(1, round, prepared.clone())), []);
    let object = ObjectRecord {
        instance: id("totals", 0),
        object: "o".to_owned(),
        length: 1,
        crc32: 2,
        state_type: "totals".to_owned(),
        state_version: 2,
        encoding: crate::store::Encoding::Plain,
        base: Vec::new(),
    };
    let durable = |object: Option<ObjectRecord>, token: Option<StagedToken>, of: InstanceId| {
        InstanceEvent::Durable {
            object,
            token,
            timings: Box::new(timings(of)),
        }
    };
    let of_source = durable(None, None, id("source", 0));
    assert_eq!(machine.step(at(1), report(1, round, of_source)), []);
    let actions = machine.step(at(1), report(2, round, prepared));
    assert_eq!(told(&actions), [ProgressEvent::BlockingCheckpointDone]);
    let token = StagedToken {
        token: vec![1],
        can_take_back: true,
    };
    let of_totals = durable(Some(object.clone()), Some(token), id("totals", 0));
    machine.step(at(1), report(2, round, of_totals));
    let actions = machine.step(at(1), Event::ProgressAnswered(Ok(())));
    let [
        ProgressEvent::CheckpointDone {
            objects,
            tokens,
            timings,
        },
    ] = &told(&actions)[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!((objects, timings.len()), (&vec![object], 2));
    assert_eq!(
        (tokens[0].seq, &tokens[0].token, tokens[0].can_take_back),
        (5, &vec![1], true)
    );
}

#[test]
fn a_cut_is_told_as_committed_when_every_instance_has_committed() {
    let mut machine = standing();
    let order = Order::Checkpointed {
        seq: 5,
        oldest_retained: 4,
    };
    let actions = machine.step(at(1), notice(2, stamp(3, 6, 1), order));
    assert_eq!(actions.len(), 2, "{actions:?}");
    let done = InstanceEvent::Committed { seq: 5 };
    assert_eq!(
        machine.step(at(1), report(2, stamp(3, 5, 1), done.clone())),
        []
    );
    let actions = machine.step(at(1), report(1, stamp(3, 5, 1), done));
    assert_eq!(told(&actions), [ProgressEvent::Committed { seq: 5 }]);
}

#[test]
fn progress_is_repeated_until_taken_and_dropped_by_a_reset() {
    let mut machine = standing();
    let failed = InstanceEvent::Failed {
        reason: "x".to_owned(),
        permanent: false,
        alive: true,
    };
    let actions = machine.step(at(1), report(2, stamp(3, 5, 1), failed));
    assert_eq!(told(&actions).len(), 1);
    let lost = || LinkError::Unreachable("lost".to_owned());
    machine.step(at(2), Event::ProgressAnswered(Err(lost())));
    assert_eq!(machine.wake_at(), Some(at(2) + RETRY));
    assert_eq!(told(&machine.step(at(2) + RETRY, Event::Tick)).len(), 1);
    machine.step(at(200), reset(2, 2, None));
    machine.step(at(200), Event::ProgressAnswered(Err(lost())));
    assert_eq!(told(&machine.step(at(400), Event::Tick)), []);
}

#[test]
fn a_healthy_instance_is_kept_and_a_dead_or_silent_one_is_replaced() {
    let mut machine = standing();
    let gone = InstanceEvent::Failed {
        reason: "x".to_owned(),
        permanent: false,
        alive: false,
    };
    machine.step(at(1), report(2, stamp(3, 5, 1), gone));
    let launches = |actions: &[Action]| {
        let launch = |action: &Action| match action {
            Action::Launch { instance, .. } => Some(instance.to_string()),
            _ => None,
        };
        actions.iter().filter_map(launch).collect::<Vec<_>>()
    };
    let actions = machine.step(at(2), reset(2, 2, None));
    assert_eq!(launches(&actions), ["totals[0]"]);
    machine.step(at(3), report(1, stamp(3, 5, 2), InstanceEvent::ResetDone));
    let actions = machine.step(at(4), reset(3, 3, None));
    assert_eq!(
        launches(&actions),
        ["totals[0]"],
        "it did not answer the reset before"
    );
    let late = report(3, stamp(3, 5, 2), InstanceEvent::ResetDone);
    assert_eq!(machine.step(at(5), late), []);
    assert_eq!(machine.dropped().stale_reports, 1);
}

#[test]
fn s30_state_of_a_newer_program_is_refused_before_any_operator_is_touched() {
    let mut machine = standing();
    let object = ObjectRecord {
        instance: id("totals", 1),
        object: "o".to_owned(),
        length: 1,
        crc32: 2,
        state_type: "totals".to_owned(),
        state_version: 3,
        encoding: crate::store::Encoding::Plain,
        base: Vec::new(),
    };
    let point = RestorePoint {
        seq: 4,
        oldest_retained: 3,
        objects: vec![object],
        tokens: Vec::new(),
        widths: std::collections::BTreeMap::default(),
    };
    let actions = machine.step(at(1), reset(2, 2, Some(point)));
    assert_eq!(actions.len(), 1, "{actions:?}");
    let [
        ProgressEvent::Failed {
            permanent: true,
            reason,
            ..
        },
    ] = &told(&actions)[..]
    else {
        panic!("{actions:?}")
    };
    assert!(
        reason.contains("totals[1]") && reason.contains("version 3"),
        "{reason}"
    );
}

#[test]
fn another_graph_ends_the_worker() {
    let mut machine = machine();
    machine.step(at(0), Event::Tick);
    let refusal = Refusal::AnotherGraph { ours: 1, theirs: 7 };
    let actions = machine.step(at(1), Event::RegisterAnswered(Err(refusal.clone().into())));
    assert_eq!(
        actions,
        [Action::Abandon, Action::Finish(WorkerEnd::Refused(refusal))]
    );
    assert_eq!(machine.wake_at(), None);
}

#[test]
fn a_checkpoint_that_becomes_durable_after_the_resume_is_told_of_its_own_round() {
    let mut machine = standing();
    let round = stamp(3, 5, 1);
    machine.step(
        at(1),
        notice(
            2,
            round,
            Order::Drain {
                last: false,
                completed: 0,
            },
        ),
    );
    for launch in [1, 2] {
        let prepared = InstanceEvent::Prepared;
        machine.step(at(1), report(launch, round, prepared));
    }
    machine.step(at(1), Event::ProgressAnswered(Ok(())));
    machine.step(at(2), notice(3, stamp(3, 6, 1), Order::Resume));
    let mut actions = Vec::new();
    for (instance, launch) in [(id("source", 0), 1), (id("totals", 0), 2)] {
        let durable = InstanceEvent::Durable {
            object: None,
            token: None,
            timings: Box::new(timings(instance)),
        };
        actions.extend(machine.step(at(3), report(launch, round, durable)));
    }
    let stamps: Vec<Stamp> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Progress(progress) => Some(progress.stamp),
            _ => None,
        })
        .collect();
    assert_eq!(stamps, [round]);
}

#[test]
fn an_instance_with_nothing_to_write_says_so_once() {
    let mut machine = standing();
    let round = stamp(3, 5, 1);
    let nothing = |of| InstanceEvent::NothingToWrite {
        timings: Box::new(timings(of)),
    };
    // A worker without start operators hears of the round by the first report.
    let first = report(2, round, nothing(id("totals", 0)));
    assert_eq!(machine.step(at(1), first), []);
    let last = report(1, round, nothing(id("source", 0)));
    let actions = machine.step(at(1), last);
    assert_eq!(told(&actions), [ProgressEvent::BlockingCheckpointDone]);
    let actions = machine.step(at(1), Event::ProgressAnswered(Ok(())));
    let [ProgressEvent::CheckpointDone { timings, .. }] = &told(&actions)[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(timings.len(), 2);
}

#[test]
fn what_becomes_durable_after_its_cut_was_abandoned_begins_no_round() {
    let mut machine = standing();
    let round = stamp(3, 5, 1);
    for launch in [1, 2] {
        machine.step(at(1), report(launch, round, InstanceEvent::Prepared));
    }
    machine.step(at(1), Event::ProgressAnswered(Ok(())));
    let order = Order::Abandoned { seq: 5 };
    machine.step(at(1), notice(2, stamp(3, 6, 1), order));
    assert!(machine.standing().is_some());
    let durable = InstanceEvent::Durable {
        object: None,
        token: None,
        timings: Box::new(timings(id("totals", 0))),
    };
    assert_eq!(machine.step(at(2), report(2, round, durable)), []);
    assert!(machine.standing().is_some(), "nothing is under way");
}

/// A view has a line for each instance: nobody makes one for each of them in each cut.
#[test]
fn an_instances_part_of_a_cut_changes_nothing_that_is_shown() {
    let mut machine = standing();
    let at_cut = stamp(3, 6, 1);
    let drain = Order::Drain {
        last: false,
        completed: 5,
    };
    machine.step(at(10), notice(2, at_cut, drain));
    let shown = machine.view();
    let parts = [
        InstanceEvent::Prepared,
        InstanceEvent::NothingToWrite {
            timings: Box::new(timings(id("source", 0))),
        },
        InstanceEvent::Durable {
            object: None,
            token: None,
            timings: Box::new(timings(id("source", 0))),
        },
        InstanceEvent::Committed { seq: 6 },
    ];
    for part in parts {
        let event = report(1, at_cut, part);
        assert!(!event.is_seen());
        machine.step(at(11), event);
        assert_eq!(machine.view(), shown);
    }
    let ended = report(1, at_cut, InstanceEvent::Ended);
    assert!(ended.is_seen());
    machine.step(at(12), ended);
    assert_ne!(machine.view(), shown);
}
