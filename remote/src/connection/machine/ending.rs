//! How a connection ends: in order, or at once.

use super::{Connection, Phase};
use crate::connection::{Action, CallEnd, Host, Loss, OpenEnd};
use crate::wire::{Farewell, Frame, Goodbye};

impl<H: Host> Connection<H> {
    pub(super) fn retire(&mut self, reason: Farewell, text: String) {
        match &mut self.phase {
            Phase::Open => {
                self.push(&Frame::Goodbye(Goodbye {
                    reason,
                    text: text.clone(),
                }));
                self.phase = Phase::Leaving {
                    ours: true,
                    theirs: false,
                    reason,
                    text,
                };
            }
            Phase::Leaving { ours, .. } if !*ours => {
                *ours = true;
                self.push(&Frame::Goodbye(Goodbye { reason, text }));
            }
            Phase::Leaving { .. } | Phase::Gone(_) => {}
        }
    }

    pub(super) fn peer_leaves(
        &mut self,
        reason: Farewell,
        text: String,
        actions: &mut Vec<Action<H>>,
    ) {
        if reason == Farewell::ProtocolError {
            self.end(Loss::Left(reason, text), actions);
            return;
        }
        actions.push(Action::PeerLeaves {
            reason,
            text: text.clone(),
        });
        self.retire(reason, text);
        if let Phase::Leaving { theirs, .. } = &mut self.phase {
            *theirs = true;
        }
    }

    /// Both said goodbye and nothing is in flight: the socket can go.
    pub(super) fn close_when_left(&mut self, actions: &mut Vec<Action<H>>) {
        if let Phase::Leaving {
            ours: true,
            theirs: true,
            reason,
            text,
        } = &self.phase
            && self.calls.is_empty()
            && self.opens.is_empty()
            && self.serving.calls() == 0
            && self.lanes.is_empty()
            && self.tells.is_empty()
        {
            let loss = Loss::Left(*reason, text.clone());
            self.end(loss, actions);
        }
    }

    pub(super) fn violated(&mut self, text: String, actions: &mut Vec<Action<H>>) {
        // Told only if that sends no call along which is about to be reported as not sent.
        if self.all_left() {
            let reason = Farewell::ProtocolError;
            self.push(&Frame::Goodbye(Goodbye {
                reason,
                text: text.clone(),
            }));
        }
        self.end(Loss::Protocol(text), actions);
    }

    /// Whether every call in flight and every one-way message has been written to the socket.
    pub(super) fn all_left(&self) -> bool {
        self.calls
            .iter()
            .all(|pending| self.outgoing.has_left(pending.end))
            && self.tells.is_empty()
    }

    /// Ends everything that is in flight, once.
    pub(super) fn end(&mut self, loss: Loss, actions: &mut Vec<Action<H>>) {
        if self.is_gone() {
            return;
        }
        // What is reported as not sent must not be sent by a last flush.
        let abandon = !self.all_left();
        for pending in self.calls.take_all() {
            let end = if self.outgoing.has_left(pending.end) {
                CallEnd::Unknown(loss.clone())
            } else {
                CallEnd::NotSent(loss.clone())
            };
            actions.push(Action::Resolve {
                waiter: pending.waiter,
                end,
            });
        }
        for pending in self.opens.take_all() {
            let end = OpenEnd::Lost(loss.clone());
            actions.push(Action::Opened {
                opener: pending.waiter,
                end,
            });
        }
        actions.extend(self.serving.clear().into_iter().map(Action::CancelServed));
        self.lose_tells(&loss, actions);
        if abandon {
            self.outgoing.abandon();
        }
        self.lanes.clear();
        self.incoming.clear();
        actions.push(Action::Close(loss.clone()));
        self.phase = Phase::Gone(loss);
    }
}
