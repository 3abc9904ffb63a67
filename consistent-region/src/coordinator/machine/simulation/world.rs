//! The world: one log, coordinators one after the other (sometimes overlapping), three workers.

mod coordinators;
mod workers;

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;

use super::log::Log;
use super::network::{Message, Network, Step};
use super::worker::Worker;
use crate::coordinator::event::{Action, Event, RequestId};
use crate::coordinator::machine::Machine;
use crate::coordinator::machine::broken::Broken;
use crate::coordinator::record::Entry;
use crate::coordinator::settings::{CoordinatorSettings, InstanceShape, Shape};
use crate::coordinator::status::RegionState;
use crate::graph::topology::TriggerKind;
use crate::protocol::{InstanceId, Progress, Refusal};

const WORKERS: usize = 3;
const MS: Duration = Duration::from_millis(1);
/// A run that has not come to its end by then never will.
const LIMIT: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Faults {
    links: bool,
    deaths: bool,
}

impl Faults {
    pub(super) const NONE: Self = Self {
        links: false,
        deaths: false,
    };
    pub(super) const LINKS: Self = Self {
        links: true,
        deaths: false,
    };
    pub(super) const ALL: Self = Self {
        links: true,
        deaths: true,
    };
}

struct Coordinator {
    term: u64,
    machine: Machine,
    /// What it waits for from its own store, in order; the first one is under way.
    storing: Vec<Action>,
    /// Whose answer goes where.
    requests: Vec<(RequestId, Asked)>,
    /// Lost its leadership: it answers nobody, but what it began goes on.
    deposed: bool,
}

#[derive(Clone)]
struct Asked {
    worker: usize,
    sent: Duration,
    attempt: u64,
    progress: Option<Progress>,
}

pub(super) struct World {
    rng: Rng,
    faults: Faults,
    network: Network,
    log: Log,
    coordinators: Vec<Coordinator>,
    workers: Vec<Worker>,
    next_request: RequestId,
    /// Who has written its part of which cut: worker, cut, attempt.
    written: BTreeSet<(String, u64, u64)>,
    broken: Option<Broken>,
    cuts: u64,
    resets: u64,
    seed: u64,
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        let mut world = Self {
            rng: Rng::with_seed(seed),
            faults,
            network: Network::default(),
            log: Log::default(),
            coordinators: Vec::new(),
            workers: (0..WORKERS).map(Worker::new).collect(),
            next_request: 0,
            written: BTreeSet::new(),
            broken: None,
            cuts: 0,
            resets: 0,
            seed,
        };
        world.network.send(Duration::ZERO, Message::NewCoordinator);
        for to in 0..WORKERS {
            world.network.send(MS, Message::Clock { to, life: 1 });
        }
        world
    }

    /// A world whose coordinators break a rule.
    pub(super) fn with_broken(seed: u64, faults: Faults, rule: Broken) -> Self {
        Self {
            broken: Some(rule),
            ..Self::new(seed, faults)
        }
    }

    pub(super) fn resets(&self) -> u64 {
        self.resets
    }

    pub(super) fn run_for(&mut self, seconds: u64) {
        let end = self.network.now() + Duration::from_secs(seconds);
        while self.network.now() < end {
            self.one();
        }
    }

    /// From now on nothing fails any more, and a failed region is taken up again.
    pub(super) fn heal(&mut self) {
        self.faults = Faults::NONE;
        let leading = |world: &Self| world.coordinators.iter().any(|one| !one.deposed);
        if !leading(self) {
            self.network.send(MS, Message::NewCoordinator);
        }
        self.run_until("a coordinator leads", leading);
        self.run_until("the leader is open", |world| {
            world
                .leader()
                .is_some_and(|leader| leader.machine.state_now() != RegionState::Opening)
        });
        self.command(|request| Event::ResetRequested {
            request,
            force: true,
            reason: "faults are over".to_owned(),
        });
    }

    pub(super) fn run_until_cut(&mut self, more: u64) {
        let wanted = self.cuts + more;
        self.run_until("cuts complete", |world| world.cuts >= wanted);
    }

    /// A final cut, and the end.
    pub(super) fn stop(&mut self) {
        self.command(|request| Event::StopRequested { request });
        self.run_until("the region ends", |world| {
            let finished = world
                .leader()
                .is_some_and(|leader| leader.machine.status().finished);
            finished && world.workers.iter().all(|worker| worker.ended)
        });
    }

    pub(super) fn replace_coordinator(&mut self) {
        let wait = self.rng.u64(0..3_000);
        self.run_for_ms(wait);
        let before = self.log_term();
        self.network.send(MS, Message::NewCoordinator);
        self.run_until("the new coordinator opens", |world| {
            world.log_term() > before
        });
    }

    fn log_term(&self) -> u64 {
        self.log.record().term
    }

    fn run_for_ms(&mut self, ms: u64) {
        let end = self.network.now() + Duration::from_millis(ms);
        while self.network.now() < end {
            self.one();
        }
    }

    fn run_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let limit = self.network.now() + LIMIT;
        while !done(self) {
            self.one();
            if self.network.now() > limit {
                let status = self.leader().map(|leader| leader.machine.status());
                panic!(
                    "seed {}: not {what}: {status:#?} {:#?}",
                    self.seed, self.workers
                );
            }
        }
    }

    fn leader(&self) -> Option<&Coordinator> {
        self.coordinators
            .iter()
            .rev()
            .find(|coordinator| !coordinator.deposed)
    }

    fn command(&mut self, event: impl FnOnce(RequestId) -> Event) {
        self.next_request += 1;
        let event = event(self.next_request);
        let term = self.leader().map(|leader| leader.term);
        if let Some(term) = term {
            self.feed(term, event);
        }
    }

    /// The next thing that happens.
    fn one(&mut self) {
        let due = self.coordinators.iter().filter(|one| !one.deposed);
        let tick = due
            .filter_map(|one| Some((one.machine.next_deadline()?, one.term)))
            .min();
        match (tick, self.network.next_at()) {
            (Some((at, term)), next) if next.is_none_or(|next| at <= next) => {
                self.network.advance(at);
                self.feed(term, Event::Tick);
            }
            (_, Some(_)) => {
                if let Some(message) = self.network.take() {
                    self.deliver(message);
                }
            }
            (_, None) => panic!("seed {}: nothing will ever happen again", self.seed),
        }
        self.check_instances();
        if self.faults.deaths && self.rng.u32(0..2_000) == 0 {
            self.strike();
        }
    }

    /// A cut is complete when everybody has written its part of it, in the same attempt.
    fn check_parts(&self, entry: &Entry) {
        let Some(manifest) = &entry.manifest else {
            return;
        };
        for (_, worker) in entry.record.placement.iter() {
            let part = (worker.clone(), manifest.seq, manifest.attempt);
            let seed = self.seed;
            assert!(self.written.contains(&part), "seed {seed}: {part:?}");
        }
    }

    fn check_instances(&self) {
        let now = self.network.now();
        let acting: Vec<&Worker> = self
            .workers
            .iter()
            .filter(|worker| worker.may_act(now))
            .collect();
        for (index, one) in acting.iter().enumerate() {
            for other in &acting[index + 1..] {
                let both = one.instances.intersection(&other.instances).next();
                assert_eq!(both, None, "seed {}: {one:?} and {other:?}", self.seed);
            }
        }
    }

    /// Something dies or stands still.
    fn strike(&mut self) {
        let to = self.rng.usize(0..WORKERS);
        let after = Duration::from_millis(self.rng.u64(10..15_000));
        match self.rng.u32(0..10) {
            0..4 => {
                let gone = self.workers[to].registered.filter(|_| self.rng.bool());
                self.workers[to].alive = false;
                self.workers[to].abandon();
                self.network.send(after, Message::Reborn { to });
                // Sometimes the coordinator can see that the process has ended.
                if let Some((term, worker_epoch)) = gone {
                    let worker = self.workers[to].name.clone();
                    let event = Box::new(Event::ProcessGone {
                        worker,
                        worker_epoch,
                    });
                    self.network.send(100 * MS, Message::Own { term, event });
                }
            }
            4..7 => {
                self.workers[to].stopped = true;
                self.network.send(after, Message::Wakes { to });
            }
            // The leader dies.
            7 | 8 => {
                self.coordinators.clear();
                self.network
                    .send(after.min(3_000 * MS), Message::NewCoordinator);
            }
            // The leader is deposed and does not know it yet.
            _ => self.network.send(MS, Message::NewCoordinator),
        }
    }

    fn send(&mut self, message: Message) {
        let spread = if self.faults.links { 300 } else { 3 };
        let delay = Duration::from_millis(self.rng.u64(1..=spread));
        if self.faults.links && message.is_on_a_link() {
            if self.rng.u32(0..10) == 0 {
                return;
            }
            if self.rng.u32(0..10) == 0 {
                let later = Duration::from_millis(self.rng.u64(1..5_000));
                self.network.send(later, message.clone());
            }
        }
        self.network.send(delay, message);
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Register { from, register } => {
                let attempt = register.attempt;
                let sent = self.network.now();
                self.ask(
                    Asked {
                        worker: from,
                        sent,
                        attempt,
                        progress: None,
                    },
                    |request| Event::Register { request, register },
                );
            }
            Message::Heartbeat {
                from,
                heartbeat,
                sent,
            } => {
                self.ask(
                    Asked {
                        worker: from,
                        sent,
                        attempt: 0,
                        progress: None,
                    },
                    |request| Event::Heartbeat { request, heartbeat },
                );
            }
            Message::Progress { from, progress } => {
                let sent = self.network.now();
                let asked = Asked {
                    worker: from,
                    sent,
                    attempt: 0,
                    progress: Some(progress.clone()),
                };
                self.ask(asked, |request| Event::Progress { request, progress });
            }
            Message::Registered {
                to,
                sent,
                attempt,
                answer,
            } => {
                let worker = &mut self.workers[to];
                let current = worker.alive && attempt == worker.registration;
                if let (true, None, Ok(registered)) = (current, worker.registered, answer) {
                    worker.registered = Some((registered.term, registered.worker_epoch));
                    worker.lease_until = sent + registered.lease * 4 / 5;
                    worker.taken = 0;
                }
            }
            Message::Alive { to, sent, answer } => {
                let epoch = self.workers[to].registered;
                match answer {
                    Ok(answer)
                        if self.workers[to].may_act(self.network.now())
                            && epoch.is_some_and(|(term, _)| term == answer.term) =>
                    {
                        let worker = &mut self.workers[to];
                        worker.lease_until = worker.lease_until.max(sent + LEASE * 4 / 5);
                        for notice in answer.notices {
                            self.take(to, notice);
                        }
                    }
                    Err(Refusal::NotRegistered { worker_epoch, .. })
                        if epoch.is_some_and(|(_, mine)| mine == worker_epoch) =>
                    {
                        self.workers[to].abandon();
                    }
                    _ => {}
                }
            }
            Message::Taken {
                to,
                progress,
                answer,
            } => match answer {
                Ok(()) => self.workers[to].unsaid.retain(|unsaid| *unsaid != progress),
                Err(Refusal::NotRegistered { worker_epoch, .. }) => {
                    let mine = self.workers[to].registered;
                    if mine.is_some_and(|(_, mine)| mine == worker_epoch) {
                        self.workers[to].abandon();
                    }
                }
                Err(_) => {}
            },
            Message::Push { to, notice } => self.take(to, notice),
            Message::Stored { term, action } => self.stored(term, *action),
            Message::Own { term, event } => self.feed(term, *event),
            Message::Step {
                to,
                life,
                step: Step::Say(progress),
            } => self.step(to, life, progress),
            Message::Reborn { to } => {
                if !self.workers[to].alive {
                    self.workers[to].reborn(to);
                    let life = self.workers[to].life;
                    self.network.send(MS, Message::Clock { to, life });
                }
            }
            Message::Wakes { to } => self.workers[to].stopped = false,
            Message::NewCoordinator => self.new_coordinator(),
            Message::Clock { to, life } => self.clock(to, life),
        }
    }
}

const LEASE: Duration = Duration::from_secs(5);

fn settings(seed: u64) -> CoordinatorSettings {
    let instance = |operator: &str, index, start| InstanceShape {
        instance: InstanceId {
            operator: operator.to_owned(),
            index,
        },
        start,
        acknowledges: start,
        labels: Vec::new(),
    };
    let shape = Shape {
        fingerprint: 1,
        instances: vec![
            instance("source", 0, true),
            instance("totals", 0, false),
            instance("totals", 1, false),
            instance("sink", 0, false),
        ],
        structure: 1,
        trigger: TriggerKind::Periodic,
    };
    // With a short one instances move as soon as the lease allows it, with a long one workers come
    // back to what they had.
    let placement_timeout = match seed % 2 {
        0 => Duration::from_millis(100),
        _ => Duration::from_secs(10),
    };
    CoordinatorSettings {
        placement_timeout,
        tolerable_failed_cuts: u32::try_from(seed % 3).unwrap_or(0),
        period: Some(Duration::from_secs(1)),
        drain_timeout: Duration::from_secs(20),
        reset_timeout: Duration::from_secs(20),
        workers: 2,
        lease: LEASE,
        ..CoordinatorSettings::new("sim", shape)
    }
}
