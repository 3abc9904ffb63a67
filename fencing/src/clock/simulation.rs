//! A leader and the store of its leadership in simulated time: two clocks that run at different
//! rates, requests and answers under way, and a leader that may be stopped anywhere.
//!
//! The store's clock is the true one, in milliseconds. It grants the leadership to another one at the
//! very moment when the session is over; that one enters the guarded series a while later.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::{BootTime, Clock, LocalDeadline, ManualClock};
use crate::guard::procedure::{self, Next, OwnFence, Procedure, Publish, Walk, Walked, carry_out};
use crate::guard::{EpochGuard, GuardStore, Guarded, MemoryGuardStore};

/// The session in milliseconds.
pub(crate) const SESSION: u64 = 1_000;
/// Every how many milliseconds a store that lags learns what its members have heard: a quarter of
/// the session.
#[cfg(feature = "zookeeper")]
pub(crate) const LAG: u64 = SESSION / 4;

/// From when on an answered request lets a session count.
pub(crate) trait Counting {
    fn answered(&mut self, sent: BootTime, now: BootTime) -> BootTime;
}

/// What the leader's process does next. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Asks for a renewal, which travels and is answered for so long.
    Renew { there: u64, back: u64 },
    /// Runs on, and takes answers when they come.
    Run(u64),
    /// Is stopped. What it does next comes before it looks at any answer.
    Stop(u64),
    /// Checks, and makes an effect at once that nobody else compares.
    Act,
    /// Checks, is stopped, creates a manifest, is stopped, looks at the fences.
    Publish { before: u64, between: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// How fast the leader's clock runs, in thousandths of the store's.
    pub(crate) rate: u64,
    /// When the member that the leader asks is cut off the rest of the store.
    cut: Option<u64>,
    /// How long the next leader takes from its grant to its entry into the series.
    entry: u64,
    steps: Vec<Step>,
}

pub(crate) fn scripts() -> impl Strategy<Value = Script> {
    let short = || 0..SESSION / 3;
    let any = || prop_oneof![3 => short(), 1 => 0..SESSION * 2];
    let step = prop_oneof![
        4 => (any(), short()).prop_map(|(there, back)| Step::Renew { there, back }),
        4 => short().prop_map(Step::Run),
        2 => any().prop_map(Step::Stop),
        3 => Just(Step::Act),
        2 => (any(), any()).prop_map(|(before, between)| Step::Publish { before, between }),
    ];
    let cut = proptest::option::of(0..SESSION * 4);
    (850_u64..=1_150, cut, any(), vec(step, 1..60)).prop_map(|(rate, cut, entry, steps)| Script {
        rate,
        cut,
        entry,
        steps,
    })
}

/// The first of so many scripts, the same ones each time, that a run fails on, and why it does: to
/// show that a rule that is broken on purpose is found.
pub(crate) fn first_failure(
    cases: u32,
    run: impl Fn(&Script) -> Result<(), String>,
) -> Option<String> {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let searched = runner.run(&scripts(), |script| {
        run(&script).map_err(TestCaseError::fail)
    });
    searched.err().map(|found| found.to_string())
}

/// What became of a script: so that a test can see that effects were made and refused at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) acted: usize,
    pub(crate) refused: usize,
    pub(crate) deposed: usize,
}

struct Answer {
    comes: u64,
    sent: BootTime,
    lost: bool,
}

/// A request that the store has heard, and when the one who counts is told of it.
struct Touch {
    heard: u64,
    told: u64,
}

pub(crate) struct World<C> {
    counting: C,
    rate: u64,
    cut: u64,
    lag: u64,
    now: u64,
    clock: ManualClock,
    deadline: LocalDeadline,
    touches: Vec<Touch>,
    answers: Vec<Answer>,
    store: Arc<dyn GuardStore>,
    fence: OwnFence,
    newest: u64,
    entry: u64,
    /// How many manifests of the old leader were in the history when the next one had entered.
    at_entry: Option<usize>,
    outcome: Outcome,
}

impl<C: Counting> World<C> {
    /// Runs a script to its end.
    ///
    /// # Errors
    /// What took hold though another one leads.
    pub(crate) fn run(
        script: &Script,
        counting: C,
        lag: u64,
        session: Duration,
    ) -> Result<Outcome, String> {
        let clock = ManualClock::new();
        let store: Arc<dyn GuardStore> = Arc::new(MemoryGuardStore::new());
        let entered = EpochGuard::enter(store.clone(), 1);
        assert!(entered.is_ok_and(|entered| entered.is_done()));
        let bytes = store.read("fence-1").unwrap().unwrap();
        let fence = OwnFence { epoch: 1, bytes };
        let deadline = LocalDeadline::start(Arc::new(clock.clone()), session, clock.now());
        let opened = Touch { heard: 0, told: 0 };
        let mut world = World {
            counting,
            rate: script.rate,
            cut: script.cut.unwrap_or(u64::MAX),
            lag,
            now: 0,
            clock,
            deadline,
            touches: vec![opened],
            answers: Vec::new(),
            store,
            fence,
            newest: 0,
            entry: script.entry,
            at_entry: None,
            outcome: Outcome::default(),
        };
        for step in &script.steps {
            world.step(step)?;
        }
        // Whatever is stopped for good: the next one enters in the end.
        world.pass(world.granted_at() + script.entry);
        world.judge()?;
        Ok(world.outcome)
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Renew { there, back } => self.renew(there, back),
            Step::Run(time) => self.run_on(time),
            Step::Stop(time) => self.pass(self.now + time),
            Step::Act => {
                if self.checked() && self.now >= self.granted_at() {
                    return Err(format!(
                        "an effect at {} ms, and another one was granted at {} ms",
                        self.now,
                        self.granted_at()
                    ));
                }
            }
            Step::Publish { before, between } => {
                if self.checked() {
                    self.publish(before, between);
                    self.judge()?;
                }
            }
        }
        Ok(())
    }

    fn checked(&mut self) -> bool {
        let allowed = self.deadline.check().is_ok();
        if allowed {
            self.outcome.acted += 1;
        } else {
            self.outcome.refused += 1;
        }
        allowed
    }

    fn renew(&mut self, there: u64, back: u64) {
        let before = self.touches.last().map_or(0, |touch| touch.heard);
        let heard = before.max(self.now + there);
        if heard >= self.cut {
            return;
        }
        let lost = heard >= self.granted_at();
        self.answers.push(Answer {
            comes: heard + back,
            sent: self.clock.now(),
            lost,
        });
        let told = match self.lag {
            0 => heard,
            lag => heard.div_ceil(lag) * lag,
        };
        if !lost && told <= self.cut {
            self.touches.push(Touch { heard, told });
        }
    }

    /// When the store lets another one lead. At worst it counts from the hearing, not the telling.
    fn granted_at(&self) -> u64 {
        let mut end = SESSION;
        for touch in &self.touches {
            if touch.told < end {
                end = end.max(touch.heard + SESSION);
            }
        }
        end
    }

    fn run_on(&mut self, time: u64) {
        let until = self.now + time;
        while let Some(next) = self.next_answer(until) {
            let answer = self.answers.remove(next);
            self.pass(answer.comes.max(self.now));
            if answer.lost {
                self.deadline.end();
                continue;
            }
            let from = self.counting.answered(answer.sent, self.clock.now());
            // What comes too late ends the leadership; nothing else follows from it.
            let _ = self.deadline.renew(from);
        }
        self.pass(until);
    }

    fn next_answer(&self, until: u64) -> Option<usize> {
        let due = self.answers.iter().enumerate();
        let due = due.filter(|(_, answer)| answer.comes <= until);
        due.min_by_key(|(_, answer)| answer.comes)
            .map(|(number, _)| number)
    }

    fn publish(&mut self, before: u64, between: u64) {
        let mut publish = Publish::new(self.fence.clone(), self.newest + 1, Vec::new());
        let mut access = publish.begin();
        // Before the creation, and before the listing and the own fence that are the look.
        for stop in [before, between, 0] {
            self.pass(self.now + stop);
            let answer = carry_out(self.store.as_ref(), &access).unwrap();
            match publish.step(answer).unwrap() {
                Next::Access(next) => access = next,
                Next::Done(Guarded::Done(published)) => {
                    self.newest = published.sequence;
                    return;
                }
                Next::Done(Guarded::SteppedDown { .. }) => {
                    self.deadline.end();
                    return;
                }
            }
        }
    }

    /// Lets time pass; the next leader does meanwhile what it has to.
    fn pass(&mut self, until: u64) {
        let enters = self.granted_at() + self.entry;
        if self.at_entry.is_none() && until >= enters {
            let entered = EpochGuard::enter(self.store.clone(), 2).unwrap();
            let mut next = entered.done().unwrap();
            let sequence = next.newest().map_or(0, |newest| newest.sequence) + 1;
            assert!(next.publish(sequence, b"").unwrap().is_done());
            assert!(next.prune().unwrap().is_done());
            self.at_entry = Some(self.of_the_old_one());
            self.outcome.deposed += 1;
        }
        self.now = self.now.max(until);
        let reading = Duration::from_micros(self.now * self.rate);
        self.clock
            .advance(reading.saturating_sub(self.clock.now().elapsed()));
    }

    /// As later leaders see it.
    fn of_the_old_one(&self) -> usize {
        let walked = procedure::run(self.store.as_ref(), Walk::up_to(u64::MAX)).unwrap();
        let Walked::Whole(chain) = walked else {
            panic!("nobody has taken over within the walk")
        };
        chain.manifests().filter(|found| found.epoch == 1).count()
    }

    fn judge(&self) -> Result<(), String> {
        let Some(at_entry) = self.at_entry else {
            return Ok(());
        };
        let now = self.of_the_old_one();
        if now == at_entry {
            return Ok(());
        }
        Err(format!(
            "the old leader's manifests were {at_entry} when the next one had entered, and are {now}"
        ))
    }
}
