//! The one error of calls: what went wrong, whether the call may have run, and whether to retry.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::kind::{FencingViolation, Outcome, RpcErrorKind};

mod kind;

/// The longest error text that travels, in bytes; the rest is cut off.
pub const MAX_ERROR_TEXT_BYTES: usize = 4096;

/// Why a call, or an operation on an endpoint or service, failed.
///
/// A handler's own `Result<T, E>` is no `RpcError`: it is an ordinary reply value.
/// Small (one pointer), `Clone`, and serializable as (code, outcome, text): an error never travels
/// as a foreign type that the other side may not know (FLINK-10655).
///
/// ```
/// use lockkeeper_core::{Outcome, RpcError, RpcErrorKind};
/// let error = RpcError::new(RpcErrorKind::Full, "the inbox of counter holds 16384 calls");
/// assert_eq!(error.outcome(), Outcome::Refused);
/// assert!(error.is_retryable());
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WireError", into = "WireError")]
pub struct RpcError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: RpcErrorKind,
    outcome: Outcome,
    text: String,
}

/// The form in which an [`RpcError`] travels. `code` is [`RpcErrorKind::code`], `outcome` is
/// [`Outcome::code`]; codes that a receiver does not know become [`RpcErrorKind::Other`] and
/// [`Outcome::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireError {
    /// The kind's code.
    pub code: u16,
    /// The outcome's code.
    pub outcome: u8,
    /// What happened, for people; at most [`MAX_ERROR_TEXT_BYTES`].
    pub text: String,
}

impl RpcError {
    /// An error with the kind's usual outcome, see [`RpcErrorKind::usual_outcome`].
    #[must_use]
    pub fn new(kind: RpcErrorKind, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.len() > MAX_ERROR_TEXT_BYTES {
            let end = (0..=MAX_ERROR_TEXT_BYTES)
                .rev()
                .find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
        }
        Self(Box::new(Inner {
            kind,
            outcome: kind.usual_outcome(),
            text,
        }))
    }

    /// The same error with another outcome, for the places that know better.
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// The same error with `context` put before its text.
    #[must_use]
    pub fn in_context(self, context: impl fmt::Display) -> Self {
        let outcome = self.outcome();
        Self::new(self.kind(), format!("{context}: {}", self.text())).with_outcome(outcome)
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> RpcErrorKind {
        self.0.kind
    }

    /// Whether the call can have run.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The text without the kind's name.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// True if the call certainly did not run and the same call may succeed later, or with the
    /// present leader: nothing in the program has to change first.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.outcome != Outcome::Unknown && self.0.kind.is_transient()
    }

    /// The status with which a web server passes this error on: what the client may do about it.
    ///
    /// | status | when |
    /// |---|---|
    /// | 504 | a time-out, whether the call has run or not |
    /// | 502 | otherwise, if the call may have run |
    /// | 413 | `TooLarge` |
    /// | 503 | it did not run and may succeed later: [`is_retryable`](Self::is_retryable) |
    /// | 503 | `Stopped`: another endpoint may take the place of this one |
    /// | 500 | everything else: the program or its settings have to change |
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self.kind() {
            RpcErrorKind::Timeout => 504,
            RpcErrorKind::TooLarge => 413,
            _ if self.outcome() == Outcome::Unknown => 502,
            RpcErrorKind::Stopped => 503,
            _ if self.is_retryable() => 503,
            _ => 500,
        }
    }

    /// True if the fencing token, or its lack, was the reason.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(
            self.0.kind,
            RpcErrorKind::Fenced(_) | RpcErrorKind::MissingToken
        )
    }

    /// A message or reply over a size limit: named before a byte of it is written.
    #[must_use]
    pub fn too_large(method: &str, what: &str, size_bytes: usize, limit_bytes: usize) -> Self {
        Self::new(
            RpcErrorKind::TooLarge,
            format!(
                "the {what} of {method} has {size_bytes} bytes, the limit is {limit_bytes} bytes: \
                 raise the limit on both sides or send less"
            ),
        )
    }

    /// A call that was not answered in time. `phase` says how far it got, which decides the
    /// outcome: see [`TimeoutPhase`].
    #[must_use]
    pub fn timeout(call: &dyn fmt::Display, limit: Duration, phase: TimeoutPhase) -> Self {
        Self::new(
            RpcErrorKind::Timeout,
            format!("{call} got no answer within {limit:?} ({phase})"),
        )
        .with_outcome(phase.outcome())
    }

    /// The form in which this error travels.
    #[must_use]
    pub fn to_wire(&self) -> WireError {
        WireError {
            code: self.0.kind.code(),
            outcome: self.0.outcome.code(),
            text: self.0.text.clone(),
        }
    }
}

impl From<WireError> for RpcError {
    fn from(wire: WireError) -> Self {
        Self::new(RpcErrorKind::from_code(wire.code), wire.text)
            .with_outcome(Outcome::from_code(wire.outcome))
    }
}

impl From<RpcError> for WireError {
    fn from(error: RpcError) -> Self {
        error.to_wire()
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.0.kind, self.0.outcome, self.0.text)
    }
}

impl fmt::Debug for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcError")
            .field("kind", &self.0.kind)
            .field("outcome", &self.0.outcome)
            .field("text", &self.0.text)
            .finish()
    }
}

impl std::error::Error for RpcError {}

/// How far a call had got when its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutPhase {
    /// No connection yet: not sent.
    Connecting,
    /// Waiting for room (a full inbox, no credit): not sent.
    WaitingForRoom,
    /// In the endpoint's inbox, taken out before it ran: refused.
    Queued,
    /// Handed over or running: the outcome is unknown.
    Sent,
}

impl TimeoutPhase {
    /// What this phase says about the call.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Connecting | Self::WaitingForRoom => Outcome::NotSent,
            Self::Queued => Outcome::Refused,
            Self::Sent => Outcome::Unknown,
        }
    }
}

impl fmt::Display for TimeoutPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "while connecting",
            Self::WaitingForRoom => "while waiting for room at the endpoint",
            Self::Queued => "while queued at the endpoint",
            Self::Sent => "after it was sent: it may have run",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_at_most_32_bytes_and_crosses_threads() {
        fn crosses_threads<T: Send + Sync + 'static>() {}
        crosses_threads::<RpcError>();
        assert!(size_of::<RpcError>() <= 32);
    }

    #[test]
    fn every_kind_survives_the_wire() {
        for kind in RpcErrorKind::ALL {
            let error = RpcError::new(*kind, "text").with_outcome(Outcome::Unknown);
            let bytes = rmp_serde::to_vec(&error).unwrap();
            assert_eq!(rmp_serde::from_slice::<RpcError>(&bytes).unwrap(), error);
        }
    }

    #[test]
    fn a_kind_of_a_newer_peer_becomes_other_and_keeps_text_and_outcome() {
        let error = RpcError::from(WireError {
            code: 60_000,
            outcome: 1,
            text: "new".into(),
        });
        assert_eq!(error.kind(), RpcErrorKind::Other);
        assert_eq!(error.outcome(), Outcome::Refused);
        assert_eq!(error.text(), "new");
    }

    #[test]
    fn a_call_that_may_have_run_is_never_retryable() {
        for kind in RpcErrorKind::ALL {
            assert!(
                !RpcError::new(*kind, "")
                    .with_outcome(Outcome::Unknown)
                    .is_retryable()
            );
        }
    }

    #[test]
    fn a_web_server_tells_waiting_from_giving_up() {
        let status = |kind| RpcError::new(kind, "").http_status();
        assert_eq!(status(RpcErrorKind::Timeout), 504);
        assert_eq!(status(RpcErrorKind::Panicked), 502);
        assert_eq!(status(RpcErrorKind::TooLarge), 413);
        assert_eq!(status(RpcErrorKind::Full), 503);
        assert_eq!(status(RpcErrorKind::Stopped), 503);
        assert_eq!(status(RpcErrorKind::Decode), 500);
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let error = RpcError::new(RpcErrorKind::Other, "ä".repeat(MAX_ERROR_TEXT_BYTES));
        assert!(error.text().len() <= MAX_ERROR_TEXT_BYTES);
    }
}
