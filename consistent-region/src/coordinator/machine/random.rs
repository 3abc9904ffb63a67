//! The machine under events in any order, sensible or not.

use std::time::Duration;

use proptest::prelude::*;

use super::Event;
use super::bench::{Bench, WORKERS, checkpoint_done, failed};
use crate::coordinator::status::RegionState;
use crate::protocol::{ProgressEvent, Stamp};

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Join(usize),
    Gone(usize),
    /// A worker says something, about a stamp that many numbers and attempts before the present.
    Say(usize, u8, u64, u64),
    Reset {
        force: bool,
    },
    Cut,
    StoreFails(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (1_u64..40_000).prop_map(Step::Wait),
        1 => (0_usize..2).prop_map(Step::Join),
        1 => (0_usize..2).prop_map(Step::Gone),
        8 => (0_usize..2, 0_u8..5, 0_u64..3, 0_u64..2)
            .prop_map(|(worker, what, seq, attempt)| Step::Say(worker, what, seq, attempt)),
        1 => any::<bool>().prop_map(|force| Step::Reset { force }),
        1 => Just(Step::Cut),
        1 => any::<bool>().prop_map(Step::StoreFails),
    ]
}

fn take(bench: &mut Bench, step: &Step) {
    match *step {
        Step::Wait(ms) => bench.wait(Duration::from_millis(ms)),
        Step::Join(worker) => bench.join(WORKERS[worker]),
        Step::Gone(worker) => bench.gone(WORKERS[worker]),
        Step::Say(worker, what, seq, attempt) => {
            let now = bench.stamp();
            let stamp = Stamp {
                term: now.term,
                seq: now.seq.saturating_sub(seq),
                attempt: now.attempt.saturating_sub(attempt),
            };
            let event = match what {
                0 => ProgressEvent::BlockingCheckpointDone,
                1 => checkpoint_done(),
                2 => ProgressEvent::ResetDone,
                3 => failed(),
                _ => ProgressEvent::Committed { seq: stamp.seq },
            };
            bench.say(WORKERS[worker], stamp, event);
        }
        Step::Reset { force } => bench.request_reset(force),
        Step::Cut => {
            let request = bench.request();
            bench.feed(Event::CutRequested { request });
        }
        Step::StoreFails(fails) => bench.store_fails = fails,
    }
}

/// From now on everybody does what they are told, and the failed region is taken up again.
fn heal(bench: &mut Bench) {
    bench.store_fails = false;
    bench.wait(Duration::from_secs(1));
    for worker in WORKERS {
        if !bench.workers.contains_key(worker) {
            bench.join(worker);
        }
    }
    bench.request_reset(true);
}

fn check(bench: &Bench) -> Result<(), TestCaseError> {
    for pair in bench.log.windows(2) {
        let (one, next) = (&pair[0].record, &pair[1].record);
        prop_assert!(next.number > one.number);
        prop_assert!(next.attempt >= one.attempt);
        prop_assert!(next.highest >= one.highest);
    }
    let seqs: Vec<u64> = bench.manifests().map(|manifest| manifest.seq).collect();
    prop_assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", seqs);
    for (_, stamp, _) in &bench.orders {
        let covered = bench.log.iter().any(|entry| {
            entry.record.highest >= stamp.seq && entry.record.attempt == stamp.attempt
        });
        prop_assert!(covered, "{:?} left before its record", stamp);
    }
    Ok(())
}

proptest! {
    #[test]
    fn numbers_grow_and_the_region_heals_whatever_came(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let mut bench = Bench::at(RegionState::Started);
        bench.join_all();
        for step in &steps {
            take(&mut bench, step);
        }
        check(&bench)?;
        heal(&mut bench);
        let before = bench.manifests().count();
        for _ in 0..30 {
            match bench.state() {
                RegionState::Resetting => bench.all_say(&ProgressEvent::ResetDone),
                RegionState::Draining | RegionState::CheckpointPending => {
                    bench.all_say(&checkpoint_done());
                }
                _ => bench.wait(Duration::from_secs(1)),
            }
        }
        check(&bench)?;
        let cuts = bench.manifests().count() - before;
        prop_assert!(cuts >= 3, "{} cuts: {:?}", cuts, bench.machine.status());
    }
}
