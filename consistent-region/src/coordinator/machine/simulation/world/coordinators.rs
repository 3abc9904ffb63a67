//! What coordinators do in the world: they are asked, act, and write to the log.

use std::time::Duration;

use super::super::log::Appended;
use super::super::network::Message;
use super::{Asked, Coordinator, World, settings};
use crate::coordinator::event::{Action, Event, RequestId};
use crate::coordinator::machine::Machine;
use crate::coordinator::machine::broken::Broken;
use crate::protocol::Order;

impl World {
    pub(super) fn new_coordinator(&mut self) {
        for former in &mut self.coordinators {
            former.deposed = true;
        }
        let (term, mut beginning) = self.log.enter();
        if let (Some(Broken::GhostsForgotten), Some(record)) = (self.broken, &mut beginning.record)
        {
            record.claims.clear();
        }
        let (mut machine, actions) =
            Machine::open(self.network.now(), settings(self.seed), term, beginning);
        machine.broken = self.broken;
        let deposed = false;
        let (storing, requests) = (Vec::new(), Vec::new());
        self.coordinators.push(Coordinator {
            term,
            machine,
            storing,
            requests,
            deposed,
        });
        // Workers follow the leader: their standing is offered to it.
        for worker in &mut self.workers {
            if !worker.stopped && worker.registered.is_some_and(|(known, _)| known < term) {
                worker.registered = None;
                worker.unsaid.clear();
            }
        }
        self.carry_out(term, actions);
    }

    pub(super) fn ask(&mut self, asked: Asked, event: impl FnOnce(RequestId) -> Event) {
        self.next_request += 1;
        let request = self.next_request;
        let Some(leader) = self.coordinators.iter_mut().rev().find(|one| !one.deposed) else {
            return;
        };
        leader.requests.push((request, asked));
        let term = leader.term;
        self.feed(term, event(request));
    }

    pub(super) fn feed(&mut self, term: u64, event: Event) {
        let now = self.network.now();
        let Some(one) = self.coordinators.iter_mut().find(|one| one.term == term) else {
            return;
        };
        let actions = one.machine.step(now, event);
        self.carry_out(term, actions);
    }

    pub(super) fn carry_out(&mut self, term: u64, actions: Vec<Action>) {
        for action in actions {
            // Death at every action.
            if self.faults.deaths && self.rng.u32(0..1_500) == 0 {
                self.coordinators.retain(|one| one.term != term);
                let after = Duration::from_millis(self.rng.u64(1..3_000));
                self.network.send(after, Message::NewCoordinator);
            }
            if self.coordinators.iter().all(|one| one.term != term) {
                return;
            }
            self.act(term, action);
        }
    }

    pub(super) fn act(&mut self, term: u64, action: Action) {
        match action {
            Action::AnswerRegister { request, answer } => {
                if let Some(Asked {
                    worker: to,
                    sent,
                    attempt,
                    ..
                }) = self.asked(term, request)
                {
                    self.send(Message::Registered {
                        to,
                        sent,
                        attempt,
                        answer,
                    });
                }
            }
            Action::AnswerHeartbeat { request, answer } => {
                if let Some(Asked {
                    worker: to, sent, ..
                }) = self.asked(term, request)
                {
                    self.send(Message::Alive { to, sent, answer });
                }
            }
            Action::AnswerProgress { request, answer } => {
                if let Some(Asked {
                    worker: to,
                    progress: Some(progress),
                    ..
                }) = self.asked(term, request)
                {
                    self.send(Message::Taken {
                        to,
                        progress,
                        answer,
                    });
                }
            }
            Action::AnswerCommand { .. } => {}
            Action::Push { worker, notice } => {
                let stamp = notice.stamp;
                assert_eq!(stamp.term, term);
                assert!(
                    self.log.covers(term, stamp.seq, stamp.attempt),
                    "seed {}: {notice:?} left before its record",
                    self.seed
                );
                if let Order::Checkpointed {
                    oldest_retained, ..
                } = notice.order
                {
                    assert!(
                        self.log.record().acked_through >= oldest_retained,
                        "seed {}: {notice:?} left before its record",
                        self.seed
                    );
                }
                let to = self.workers.iter().position(|one| one.name == worker);
                self.send(Message::Push {
                    to: to.unwrap(),
                    notice,
                });
            }
            Action::Append(_) | Action::ChooseRestorePoint { .. } => self.store(term, action),
            Action::Tidy { .. }
            | Action::KeepSavepoint { .. }
            | Action::FindSavepoint { .. }
            | Action::RemoveSavepoint { .. } => {}
            Action::Tell(event) => self.told(&event),
        }
    }

    pub(super) fn told(&mut self, event: &crate::coordinator::status::RegionEvent) {
        use crate::coordinator::status::RegionEvent;
        match event {
            RegionEvent::CutCompleted(_) => self.cuts += 1,
            RegionEvent::ResetBegun { .. } => self.resets += 1,
            _ => {}
        }
    }

    pub(super) fn asked(&mut self, term: u64, request: RequestId) -> Option<Asked> {
        let one = self.coordinators.iter_mut().find(|one| one.term == term)?;
        let position = one
            .requests
            .iter()
            .position(|(number, _)| *number == request)?;
        Some(one.requests.swap_remove(position).1)
    }

    /// One after the other, each taking its time.
    pub(super) fn store(&mut self, term: u64, action: Action) {
        let Some(one) = self.coordinators.iter_mut().find(|one| one.term == term) else {
            return;
        };
        one.storing.push(action);
        if one.storing.len() == 1 {
            self.store_next(term);
        }
    }

    pub(super) fn store_next(&mut self, term: u64) {
        let Some(one) = self.coordinators.iter().find(|one| one.term == term) else {
            return;
        };
        if let Some(action) = one.storing.first().cloned() {
            self.send(Message::Stored {
                term,
                action: Box::new(action),
            });
        }
    }

    pub(super) fn stored(&mut self, term: u64, action: Action) {
        if self.coordinators.iter().all(|one| one.term != term) {
            return;
        }
        let fails = self.faults.deaths && self.rng.u32(0..20) == 0;
        match action {
            Action::Append(entry) => {
                let number = entry.record.number;
                self.check_parts(&entry);
                if fails {
                    let reason = "no space".to_owned();
                    self.feed(term, Event::AppendFailed { number, reason });
                } else {
                    match self.log.append(term, *entry) {
                        Appended::Yes => self.feed(term, Event::Appended { number }),
                        Appended::SteppedDown => {
                            self.coordinators.retain(|one| one.term != term);
                        }
                    }
                }
            }
            Action::ChooseRestorePoint { choice, record, .. } => {
                let outcome = self.log.choose(&record);
                self.feed(term, Event::Chosen { choice, outcome });
            }
            _ => {}
        }
        if let Some(one) = self.coordinators.iter_mut().find(|one| one.term == term) {
            one.storing.remove(0);
        }
        self.store_next(term);
    }
}
