//! What this side asks of the peer.

use std::time::Instant;

use super::{Connection, Phase, free};
use crate::connection::lanes::Origin;
use crate::connection::pending::Pending;
use crate::connection::{Action, CallEnd, Host, Loss, OpenEnd, TellLoss};
use crate::wire::{Call, Connect, Frame, Tell};

impl<H: Host> Connection<H> {
    pub(super) fn open(
        &mut self,
        now: Instant,
        mut connect: Connect,
        deadline: Instant,
        opener: H::Opener,
        actions: &mut Vec<Action<H>>,
    ) {
        let end = if let Some(loss) = self.why_not() {
            OpenEnd::Lost(loss)
        } else if deadline <= now {
            OpenEnd::TimedOut
        } else {
            while self.opens.contains(self.next_request) {
                self.next_request = self.next_request.wrapping_add(1);
            }
            let request = self.next_request;
            self.next_request = request.wrapping_add(1);
            connect.request = request;
            match self.outgoing.push(&Frame::Connect(connect)) {
                Ok(end) => {
                    self.opens.insert(
                        request,
                        Pending {
                            waiter: opener,
                            deadline,
                            end,
                        },
                    );
                    return;
                }
                Err(error) => OpenEnd::TooLong(error),
            }
        };
        actions.push(Action::Opened { opener, end });
    }

    pub(super) fn call(
        &mut self,
        now: Instant,
        frame: Call,
        deadline: Instant,
        room: u32,
        waiter: H::Waiter,
        actions: &mut Vec<Action<H>>,
    ) {
        let (call, session) = (frame.call, frame.session);
        let end = if let Some(loss) = self.why_not() {
            CallEnd::NotSent(loss)
        } else if deadline <= now {
            CallEnd::TimedOut { sent: false }
        } else if self.calls.len() >= self.settings.in_flight_limit || self.calls.contains(call) {
            CallEnd::TooMany {
                limit: self.settings.in_flight_limit,
            }
        } else {
            let origin = Origin::Call(call);
            match self.send(Some(session), origin, &Frame::Call(frame), room, actions) {
                Ok(end) => {
                    self.calls.insert(
                        call,
                        Pending {
                            waiter,
                            deadline,
                            end,
                        },
                    );
                    return;
                }
                Err(error) => CallEnd::TooLong(error),
            }
        };
        free(room, actions);
        actions.push(Action::Resolve { waiter, end });
    }

    pub(super) fn tell(&mut self, tell: Tell, room: u32, actions: &mut Vec<Action<H>>) {
        let (session, method) = (tell.session, tell.method);
        let loss = if let Some(loss) = self.why_not() {
            TellLoss::NotSent(loss)
        } else {
            let origin = Origin::Tell(method);
            match self.send(Some(session), origin, &Frame::Tell(tell), room, actions) {
                Ok(end) => {
                    if end != u64::MAX {
                        self.tells.push_back((end, session, method));
                    }
                    return;
                }
                Err(error) => TellLoss::TooLong(error),
            }
        };
        free(room, actions);
        actions.push(Action::TellLost {
            session,
            method,
            loss,
        });
    }

    /// Why nothing new can be sent, if so.
    pub(super) fn why_not(&self) -> Option<Loss> {
        match &self.phase {
            Phase::Open => None,
            Phase::Leaving { reason, text, .. } => Some(Loss::Left(*reason, text.clone())),
            Phase::Gone(loss) => Some(loss.clone()),
        }
    }
}
