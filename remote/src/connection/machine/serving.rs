//! What the peer sends: its calls, and its answers to ours.

use std::time::Instant;

use bytes::Bytes;
use lockkeeper_core::{Outcome, RpcErrorKind};

use super::{Connection, deadline_in};
use crate::connection::event::Serve;
use crate::connection::lanes::Origin;
use crate::connection::{Action, CallEnd, Host, Loss, OpenEnd, TellLoss, Ticket};
use crate::wire::{
    Call, Cancel, Connect, Connected, Credit, Disconnect, Ended, Failure, Fault, Frame, Goodbye,
    Grant, Ping, Pong, Refused, Reply, Tell, WireError,
};

impl<H: Host> Connection<H> {
    pub(super) fn received(&mut self, now: Instant, frame: Frame, actions: &mut Vec<Action<H>>) {
        if self.is_gone() {
            return;
        }
        self.liveness.heard(now);
        if let Frame::Chunk(chunk) = frame {
            match self.incoming.take(chunk) {
                Ok(None) => {}
                Ok(Some(whole)) => self.take(now, whole, actions),
                Err(text) => self.violated(text, actions),
            }
        } else {
            self.take(now, frame, actions);
        }
    }

    pub(super) fn take(&mut self, now: Instant, frame: Frame, actions: &mut Vec<Action<H>>) {
        if frame.since() > self.settings.version {
            let (since, spoken) = (frame.since(), self.settings.version);
            let text = format!("a frame of protocol version {since}, and {spoken} is spoken");
            return self.violated(text, actions);
        }
        match frame {
            // Joined before it came here.
            Frame::Chunk(_) => {}
            Frame::Connect(connect) => self.asked_to_connect(connect, actions),
            Frame::Connected(Connected {
                request,
                session,
                grant,
            }) => {
                match self.opens.remove(request) {
                    Some(open) => actions.push(Action::Opened {
                        opener: open.waiter,
                        end: OpenEnd::Session { session, grant },
                    }),
                    // Nobody waits any more: do not leave the peer with a session for nobody.
                    None => self.push(&Frame::Disconnect(Disconnect { session })),
                }
            }
            Frame::Refused(Refused { request, fault }) => {
                if let Some(open) = self.opens.remove(request) {
                    actions.push(Action::Opened {
                        opener: open.waiter,
                        end: OpenEnd::Refused(fault),
                    });
                }
            }
            Frame::Disconnect(Disconnect { session }) => {
                if self.serving.remove_session(session) {
                    actions.push(Action::NotServing { session });
                }
            }
            Frame::Ended(Ended { session, fault }) => {
                actions.push(Action::SessionEnded { session, fault });
            }
            Frame::Credit(Credit { session, grant }) => {
                actions.push(Action::Granted { session, grant });
            }
            Frame::Call(call) => self.called(now, call, actions),
            Frame::Tell(tell) => self.told(tell, actions),
            // An answer to a call that is not waited for any more is late, not wrong.
            Frame::Reply(Reply { call, payload }) => {
                self.resolve(call, CallEnd::Value(payload), actions);
            }
            Frame::Failure(Failure { call, fault }) => {
                self.resolve(call, CallEnd::Failed(fault), actions);
            }
            Frame::Cancel(Cancel { call }) => {
                if let Some(cancel) = self.serving.cancel(call) {
                    actions.push(Action::CancelServed(cancel));
                }
                // Its reply may be on its way.
                self.abandon(Origin::Reply(call), actions);
            }
            Frame::Ping(Ping { nonce }) => self.push(&Frame::Pong(Pong { nonce })),
            Frame::Pong(Pong { nonce }) => self.liveness.answered(now, nonce),
            Frame::Goodbye(Goodbye { reason, text }) => self.peer_leaves(reason, text, actions),
        }
    }

    pub(super) fn resolve(&mut self, call: u32, end: CallEnd, actions: &mut Vec<Action<H>>) {
        if let Some(pending) = self.calls.remove(call) {
            actions.push(Action::Resolve {
                waiter: pending.waiter,
                end,
            });
        }
    }

    pub(super) fn asked_to_connect(&mut self, connect: Connect, actions: &mut Vec<Action<H>>) {
        let limit = self.settings.session_limit;
        if self.serving.sessions() >= limit {
            let fault = Fault::new(
                RpcErrorKind::Full,
                format!(
                    "this connection has {limit} sessions, its limit: drop gateways that are not \
                     used, or raise session_limit"
                ),
            );
            self.push(&Frame::Refused(Refused {
                request: connect.request,
                fault,
            }));
        } else {
            actions.push(Action::Accept(connect));
        }
    }

    fn told(&mut self, tell: Tell, actions: &mut Vec<Action<H>>) {
        let Tell {
            session,
            method,
            trace,
            payload,
        } = tell;
        let Some(served) = self.serving.session(session).cloned() else {
            actions.push(Action::TellLost {
                session,
                method,
                loss: TellLoss::UnknownSession,
            });
            return;
        };
        if !self.serving.spend(session, payload.len()) {
            let text = format!("a one-way message of session {session} without credit");
            self.violated(text, actions);
            return;
        }
        actions.push(Action::ServeTell {
            served,
            method,
            trace,
            payload,
        });
    }

    /// Gives a session's peer room again that its messages have taken.
    pub(super) fn freed(&mut self, session: u32, grant: Grant) {
        if self.serving.grant(session, grant) {
            self.push(&Frame::Credit(Credit { session, grant }));
        }
    }

    /// Tells a session's peer that there is nobody any more.
    pub(super) fn endpoint_ended(&mut self, session: u32, fault: Fault) {
        if self.serving.end_session(session) {
            self.push(&Frame::Ended(Ended { session, fault }));
        }
    }

    pub(super) fn accepted(
        &mut self,
        request: u32,
        result: Result<H::Served, Fault>,
        actions: &mut Vec<Action<H>>,
    ) {
        let frame = match result {
            Ok(served) => {
                let grant = self.settings.grant;
                let session = self.serving.add_session(served.clone(), grant);
                actions.push(Action::Serving { session, served });
                Frame::Connected(Connected {
                    request,
                    session,
                    grant,
                })
            }
            Err(fault) => Frame::Refused(Refused { request, fault }),
        };
        self.push(&frame);
    }

    pub(super) fn called(&mut self, now: Instant, frame: Call, actions: &mut Vec<Action<H>>) {
        let Call {
            call,
            session,
            method,
            time_left_ms,
            trace,
            payload,
        } = frame;
        let Some(served) = self.serving.session(session) else {
            let text = format!("session {session} is not served on this connection");
            self.refuse(call, RpcErrorKind::NoSuchEndpoint, text);
            return;
        };
        let served = served.clone();
        if self.serving.calls() >= self.settings.in_flight_limit {
            let limit = self.settings.in_flight_limit;
            let text = format!("{limit} calls of this connection are in flight, its limit");
            self.refuse(call, RpcErrorKind::Full, text);
            return;
        }
        if self.is_unread() {
            let size = self.backlog();
            let text = format!("{size} bytes of answers wait for this peer to read them");
            self.refuse(call, RpcErrorKind::Full, text);
            if self.outgoing.unsent().len() > self.settings.unsent_limit.saturating_mul(2) {
                self.end(Loss::Unread(size), actions);
            }
            return;
        }
        let Some((ticket, cancel)) = self.serving.begin(call) else {
            self.violated(format!("call number {call} is in flight already"), actions);
            return;
        };
        let deadline = deadline_in(now, time_left_ms);
        let serve = Serve {
            served,
            method,
            deadline,
            trace,
            payload,
            cancel,
        };
        actions.push(Action::Serve { ticket, serve });
    }

    pub(super) fn refuse(&mut self, call: u32, kind: RpcErrorKind, text: String) {
        self.push(&Frame::Failure(Failure {
            call,
            fault: Fault::new(kind, text),
        }));
    }

    pub(super) fn answer(
        &mut self,
        ticket: Ticket,
        result: Result<Bytes, Fault>,
        actions: &mut Vec<Action<H>>,
    ) {
        if !self.serving.finish(ticket) {
            return;
        }
        let call = ticket.call;
        let frame = match result {
            Ok(payload) => Frame::Reply(Reply { call, payload }),
            Err(fault) => Frame::Failure(Failure { call, fault }),
        };
        if self.is_gone() {
            return;
        }
        if let Err(error) = self.send(None, Origin::Reply(call), &frame, 0, actions) {
            // The handler ran: the caller must not take this for "not sent".
            let text = match error {
                WireError::FrameTooLong { size, limit } => format!(
                    "the reply's frame has {size} bytes, the limit is {limit} bytes: raise \
                     frame_limit on both sides or answer less"
                ),
                other => other.to_string(),
            };
            let mut fault = Fault::new(RpcErrorKind::TooLarge, text);
            fault.outcome = Outcome::Unknown.code();
            self.push(&Frame::Failure(Failure { call, fault }));
        }
    }
}
