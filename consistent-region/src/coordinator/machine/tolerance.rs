//! Cuts that fail without a reset (`tolerable_failed_cuts`, S11).

use super::bench::{Bench, DRAIN_TIMEOUT, PERIOD, checkpoint_done, cut_failed, settings};
use crate::coordinator::event::Beginning;
use crate::coordinator::settings::CoordinatorSettings;
use crate::coordinator::status::{RegionEvent, RegionState};
use crate::protocol::{ProgressEvent, Stamp};

use super::Event;
use RegionState::{CheckpointPending, Draining, Processing, Resetting};

/// A region that tolerates `cuts` failed cuts, draining the first.
fn draining(cuts: u32) -> Bench {
    let settings = CoordinatorSettings {
        tolerable_failed_cuts: cuts,
        ..settings()
    };
    let mut bench = Bench::open(settings, Beginning::default());
    bench.join_all();
    bench.all_say(&ProgressEvent::ResetDone);
    bench.wait(PERIOD);
    assert_eq!(bench.state(), Draining);
    bench.orders.clear();
    bench
}

#[test]
fn s11_a_tolerable_failed_cut_goes_on_without_a_reset_once_everybody_has_prepared() {
    let mut bench = draining(1);
    let stamp = bench.stamp();
    bench.say("a", stamp, cut_failed());
    assert_eq!(bench.state(), Draining, "b has not prepared");
    assert!(bench.orders.is_empty());
    bench.all_say_about(stamp, &ProgressEvent::BlockingCheckpointDone);
    assert_eq!(bench.state(), Processing);
    assert_eq!(bench.orders_of_a(), ["abandoned", "resume"]);
    assert_eq!(bench.stamp().seq, stamp.seq + 1);
    assert!(
        bench
            .told
            .iter()
            .any(|event| matches!(event, RegionEvent::CutAborted { seq, .. } if *seq == stamp.seq))
    );
    // What b still says of it counts for nothing.
    bench.say("b", stamp, checkpoint_done());
    assert_eq!(bench.machine.status().completed, 0);
    // The next cut completes, and the one after it may fail again.
    for _ in 0..2 {
        bench.wait(PERIOD);
        bench.all_say(&checkpoint_done());
        bench.wait(PERIOD);
        let stamp = bench.stamp();
        bench.all_say_about(stamp, &ProgressEvent::BlockingCheckpointDone);
        bench.say("a", stamp, cut_failed());
        assert_eq!(bench.state(), Processing);
    }
}

#[test]
fn s11_one_failed_cut_more_than_is_tolerable_resets_the_region() {
    for tolerable in 0..3 {
        let mut bench = draining(tolerable);
        for _ in 0..tolerable {
            let stamp = bench.stamp();
            bench.all_say_about(stamp, &ProgressEvent::BlockingCheckpointDone);
            assert_eq!(bench.state(), CheckpointPending);
            bench.say("a", stamp, cut_failed());
            assert_eq!(bench.state(), Processing, "of {tolerable}");
            bench.wait(PERIOD);
        }
        bench.say("a", bench.stamp(), cut_failed());
        assert_eq!(bench.state(), Resetting, "of {tolerable}");
    }
}

#[test]
fn s11_a_cut_that_is_not_written_in_time_is_tolerable_one_that_is_not_drained_is_not() {
    let mut written = draining(1);
    written.all_say(&ProgressEvent::BlockingCheckpointDone);
    written.wait(DRAIN_TIMEOUT);
    assert_eq!(written.state(), Processing);
    let mut drained = draining(1);
    drained.wait(DRAIN_TIMEOUT);
    assert_eq!(drained.state(), Resetting);
}

#[test]
fn s11_a_manifest_that_is_not_written_is_tolerable() {
    let mut bench = draining(1);
    bench.store_fails = true;
    bench.all_say(&checkpoint_done());
    assert_eq!(bench.state(), Processing);
    assert!(bench.orders.is_empty(), "nothing leaves before its record");
    bench.store_fails = false;
    bench.wait(PERIOD / 2);
    assert_eq!(bench.orders_of_a(), ["abandoned", "resume"]);
    bench.wait(PERIOD);
    bench.all_say(&checkpoint_done());
    assert_eq!(bench.manifests().count(), 1);
}

/// The region is to end with it: it is tried again from the last good cut (P3).
#[test]
fn p3_a_last_cut_that_fails_is_tried_again_after_a_reset() {
    for tolerable in [0, 5] {
        let mut bench = draining(tolerable);
        bench.all_say(&checkpoint_done());
        let completed = bench.machine.status().completed;
        let request = bench.request();
        bench.feed(Event::StopRequested { request });
        bench.say("a", bench.stamp(), cut_failed());
        assert_eq!(bench.state(), Resetting);
        assert_eq!(bench.machine.status().completed, completed);
        bench.all_say(&ProgressEvent::ResetDone);
        assert_eq!(bench.state(), Draining, "the stop is not forgotten");
        bench.all_say(&checkpoint_done());
        assert_eq!(bench.state(), RegionState::Ending);
    }
}

#[test]
fn a_failed_cut_of_another_round_is_stale() {
    let mut bench = draining(5);
    let stamp = bench.stamp();
    let before = bench.machine.status().stale_messages;
    for other in [
        Stamp {
            seq: stamp.seq + 1,
            ..stamp
        },
        Stamp {
            attempt: stamp.attempt - 1,
            ..stamp
        },
    ] {
        bench.say("a", other, cut_failed());
    }
    assert_eq!(bench.machine.status().stale_messages, before + 2);
    bench.all_say(&checkpoint_done());
    assert_eq!(bench.state(), Processing);
}
