//! One ask from its first attempt to its end.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_core::error::TimeoutPhase;
use lockkeeper_core::trace::TraceContext;
use lockkeeper_core::transport::OutboundCall;
use lockkeeper_core::{Outcome, RpcAddress, RpcError, RpcErrorKind};
use tokio::sync::{SemaphorePermit, oneshot};
use tokio::time::{sleep_until, timeout_at};

use super::{ATTEMPTS, Binding, Inner};
use crate::connection::{CallEnd, Loss};
use crate::errors;
use crate::link::{LinkHandle, Request};
use crate::wire::Call;

/// The first pause of a call for which there is no room at the other side; it doubles up to
/// [`FULL_PAUSE_LIMIT`], with jitter.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// The longest such pause.
const FULL_PAUSE_LIMIT: Duration = Duration::from_millis(50);

/// What became of one attempt.
enum Attempt {
    Over(Result<Bytes, RpcError>),
    /// The connection went away before the call left.
    NotSent(Loss),
    /// The endpoint or the connection has no room; the call did not run.
    Full(RpcError),
}

impl Inner {
    /// Asks. What was certainly not sent is tried on another connection; for room at the other
    /// side it waits, as an ask inside one process does.
    pub(super) async fn ask(
        &self,
        call: OutboundCall,
        trace: Option<Box<TraceContext>>,
    ) -> Result<Bytes, RpcError> {
        let place = self.place(call.method)?;
        let target = Target {
            method: self.request.gateway.method_name(call.method),
            address: &self.request.address,
            begun: Instant::now(),
            deadline: call.deadline.into_std(),
        };
        let mut lost = 0;
        let mut pause = FULL_PAUSE;
        loop {
            match self.attempt(place, &target, &call, &trace).await {
                Attempt::Over(result) => return result,
                Attempt::NotSent(loss) => {
                    lost += 1;
                    if lost == ATTEMPTS {
                        return Err(errors::not_sent(&target, &loss));
                    }
                }
                Attempt::Full(error) => {
                    let again = Instant::now() + pause.mul_f64(0.5 + fastrand::f64() / 2.0);
                    if again >= target.deadline {
                        sleep_until(call.deadline).await;
                        let late = target.timed_out(TimeoutPhase::WaitingForRoom);
                        return Err(late.in_context(error.text()));
                    }
                    sleep_until(again.into()).await;
                    pause = FULL_PAUSE_LIMIT.min(pause * 2);
                }
            }
        }
    }

    async fn attempt(
        &self,
        place: u16,
        target: &Target<'_>,
        call: &OutboundCall,
        trace: &Option<Box<TraceContext>>,
    ) -> Attempt {
        // What has to be waited for is boxed: it is seldom, and every call's future would hold room for it.
        let binding = match self.present() {
            Some(binding) => binding,
            None => match Box::pin(self.binding(target.deadline)).await {
                Ok(binding) => binding,
                Err(error) => return Attempt::Over(Err(error)),
            },
        };
        let link = &binding.link;
        if let Err(error) = self.fits(link, call.method, Call::FIELDS, &call.payload) {
            return Attempt::Over(Err(error));
        }
        // Held until the call has its end.
        let _credit = match binding.asked.asks.try_take() {
            Some(credit) => credit,
            None => match Box::pin(credit(&binding, target)).await {
                Ok(credit) => credit,
                Err(attempt) => return attempt,
            },
        };
        let size = call.payload.len();
        let room = match link.try_room(size) {
            Some(room) => room,
            None => match Box::pin(timeout_at(call.deadline, link.room(size))).await {
                Ok(Some(room)) => room,
                Ok(None) => return Attempt::NotSent(loss_of(link)),
                Err(_) => {
                    return Attempt::Over(Err(target.timed_out(TimeoutPhase::WaitingForRoom)));
                }
            },
        };
        let (waiter, end) = oneshot::channel();
        let number = link.next_call();
        let request = Request::Call {
            call: number,
            session: binding.session,
            method: place,
            deadline: target.deadline,
            trace: trace
                .clone()
                .filter(|_| link.takes_trace(size + 1 + Call::FIELDS)),
            payload: call.payload.clone(),
            room,
            waiter,
        };
        if !link.send(request) {
            return Attempt::NotSent(loss_of(link));
        }
        let mut cancel = CancelOnDrop {
            link,
            call: number,
            armed: true,
        };
        let end = end.await;
        cancel.armed = false;
        match end {
            Ok(end) => self.judge(target, end),
            // The I/O thread ended with the call in its hands.
            Err(_) => Attempt::Over(Err(errors::unknown(target, &Loss::Closed))),
        }
    }

    fn judge(&self, target: &Target<'_>, end: CallEnd) -> Attempt {
        Attempt::Over(match end {
            CallEnd::Value(value) => Ok(value),
            CallEnd::Failed(fault) => {
                let error = RpcError::from(fault);
                if error.kind() == RpcErrorKind::Full && error.outcome() == Outcome::Refused {
                    return Attempt::Full(error);
                }
                Err(self.failed(error))
            }
            CallEnd::TimedOut { sent: true } => Err(target.timed_out(TimeoutPhase::Sent)),
            CallEnd::TimedOut { sent: false } => {
                Err(target.timed_out(TimeoutPhase::WaitingForRoom))
            }
            CallEnd::NotSent(loss) => return Attempt::NotSent(loss),
            CallEnd::Unknown(loss) => Err(errors::unknown(target, &loss)),
            CallEnd::TooMany { limit } => {
                let text = format!("{limit} calls are in flight on the connection, its limit");
                return Attempt::Full(RpcError::new(RpcErrorKind::Full, text));
            }
            CallEnd::TooLong(error) => Err(RpcError::new(
                RpcErrorKind::TooLarge,
                format!("{target}: {error}"),
            )),
        })
    }

    /// An endpoint that says that it has ended stays so.
    fn failed(&self, error: RpcError) -> RpcError {
        if error.kind() == RpcErrorKind::Stopped {
            self.finish(error.clone());
        }
        error
    }
}

/// Waits until fewer asks of the session are unanswered.
async fn credit<'a>(
    binding: &'a Binding,
    target: &Target<'_>,
) -> Result<SemaphorePermit<'a>, Attempt> {
    let taken = timeout_at(target.deadline.into(), binding.asked.asks.take());
    tokio::select! {
        taken = taken => match taken {
            Ok(Some(credit)) => Ok(credit),
            Ok(None) => Err(Attempt::NotSent(loss_of(&binding.link))),
            Err(_) => Err(Attempt::Over(Err(target.timed_out(TimeoutPhase::WaitingForRoom)))),
        },
        () = binding.link.closed() => Err(Attempt::NotSent(loss_of(&binding.link))),
        () = binding.asked.ended() => Err(Attempt::NotSent(Loss::Closed)),
    }
}

fn loss_of(link: &LinkHandle) -> Loss {
    link.loss().cloned().unwrap_or(Loss::Closed)
}

/// Tells the peer if the caller's future is dropped before the call has its end.
struct CancelOnDrop<'a> {
    link: &'a LinkHandle,
    call: u32,
    armed: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.link.send(Request::Cancel { call: self.call });
        }
    }
}

/// A call, for error texts.
struct Target<'a> {
    method: &'static str,
    address: &'a RpcAddress,
    begun: Instant,
    deadline: Instant,
}

impl Target<'_> {
    fn timed_out(&self, phase: TimeoutPhase) -> RpcError {
        // The caller set a time, which reached us as a deadline a few microseconds later.
        let limit = self.deadline.saturating_duration_since(self.begun);
        let limit = (limit + Duration::from_micros(500)).as_millis();
        let limit = Duration::from_millis(u64::try_from(limit).unwrap_or(u64::MAX));
        RpcError::timeout(self, limit, phase)
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.method, self.address)
    }
}
