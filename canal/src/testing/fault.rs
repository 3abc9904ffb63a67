//! Faults that a script injects into the server's answers.

use std::time::Duration;

use bytes::Bytes;

/// The requests at which a fault can strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Request {
    /// A new connection: the fault takes the place of the handshake.
    Connect,
    /// The authentication.
    Authenticate,
    /// SUBSCRIPTION.
    Subscribe,
    /// UNSUBSCRIPTION.
    Unsubscribe,
    /// GET.
    Get,
    /// CLIENTACK, those with batch id -1 included.
    Ack,
    /// CLIENTROLLBACK.
    Rollback,
}

/// What happens instead of, or to, the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is closed; the request is not carried out.
    Disconnect,
    /// The request is carried out, then the connection is closed without the answer. A batch got in
    /// this way counts as delivered until a rollback.
    LoseAnswer,
    /// The request is not carried out and answered with an ACK of this code and text.
    Refuse {
        /// The error code, such as 400.
        code: i32,
        /// The error text.
        text: String,
    },
    /// The request is not carried out and answered with these bytes, as they are.
    Garbage(Bytes),
    /// The request is not carried out; the answer is only a frame length, and nothing follows.
    FrameLength(i32),
    /// The request is not carried out and never answered.
    Ignore,
    /// The answer comes this much later.
    Delay(Duration),
    /// The answer comes in pieces of `size` bytes with `pause` between them.
    Pieces {
        /// Bytes of a piece, at least 1.
        size: usize,
        /// Time between two pieces.
        pause: Duration,
    },
    /// Only the first bytes of the answer come, then the connection is closed.
    Truncate(usize),
}

impl Fault {
    /// Refuses with code 400, as the server does with most errors.
    #[must_use]
    pub fn refuse(text: impl Into<String>) -> Self {
        Self::Refuse {
            code: 400,
            text: text.into(),
        }
    }
}

/// Faults that wait for their request.
#[derive(Debug, Default)]
pub(crate) struct FaultPlan {
    waiting: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    request: Request,
    /// Requests of the kind that still come before.
    before: u64,
    fault: Fault,
}

impl FaultPlan {
    /// Plans `fault` for the `nth` request of its kind from now on; 0 counts as 1.
    pub(crate) fn plan(&mut self, request: Request, nth: u64, fault: Fault) {
        self.waiting.push(Planned {
            request,
            before: nth.saturating_sub(1),
            fault,
        });
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The fault for this request. If several are due, the first planned strikes; the others wait.
    pub(crate) fn strike(&mut self, request: Request) -> Option<Fault> {
        let mut due = None;
        for (index, planned) in self.waiting.iter_mut().enumerate() {
            if planned.request != request {
                continue;
            }
            if planned.before > 0 {
                planned.before -= 1;
            } else if due.is_none() {
                due = Some(index);
            }
        }
        due.map(|index| self.waiting.remove(index).fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_at_its_request_only() {
        let mut plan = FaultPlan::default();
        plan.plan(Request::Get, 2, Fault::Disconnect);
        plan.plan(Request::Ack, 1, Fault::Ignore);
        assert_eq!(plan.strike(Request::Get), None);
        assert_eq!(plan.strike(Request::Subscribe), None);
        assert_eq!(plan.strike(Request::Get), Some(Fault::Disconnect));
        assert_eq!(plan.strike(Request::Get), None);
        assert_eq!(plan.strike(Request::Ack), Some(Fault::Ignore));
    }
}
