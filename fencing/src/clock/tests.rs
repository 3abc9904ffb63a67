//! Over simulated clocks: after another one was granted, no effect of the old leader takes hold.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;

use super::BootTime;
use super::simulation::{Counting, SESSION, Script, World, first_failure, scripts};

const WHOLE: Duration = Duration::from_millis(SESSION);

/// As the drivers do for stores that count from the hearing of a request.
struct FromSending;

impl Counting for FromSending {
    fn answered(&mut self, sent: BootTime, _: BootTime) -> BootTime {
        sent
    }
}

/// What is tempting and wrong.
struct FromTheAnswer;

impl Counting for FromTheAnswer {
    fn answered(&mut self, _: BootTime, now: BootTime) -> BootTime {
        now
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn after_a_new_grant_no_effect_of_the_old_leader_takes_hold(script in scripts()) {
        let run = World::run(&script, FromSending, 0, WHOLE);
        prop_assert!(run.is_ok(), "{}", run.unwrap_err());
    }
}

#[test]
fn a_deadline_that_counts_from_the_answer_is_found() {
    let run = |script: &Script| World::run(script, FromTheAnswer, 0, WHOLE).map(|_| ());
    assert!(first_failure(20_000, run).is_some());
}

/// The margin is for clocks: without it a clock that runs slowly believes too long.
#[test]
fn a_deadline_that_uses_the_whole_session_is_found() {
    let run = |script: &Script| World::run(script, FromSending, 0, WHOLE * 5 / 4).map(|_| ());
    assert!(first_failure(20_000, run).is_some());
}

/// The scripts have what the property is about: effects, refusals, and leaders that are deposed.
#[test]
fn the_scripts_act_are_refused_and_are_deposed() {
    let (acted, refused, deposed) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let failed = first_failure(2_000, |script| {
        let outcome = World::run(script, FromSending, 0, WHOLE)?;
        acted.set(acted.get() + outcome.acted);
        refused.set(refused.get() + outcome.refused);
        deposed.set(deposed.get() + outcome.deposed);
        Ok(())
    });
    assert_eq!(failed, None);
    let seen = [acted.get(), refused.get(), deposed.get()];
    println!("acted, refused, deposed: {seen:?}");
    assert!(seen.iter().all(|&times| times > 100), "{seen:?}");
}
