//! The machine on a bench: two workers and a log that does at once what it is asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use uuid::Uuid;

use super::{Action, Event, Machine, Moment};
use crate::coordinator::event::{Beginning, Choice, CommandRefused};
use crate::coordinator::record::Entry;
use crate::coordinator::settings::{CoordinatorSettings, InstanceShape, Shape};
use crate::coordinator::status::{RegionEvent, RegionState};
use crate::graph::topology::TriggerKind;
use crate::manifest::{Manifest, RestorePoint};
use crate::protocol::{
    Heartbeat, InstanceId, Notice, Order, Progress, ProgressEvent, Register, Stamp,
};

pub(super) const PERIOD: Duration = Duration::from_secs(1);
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
pub(super) const RESET_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const MOST_RESETS: u32 = 3;
/// So long that it plays no part.
const LONG: Duration = Duration::from_secs(86_400);
pub(super) const WORKERS: [&str; 2] = ["a", "b"];

pub(super) fn instance(operator: &str, index: u16) -> InstanceId {
    InstanceId {
        operator: operator.to_owned(),
        index,
    }
}

pub(super) fn settings() -> CoordinatorSettings {
    let shape = |operator, index, start| InstanceShape {
        instance: instance(operator, index),
        start,
        acknowledges: false,
        labels: Vec::new(),
    };
    let shape = Shape {
        fingerprint: 1,
        instances: vec![
            shape("source", 0, true),
            shape("totals", 0, false),
            shape("totals", 1, false),
        ],
        structure: 1,
        trigger: TriggerKind::Periodic,
    };
    CoordinatorSettings {
        period: Some(PERIOD),
        drain_timeout: DRAIN_TIMEOUT,
        reset_timeout: RESET_TIMEOUT,
        max_consecutive_reset_attempts: MOST_RESETS,
        reset_backoff: Duration::ZERO,
        workers: WORKERS.len(),
        placement_timeout: LONG,
        lease: LONG,
        resend: LONG,
        ..CoordinatorSettings::new("bench", shape)
    }
}

pub(super) struct Bench {
    pub(super) machine: Machine,
    pub(super) now: Moment,
    happening: VecDeque<Event>,
    joining: Option<String>,
    requests: u64,
    incarnations: u128,
    /// The registered workers: epoch, and the newest notice that was taken.
    pub(super) workers: BTreeMap<String, (u64, u64)>,
    pub(super) log: Vec<Entry>,
    /// The cuts that are kept by name.
    pub(super) savepoints: BTreeMap<String, u64>,
    /// Entries are not written.
    pub(super) store_fails: bool,
    /// Orders as they left, each once.
    pub(super) orders: Vec<(String, Stamp, Order)>,
    pub(super) told: Vec<RegionEvent>,
    /// What came of the last command.
    pub(super) answer: Option<Result<(), CommandRefused>>,
}

impl Bench {
    pub(super) fn open(settings: CoordinatorSettings, beginning: Beginning) -> Self {
        let (machine, actions) = Machine::open(Moment::ZERO, settings, 1, beginning);
        let mut bench = Self {
            machine,
            now: Moment::ZERO,
            happening: VecDeque::new(),
            joining: None,
            requests: 0,
            incarnations: 0,
            workers: BTreeMap::new(),
            log: Vec::new(),
            savepoints: BTreeMap::new(),
            store_fails: false,
            orders: Vec::new(),
            told: Vec::new(),
            answer: None,
        };
        bench.carry_out(actions);
        bench.settle();
        bench
    }

    /// A region that came to `state` by the shortest way.
    pub(super) fn at(state: RegionState) -> Self {
        use RegionState::{
            CheckpointPending, Draining, Failed, Processing, Resetting, Started, Unhealthy,
        };
        let mut bench = match state {
            Started => Self::open(settings(), Beginning::default()),
            Processing => {
                let mut bench = Self::at(Started);
                bench.join_all();
                bench.all_say(&ProgressEvent::ResetDone);
                bench
            }
            Draining => {
                let mut bench = Self::at(Processing);
                bench.wait(PERIOD);
                bench
            }
            CheckpointPending => {
                let mut bench = Self::at(Draining);
                bench.all_say(&ProgressEvent::BlockingCheckpointDone);
                bench
            }
            Resetting => {
                let mut bench = Self::at(Processing);
                bench.request_reset(false);
                bench
            }
            Unhealthy => {
                let mut bench = Self::at(Processing);
                bench.gone("b");
                bench
            }
            Failed => {
                let mut bench = Self::at(Processing);
                for _ in 0..MOST_RESETS {
                    bench.request_reset(false);
                }
                bench
            }
            other => panic!("no way to {other:?}"),
        };
        assert_eq!(bench.machine.state_now(), state);
        bench.orders.clear();
        bench.told.clear();
        bench
    }

    pub(super) fn state(&self) -> RegionState {
        self.machine.state_now()
    }

    pub(super) fn feed(&mut self, event: Event) {
        self.happening.push_back(event);
        self.settle();
    }

    /// Until nothing follows any more: all actions of a step come before what follows from them.
    fn settle(&mut self) {
        while let Some(event) = self.happening.pop_front() {
            let actions = self.machine.step(self.now, event);
            self.carry_out(actions);
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::AnswerRegister { answer, .. } => {
                    if let (Some(worker), Ok(registered)) = (self.joining.take(), answer) {
                        self.workers.insert(worker, (registered.worker_epoch, 0));
                    }
                }
                Action::AnswerCommand { answer, .. } => self.answer = Some(answer),
                Action::AnswerHeartbeat { .. } | Action::AnswerProgress { .. } => {}
                Action::Push { worker, notice } => self.take(worker, notice),
                Action::Append(entry) => self.append(*entry),
                Action::ChooseRestorePoint {
                    choice,
                    record,
                    savepoint,
                } => {
                    let outcome = match savepoint {
                        Some(name) => self.choose_savepoint(&name),
                        None => self.choose(record.oldest_retained(), record.retained),
                    };
                    self.happening.push_back(Event::Chosen { choice, outcome });
                }
                Action::Tidy { .. } => {}
                Action::KeepSavepoint { request, name, cut } => {
                    let taken = self.savepoints.insert(name.clone(), cut.seq).is_some();
                    let outcome = match taken {
                        true => Err(CommandRefused::NameTaken { name: name.clone() }),
                        false => Ok(()),
                    };
                    self.happening.push_back(Event::SavepointKept {
                        request,
                        name,
                        seq: cut.seq,
                        outcome,
                    });
                }
                Action::FindSavepoint { request, name } => {
                    let known = self.savepoints.get(&name).copied();
                    let outcome = known.ok_or(CommandRefused::NoSavepoint { name: name.clone() });
                    self.happening.push_back(Event::SavepointFound {
                        request,
                        name,
                        outcome,
                    });
                }
                Action::RemoveSavepoint { request, name } => {
                    self.savepoints.remove(&name);
                    let outcome = Ok(());
                    self.happening
                        .push_back(Event::SavepointRemoved { request, outcome });
                }
                Action::Tell(event) => self.told.push(event),
            }
        }
    }

    fn take(&mut self, worker: String, notice: Notice) {
        let Some((epoch, taken)) = self.workers.get_mut(&worker) else {
            return;
        };
        if notice.worker_epoch != *epoch || notice.number <= *taken {
            return;
        }
        *taken = notice.number;
        let heartbeat = Heartbeat {
            worker: worker.clone(),
            worker_epoch: *epoch,
            acknowledged: notice.number,
        };
        self.orders.push((worker, notice.stamp, notice.order));
        let request = self.request();
        self.happening
            .push_back(Event::Heartbeat { request, heartbeat });
    }

    fn append(&mut self, entry: Entry) {
        let number = entry.record.number;
        if self.store_fails {
            let reason = "no space".to_owned();
            let failed = Event::AppendFailed { number, reason };
            return self.happening.push_back(failed);
        }
        self.log.push(entry);
        self.happening.push_back(Event::Appended { number });
    }

    pub(super) fn manifests(&self) -> impl DoubleEndedIterator<Item = &Manifest> {
        self.log.iter().filter_map(|entry| entry.manifest.as_ref())
    }

    fn choose(
        &self,
        oldest_retained: u64,
        retained: Vec<crate::coordinator::record::Retained>,
    ) -> Choice {
        let newest = retained.first().map(|kept| kept.seq);
        let manifest = self
            .manifests()
            .find(|manifest| Some(manifest.seq) == newest);
        Choice::Restore {
            restore: manifest.map(|manifest| RestorePoint {
                seq: manifest.seq,
                oldest_retained,
                objects: Vec::new(),
                tokens: Vec::new(),
                widths: BTreeMap::default(),
            }),
            last: manifest.is_some_and(|manifest| manifest.last),
            retained,
            left_out: Vec::new(),
            manifest: None,
        }
    }

    fn choose_savepoint(&self, name: &str) -> Choice {
        let seq = self.savepoints.get(name).copied();
        match self.manifests().find(|manifest| Some(manifest.seq) == seq) {
            None => Choice::Impossible {
                reason: "it is gone".to_owned(),
            },
            Some(manifest) => Choice::Restore {
                restore: Some(RestorePoint {
                    seq: manifest.seq,
                    oldest_retained: manifest.seq,
                    objects: Vec::new(),
                    tokens: Vec::new(),
                    widths: BTreeMap::default(),
                }),
                last: false,
                retained: Vec::new(),
                left_out: Vec::new(),
                manifest: Some(Box::new(manifest.clone())),
            },
        }
    }

    pub(super) fn request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// A new process registers.
    pub(super) fn join(&mut self, worker: &str) {
        self.incarnations += 1;
        let register = Register {
            region: "bench".to_owned(),
            worker: worker.to_owned(),
            incarnation: Uuid::from_u128(self.incarnations),
            address: String::new(),
            slots: 2,
            labels: Vec::new(),
            graph: 1,
            attempt: 1,
            standing: None,
            process: None,
        };
        let request = self.request();
        self.joining = Some(worker.to_owned());
        self.feed(Event::Register { request, register });
    }

    pub(super) fn join_all(&mut self) {
        for worker in WORKERS {
            self.join(worker);
        }
    }

    pub(super) fn gone(&mut self, worker: &str) {
        if let Some((worker_epoch, _)) = self.workers.remove(worker) {
            let worker = worker.to_owned();
            self.feed(Event::ProcessGone {
                worker,
                worker_epoch,
            });
        }
    }

    pub(super) fn stamp(&self) -> Stamp {
        let status = self.machine.status();
        Stamp {
            term: status.term,
            seq: status.seq,
            attempt: status.attempt,
        }
    }

    pub(super) fn say(&mut self, worker: &str, stamp: Stamp, event: ProgressEvent) {
        let Some((worker_epoch, _)) = self.workers.get(worker).copied() else {
            return;
        };
        let progress = Progress {
            worker: worker.to_owned(),
            worker_epoch,
            stamp,
            event,
        };
        let request = self.request();
        self.feed(Event::Progress { request, progress });
    }

    /// All say so about what is under way.
    pub(super) fn all_say(&mut self, event: &ProgressEvent) {
        let mut stamp = self.stamp();
        if self.state() == RegionState::CheckpointPending {
            // Tuples belong to the next cut already.
            stamp.seq -= 1;
        }
        self.all_say_about(stamp, event);
    }

    pub(super) fn all_say_about(&mut self, stamp: Stamp, event: &ProgressEvent) {
        for worker in WORKERS {
            self.say(worker, stamp, event.clone());
        }
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.feed(Event::Tick);
    }

    pub(super) fn request_reset(&mut self, force: bool) {
        let request = self.request();
        let reason = "so it is wished".to_owned();
        self.feed(Event::ResetRequested {
            request,
            force,
            reason,
        });
    }

    /// The orders that worker `a` was given, by name.
    pub(super) fn orders_of_a(&self) -> Vec<&'static str> {
        let orders = self.orders.iter().filter(|(worker, ..)| worker == "a");
        orders
            .map(|(.., order)| match order {
                Order::Reset { .. } => "reset",
                Order::Drain { .. } => "drain",
                Order::Resume => "resume",
                Order::Checkpointed { .. } => "checkpointed",
                Order::Abandoned { .. } => "abandoned",
                Order::ResetFailed { .. } => "failed",
                Order::End => "end",
            })
            .collect()
    }
}

pub(super) fn checkpoint_done() -> ProgressEvent {
    ProgressEvent::CheckpointDone {
        objects: Vec::new(),
        tokens: Vec::new(),
        timings: Vec::new(),
    }
}

pub(super) fn cut_failed() -> ProgressEvent {
    ProgressEvent::CutFailed {
        instance: instance("source", 0),
        reason: "no space".to_owned(),
    }
}

pub(super) fn failed() -> ProgressEvent {
    ProgressEvent::Failed {
        instance: None,
        reason: "so it is".to_owned(),
        permanent: false,
    }
}
