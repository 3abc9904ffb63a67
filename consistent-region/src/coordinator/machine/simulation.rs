//! The machine in a world where links lose, repeat and reorder, and where coordinators and workers
//! die or stand still at every step. Everything follows from a seed.
//!
//! Checked at every step:
//! - no message leaves before a durable entry covers its numbers
//! - no two cuts have one number, and numbers grow
//! - a worker commits a cut only when its manifest is in the log
//! - no instance is run by two workers that may act
//! - and when faults stop, the region completes cuts again and ends when asked to

mod log;
mod network;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use self::world::{Faults, World};
use super::broken::Broken;

/// How many seeds the ordinary run takes; `LOCKKEEPER_SEEDS` takes more.
const SEEDS: u64 = 300;

fn seeds() -> u64 {
    std::env::var("LOCKKEEPER_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(SEEDS)
}

#[test]
fn without_faults_cuts_follow_one_another_and_nothing_is_reset() {
    for seed in 0..20 {
        let mut world = World::new(seed, Faults::NONE);
        world.run_until_cut(20);
        world.stop();
        assert_eq!(
            world.resets(),
            1,
            "the start is a reset, nothing else: seed {seed}"
        );
    }
}

#[test]
fn lost_repeated_and_reordered_messages_heal() {
    for seed in 0..seeds() {
        let mut world = World::new(seed, Faults::LINKS);
        world.run_for(60);
        world.heal();
        world.run_until_cut(3);
        world.stop();
    }
}

#[test]
fn deaths_and_stops_at_every_step_heal() {
    for seed in 0..seeds() {
        let mut world = World::new(seed, Faults::ALL);
        world.run_for(90);
        world.heal();
        world.run_until_cut(3);
        world.stop();
    }
}

#[test]
fn a_new_coordinator_goes_on_without_a_reset_when_nothing_was_missed() {
    let mut without_reset = 0;
    for seed in 0..50 {
        let mut world = World::new(seed, Faults::NONE);
        world.run_until_cut(3);
        world.replace_coordinator();
        world.run_until_cut(3);
        without_reset += u64::from(world.resets() == 1);
        world.stop();
    }
    // Replaced in the middle of a round it must reset; between two rounds it need not.
    assert!(without_reset > 10, "{without_reset} of 50");
}

/// The simulator is worth something only if it notices a broken rule.
fn is_noticed(rule: Broken) {
    let noticed = |seed| {
        let run = || {
            let mut world = World::with_broken(seed, Faults::ALL, rule);
            world.run_for(90);
            world.heal();
            world.run_until_cut(3);
        };
        catch_unwind(AssertUnwindSafe(run)).is_err()
    };
    assert!((0..seeds()).any(noticed), "{rule:?} goes unnoticed");
}

#[test]
fn a_message_that_leaves_before_its_record_is_noticed() {
    is_noticed(Broken::MessageBeforeRecord);
}

#[test]
fn a_number_that_is_used_again_is_noticed() {
    is_noticed(Broken::NumberUsedAgain);
}

#[test]
fn a_stale_acknowledgement_that_counts_is_noticed() {
    is_noticed(Broken::StaleAcknowledgementTaken);
}

#[test]
fn a_lease_that_is_cut_short_is_noticed() {
    is_noticed(Broken::LeaseCutShort);
}

#[test]
fn a_term_that_forgets_who_may_still_act_is_noticed() {
    is_noticed(Broken::GhostsForgotten);
}
