//! The reference's state machine row by row: every stimulus in every state.
//!
//! Where the reference (IBM Streams' region controller; facts in issue 7) says otherwise, the row
//! says how: see the list at the top of [`machine`](super).

use super::bench::{
    Bench, DRAIN_TIMEOUT, MOST_RESETS, PERIOD, RESET_TIMEOUT, checkpoint_done, failed, instance,
    settings,
};
use std::time::Duration;

use super::{Event, Moment};
use crate::coordinator::event::Beginning;
use crate::coordinator::record::Record;
use crate::coordinator::settings::CoordinatorSettings;
use crate::coordinator::status::{RegionEvent, RegionState};
use crate::protocol::{Order, ProgressEvent};

use RegionState::{
    CheckpointPending as Pending, Draining, Failed, Processing, Resetting, Started, Unhealthy,
};

const STATES: [RegionState; 7] = [
    Started, Processing, Draining, Pending, Resetting, Unhealthy, Failed,
];

/// Where it leads, and what worker `a` is ordered to do on the way.
type Row = (RegionState, &'static [&'static str]);

/// Checks a stimulus in each of [`STATES`].
fn rows(stimulus: impl Fn(&mut Bench), expected: [Row; 7]) {
    for (from, (to, orders)) in STATES.into_iter().zip(expected) {
        let mut bench = Bench::at(from);
        stimulus(&mut bench);
        assert_eq!(bench.state(), to, "from {from:?}");
        assert_eq!(bench.orders_of_a(), orders, "from {from:?} to {to:?}");
    }
}

/// The stimulus changes nothing in any state but those of `changes`.
fn only(changes: &[(RegionState, Row)]) -> [Row; 7] {
    STATES.map(|state| {
        let change = changes.iter().find(|(from, _)| *from == state);
        change.map_or((state, &[] as &[_]), |(_, row)| *row)
    })
}

const RESET: Row = (Resetting, &["reset"]);

/// The very first start is a reset as well (to the initial state, without calling for it).
#[test]
fn healthy() {
    let everybody = |bench: &mut Bench| match bench.state() {
        Started => bench.join_all(),
        Unhealthy => bench.join("b"),
        _ => bench.join("c"),
    };
    rows(everybody, only(&[(Started, RESET), (Unhealthy, RESET)]));
}

#[test]
fn unhealthy() {
    rows(
        |bench| {
            bench.gone("b");
            bench.wait(DRAIN_TIMEOUT + RESET_TIMEOUT);
        },
        only(&[
            (Processing, (Unhealthy, &[])),
            (Draining, (Unhealthy, &[])),
            (Pending, (Unhealthy, &[])),
            (Resetting, (Unhealthy, &[])),
        ]),
    );
}

/// For ever, unless told otherwise; then failed, with the names of what waits (S19).
#[test]
fn s19_a_region_that_stays_unhealthy_fails_in_time_and_names_what_waits() {
    let mut bench = Bench::at(Unhealthy);
    bench.wait(Duration::from_secs(80_000));
    assert_eq!(bench.state(), Unhealthy, "without unhealthy_timeout");

    let mut bench = Bench::open(
        CoordinatorSettings {
            unhealthy_timeout: Some(RESET_TIMEOUT),
            ..settings()
        },
        Beginning::default(),
    );
    bench.join_all();
    bench.all_say(&ProgressEvent::ResetDone);
    bench.gone("b");
    let waiting = bench.machine.status().waiting;
    assert_eq!(
        waiting.len(),
        1,
        "two of three have a slot on a: {waiting:?}"
    );
    bench.wait(RESET_TIMEOUT - Duration::from_millis(1));
    assert_eq!(bench.state(), Unhealthy);
    bench.wait(Duration::from_millis(1));
    assert_eq!(bench.state(), Failed);
    let reason = bench.machine.status().reason.unwrap();
    assert!(reason.contains("worker b is lost"), "{reason}");
    assert!(reason.contains(&waiting[0].to_string()), "{reason}");
    let told = |event: &RegionEvent| matches!(event, RegionEvent::Failed { .. });
    assert!(bench.told.iter().any(told));
    // A worker that comes back too late does not take it up, a forced reset does.
    bench.join("b");
    assert_eq!(bench.state(), Failed);
    bench.request_reset(true);
    assert_eq!(bench.state(), Resetting);
}

/// A restarted worker takes back what it ran at once, a spare one when patience is over.
#[test]
fn s19_a_spare_worker_takes_over_what_a_lost_one_ran() {
    let patience = PERIOD * 5;
    let bench = || {
        let mut bench = Bench::open(
            CoordinatorSettings {
                placement_timeout: patience,
                ..settings()
            },
            Beginning::default(),
        );
        bench.join_all();
        bench.all_say(&ProgressEvent::ResetDone);
        bench.join("spare");
        bench.gone("b");
        assert_eq!(bench.state(), Unhealthy);
        bench
    };
    let places = |bench: &Bench| -> Vec<(String, usize)> {
        let workers = bench.machine.status().workers;
        let place = |one: crate::coordinator::WorkerStatus| (one.worker, one.instances.len());
        workers.into_iter().map(place).collect()
    };
    let named = |name: &str, instances| (name.to_owned(), instances);
    let mut back = bench();
    back.join("b");
    assert_eq!(back.state(), Resetting);
    assert!(
        places(&back).contains(&named("spare", 0)),
        "{:?}",
        places(&back)
    );
    let mut gone = bench();
    gone.wait(patience - Duration::from_millis(1));
    assert_eq!(gone.state(), Unhealthy);
    gone.wait(Duration::from_millis(1));
    assert_eq!(gone.state(), Resetting);
    let on_spare = places(&gone)
        .iter()
        .find(|(name, _)| name == "spare")
        .map(|(_, n)| *n);
    assert!(
        on_spare.is_some_and(|instances| instances > 0),
        "{:?}",
        places(&gone)
    );
}

/// It is not waited for; where nobody has room, the next of its name takes its place.
#[test]
fn what_a_stopped_worker_ran_goes_elsewhere_at_once() {
    let leave = |bench: &mut Bench| bench.say("b", bench.stamp(), ProgressEvent::Left);
    let mut bench = Bench::at(Processing);
    bench.join("spare");
    leave(&mut bench);
    assert_eq!(bench.state(), Resetting);
    let lost = |event: &RegionEvent| matches!(event, RegionEvent::WorkerLost { worker, reason } if worker == "b" && reason == "it was stopped");
    assert!(bench.told.iter().any(lost), "{:?}", bench.told);
    let workers = bench.machine.status().workers;
    assert!(workers.iter().all(|worker| !worker.instances.is_empty()));
    assert_eq!(bench.machine.status().waiting, []);

    let mut full = Bench::at(Processing);
    leave(&mut full);
    assert_eq!(full.state(), Unhealthy);
    full.join("b");
    assert_eq!(full.state(), Resetting);
    // one that was lost is waited for again, although it was stopped before
    full.all_say(&ProgressEvent::ResetDone);
    full.join("spare");
    full.gone("b");
    assert_eq!(full.state(), Unhealthy);
}

#[test]
fn period_timer() {
    rows(
        |bench| bench.wait(PERIOD),
        only(&[(Processing, (Draining, &["drain"]))]),
    );
}

/// Any operator may ask, in periodic regions too; asked for while a round is under way, another
/// follows it.
#[test]
fn operator_wants_a_cut() {
    let instance = instance("source", 0);
    let wanted = ProgressEvent::CutWanted { instance };
    rows(
        |bench| bench.say("a", bench.stamp(), wanted.clone()),
        only(&[(Processing, (Draining, &["drain"]))]),
    );
    let mut bench = Bench::at(Draining);
    bench.say("a", bench.stamp(), wanted);
    bench.all_say(&checkpoint_done());
    assert_eq!(
        (bench.state(), bench.orders_of_a()),
        (Draining, vec!["resume", "checkpointed", "drain"])
    );
}

/// Asked for by hand, it comes as soon as tuples flow: a reset on the way does not forget it.
#[test]
fn a_cut_that_is_asked_for_by_hand_outlives_the_start_and_a_reset() {
    for state in [Started, Resetting, Unhealthy] {
        let mut bench = Bench::at(state);
        let request = bench.request();
        bench.feed(Event::CutRequested { request });
        assert_eq!(bench.answer, Some(Ok(())));
        match state {
            Started => bench.join_all(),
            Unhealthy => bench.join("b"),
            _ => bench.request_reset(false),
        }
        bench.all_say(&ProgressEvent::ResetDone);
        assert_eq!(bench.state(), Draining, "from {state:?}");
        bench.all_say(&checkpoint_done());
        assert_eq!(bench.state(), Processing, "once");
    }
}

#[test]
fn blocking_done_by_all() {
    rows(
        |bench| bench.all_say(&ProgressEvent::BlockingCheckpointDone),
        only(&[(Draining, (Pending, &["resume"]))]),
    );
}

#[test]
fn checkpoint_done_by_all() {
    rows(
        |bench| bench.all_say(&checkpoint_done()),
        only(&[
            (Draining, (Processing, &["resume", "checkpointed"])),
            (Pending, (Processing, &["checkpointed"])),
        ]),
    );
}

/// Dropped and counted; the reference's coordinator dies of them.
#[test]
fn stale_acknowledgements() {
    let events = [
        ProgressEvent::BlockingCheckpointDone,
        checkpoint_done(),
        ProgressEvent::ResetDone,
    ];
    for event in &events {
        for (seq, attempt, term) in [(2, 0, 0), (0, 1, 0), (0, 0, 1)] {
            let stale = |bench: &mut Bench| {
                let before = bench.machine.status().stale_messages;
                let mut stamp = bench.stamp();
                stamp.seq = stamp.seq.saturating_sub(seq);
                stamp.attempt = stamp.attempt.wrapping_sub(attempt);
                stamp.term -= term;
                bench.all_say_about(stamp, event);
                let dropped = bench.machine.status().stale_messages - before;
                assert_eq!(dropped, bench.workers.len() as u64, "{event:?} {stamp:?}");
            };
            // A reset's seq differs from the former one's only with its attempt.
            rows(stale, only(&[]));
        }
    }
}

#[test]
fn repeated_acknowledgements() {
    for (state, event) in [
        (Draining, ProgressEvent::BlockingCheckpointDone),
        (Draining, checkpoint_done()),
        (Pending, checkpoint_done()),
        (Resetting, ProgressEvent::ResetDone),
    ] {
        let mut bench = Bench::at(state);
        let mut stamp = bench.stamp();
        stamp.seq -= u64::from(state == Pending);
        for _ in 0..2 {
            bench.say("a", stamp, event.clone());
        }
        assert_eq!(bench.state(), state, "b is missing: {event:?}");
        assert_eq!(bench.machine.status().stale_messages, 1, "{event:?}");
    }
}

#[test]
fn drain_timeout() {
    rows(
        |bench| {
            if !matches!(bench.state(), Processing) {
                bench.wait(DRAIN_TIMEOUT);
            }
        },
        only(&[(Draining, RESET), (Pending, RESET)]),
    );
}

#[test]
fn reset_timeout() {
    let mut bench = Bench::at(Resetting);
    let attempt = bench.stamp().attempt;
    bench.wait(RESET_TIMEOUT);
    assert_eq!((bench.state(), &*bench.orders_of_a()), RESET);
    assert_eq!(bench.stamp().attempt, attempt + 1);
}

/// A round's time-out comes due when it is over: nothing happens (S21).
#[test]
fn s21_stale_timers() {
    let mut bench = Bench::at(Draining);
    bench.all_say(&checkpoint_done());
    let since = bench.now;
    bench.wait(PERIOD);
    bench.all_say(&checkpoint_done());
    bench.now = since + DRAIN_TIMEOUT - PERIOD / 2;
    bench.say("a", bench.stamp(), ProgressEvent::ResetDone);
    assert_eq!(bench.state(), Draining, "the next round, not a reset");
    assert!(!bench.orders_of_a().contains(&"reset"));
}

#[test]
fn reset_request() {
    rows(
        |bench| bench.request_reset(false),
        only(&[
            (Processing, RESET),
            (Draining, RESET),
            (Pending, RESET),
            (Resetting, RESET),
        ]),
    );
    let mut failed = Bench::at(Failed);
    failed.request_reset(false);
    assert!(matches!(failed.answer, Some(Err(_))), "{:?}", failed.answer);
}

#[test]
fn forced_reset() {
    rows(
        |bench| bench.request_reset(true),
        only(&[
            (Processing, RESET),
            (Draining, RESET),
            (Pending, RESET),
            (Resetting, RESET),
            (Failed, RESET),
        ]),
    );
}

#[test]
fn s17_a_forced_reset_grants_as_many_attempts_again() {
    let mut bench = Bench::at(Failed);
    bench.request_reset(true);
    for _ in 1..MOST_RESETS {
        bench.request_reset(false);
        assert_eq!(bench.state(), Resetting);
    }
    bench.request_reset(false);
    assert_eq!(bench.state(), Failed);
    assert_eq!(bench.orders_of_a().last(), Some(&"failed"));
}

/// At once, not by a time-out.
#[test]
fn s11_a_failure_of_an_operator() {
    rows(
        |bench| bench.say("a", bench.stamp(), failed()),
        only(&[
            (Processing, RESET),
            (Draining, RESET),
            (Pending, RESET),
            (Resetting, RESET),
        ]),
    );
}

#[test]
fn reset_done_by_all() {
    rows(
        |bench| bench.all_say(&ProgressEvent::ResetDone),
        only(&[(Resetting, (Processing, &["resume"]))]),
    );
}

/// Attempts are forgotten by a completed cut, not by a completed reset (S17); the number of an
/// aborted cut never comes back (S4).
#[test]
fn s4_s17_a_reset_gives_new_numbers_and_only_a_cut_forgets_the_attempts() {
    let mut bench = Bench::at(Draining);
    let before = bench.stamp();
    bench.request_reset(false);
    bench.all_say(&ProgressEvent::ResetDone);
    assert!(bench.stamp().seq > before.seq);
    let resets = bench.machine.status().consecutive_resets;
    assert_eq!(resets, 2, "the start and this one");
    bench.wait(PERIOD);
    bench.all_say(&checkpoint_done());
    assert_eq!(bench.machine.status().consecutive_resets, 0);
    let seqs: Vec<u64> = bench.manifests().map(|manifest| manifest.seq).collect();
    assert_eq!(seqs.len(), 1);
    assert!(seqs[0] > before.seq, "{seqs:?}");
}

/// The next period begins when the tail is durable, so rounds never pile up (P9).
#[test]
fn p9_the_period_counts_from_the_completed_cut() {
    let mut bench = Bench::at(Pending);
    bench.wait(PERIOD * 3);
    assert_eq!(bench.state(), Pending);
    bench.all_say(&checkpoint_done());
    assert_eq!(bench.machine.next_deadline(), Some(bench.now + PERIOD));
}

/// A completing round and a reset never overlap (P1): the reset waits for the log's word.
#[test]
fn p1_a_reset_waits_for_a_manifest_that_is_on_its_way() {
    let (mut machine, now) = (Bench::at(Draining), Moment::ZERO);
    let stamp = machine.stamp();
    machine.say("a", stamp, checkpoint_done());
    let Bench {
        mut machine,
        workers,
        ..
    } = machine;
    let progress = |worker: &str, event| Event::Progress {
        request: 0,
        progress: crate::protocol::Progress {
            worker: worker.to_owned(),
            worker_epoch: workers[worker].0,
            stamp,
            event,
        },
    };
    let actions = machine.step(now, progress("b", checkpoint_done()));
    let number = published(&actions).unwrap();
    machine.step(now, progress("a", failed()));
    assert_eq!(
        machine.state_now(),
        Draining,
        "whether the cut exists is open"
    );
    machine.step(now, Event::Appended { number });
    assert_eq!(machine.state_now(), Resetting);
    assert_eq!(machine.status().completed, stamp.seq);
}

fn published(actions: &[super::Action]) -> Option<u64> {
    actions.iter().find_map(|action| match action {
        super::Action::Append(entry) if entry.manifest.is_some() => Some(entry.record.number),
        _ => None,
    })
}

/// Until the log has a round's beginning, nobody is told of it (S22).
#[test]
fn s22_nothing_leaves_before_its_record() {
    let mut bench = Bench::at(Processing);
    bench.store_fails = true;
    bench.wait(PERIOD);
    assert_eq!((bench.state(), bench.orders.len()), (Draining, 0));
    bench.store_fails = false;
    bench.wait(PERIOD);
    assert_eq!(bench.orders_of_a(), ["drain"]);
}

/// A last cut, then the end (S25).
#[test]
fn s25_a_stop_takes_a_last_cut() {
    let mut bench = Bench::at(Processing);
    let request = bench.request();
    bench.feed(Event::StopRequested { request });
    assert!(matches!(
        bench.orders.as_slice(),
        [(.., Order::Drain { last: true, .. }), ..]
    ));
    bench.all_say(&checkpoint_done());
    assert_eq!(bench.state(), RegionState::Ending);
    let (seq, attempt) = (bench.machine.status().completed, bench.stamp().attempt);
    let mut stamp = bench.stamp();
    (stamp.seq, stamp.attempt) = (seq, attempt);
    bench.all_say_about(stamp, &ProgressEvent::Committed { seq });
    assert_eq!(bench.state(), RegionState::Completed);
    assert_eq!(bench.orders_of_a(), ["drain", "checkpointed", "end"]);
}

/// What the entries said that can't be read is not known: a sink may have committed.
#[test]
fn lost_entries_fail_a_region_whose_sinks_cannot_take_back() {
    let beginning = |irrevocable| Beginning {
        record: Some(Record {
            irrevocable,
            ..Record::default()
        }),
        unusable_entries: 1,
    };
    for (irrevocable, state) in [(false, Started), (true, Failed)] {
        let bench = Bench::open(settings(), beginning(irrevocable));
        assert_eq!(bench.state(), state);
    }
}

/// No state is left out of the machine's own view, and each change is told.
#[test]
fn every_change_of_state_is_told() {
    let mut bench = Bench::at(Processing);
    bench.wait(PERIOD);
    bench.all_say(&ProgressEvent::BlockingCheckpointDone);
    bench.all_say(&checkpoint_done());
    let told: Vec<RegionState> = bench
        .told
        .iter()
        .filter_map(|event| match event {
            RegionEvent::State { to, .. } => Some(*to),
            _ => None,
        })
        .collect();
    assert_eq!(told, [Draining, Pending, Processing]);
}

/// A cut that is asked for too early comes when the pause is over; a last one comes at once.
#[test]
fn p9_a_cut_that_is_asked_for_waits_until_the_shortest_pause_is_over() {
    let pause = PERIOD * 2;
    let mut bench = Bench::open(
        CoordinatorSettings {
            min_pause: pause,
            ..settings()
        },
        Beginning::default(),
    );
    bench.join_all();
    bench.all_say(&ProgressEvent::ResetDone);
    let request = bench.request();
    bench.feed(Event::CutRequested { request });
    bench.wait(pause - Duration::from_millis(1));
    assert_eq!(bench.state(), Processing);
    bench.wait(Duration::from_millis(1));
    assert_eq!(bench.state(), Draining);
    bench.all_say(&checkpoint_done());
    let request = bench.request();
    bench.feed(Event::StopRequested { request });
    assert_eq!(bench.state(), Draining);
}

#[test]
fn p4_a_region_without_a_cut_for_three_periods_says_so() {
    for state in [Started, Unhealthy, Draining] {
        let mut bench = Bench::at(state);
        let mut told = Vec::new();
        for _ in 0..13 {
            bench.wait(PERIOD);
            told.push(bench.told.drain(..).any(
                |event| matches!(event, RegionEvent::NoCut { state: now, .. } if now == state),
            ));
        }
        assert!(told[..3].contains(&true), "{state:?} {told:?}");
        let times = told.iter().filter(|told| **told).count();
        assert_eq!(times, 3, "after 3, 6 and 12 periods: {state:?} {told:?}");
    }
    let mut bench = Bench::at(Processing);
    for _ in 0..10 {
        bench.wait(PERIOD);
        bench.all_say(&checkpoint_done());
    }
    let silent = |event: &RegionEvent| !matches!(event, RegionEvent::NoCut { .. });
    assert!(bench.told.iter().all(silent), "{:?}", bench.told);
}
