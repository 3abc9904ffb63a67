//! From what happened on a connection to the [`RpcError`] that the caller gets.

use std::fmt::Display;

use lockkeeper_core::{Outcome, RpcError, RpcErrorKind};

use crate::connection::{Loss, TellLoss};
use crate::link::IntroductionError;
use crate::wire::WireError;

/// The connection went away and the call had not left.
pub(crate) fn not_sent(target: &dyn Display, loss: &Loss) -> RpcError {
    RpcError::new(
        RpcErrorKind::Unreachable,
        format!("{target}: {loss}; the call was not sent"),
    )
}

/// The connection went away after the call had left.
pub(crate) fn unknown(target: &dyn Display, loss: &Loss) -> RpcError {
    RpcError::new(
        RpcErrorKind::ConnectionLost,
        format!("{target}: {loss}; the call may have run"),
    )
}

/// A one-way message that was taken and did not leave.
pub(crate) fn lost(peer: &dyn Display, loss: &TellLoss) -> RpcError {
    let kind = match loss {
        TellLoss::TooLong(_) => RpcErrorKind::TooLarge,
        TellLoss::NotSent(_) | TellLoss::UnknownSession => RpcErrorKind::Unreachable,
    };
    RpcError::new(kind, format!("{peer}: {loss}; the message was not sent"))
        .with_outcome(Outcome::NotSent)
}

/// The peer could not be dialled.
pub(crate) fn undialled(target: &dyn Display, attempt: u32, error: &dyn Display) -> RpcError {
    RpcError::new(
        RpcErrorKind::Unreachable,
        format!("cannot reach {target} (attempt {attempt}): {error}"),
    )
}

/// The peer was reached, and the two sides do not come together.
pub(crate) fn unintroduced(target: &dyn Display, error: &IntroductionError) -> RpcError {
    let kind = match error {
        IntroductionError::Versions { .. } => RpcErrorKind::ProtocolVersionMismatch,
        IntroductionError::Wire(WireError::Io(_)) | IntroductionError::Closed => {
            RpcErrorKind::Unreachable
        }
        IntroductionError::Wire(_)
        | IntroductionError::Http
        | IntroductionError::PeerSpeaksTls
        | IntroductionError::PeerSpeaksNoTls => RpcErrorKind::ProtocolViolation,
        IntroductionError::Tls(_)
        | IntroductionError::PeerDemandsKey
        | IntroductionError::PeerHasNoKey
        | IntroductionError::WrongKey
        | IntroductionError::KeyRefused
        | IntroductionError::FalseProof => RpcErrorKind::Unauthorized,
    };
    RpcError::new(kind, format!("cannot connect to {target}: {error}"))
        .with_outcome(Outcome::NotSent)
}

/// The address is served by another run of the process than the one that the gateway knew.
pub(crate) fn restarted(target: &dyn Display) -> RpcError {
    RpcError::new(
        RpcErrorKind::Restarted,
        format!("{target}: its process was restarted since this gateway connected; connect again"),
    )
    .with_outcome(Outcome::NotSent)
}

/// The service is shut down.
pub(crate) fn shut_down() -> RpcError {
    RpcError::new(
        RpcErrorKind::ServiceStopped,
        "this process' RpcService is shut down",
    )
}
