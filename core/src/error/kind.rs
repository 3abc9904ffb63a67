//! The closed set of reasons, their codes on the wire, and what each says about the call.

use std::fmt;

/// Whether a failed call can have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It never left the caller.
    NotSent,
    /// It arrived and was refused before its handler started.
    Refused,
    /// It may have run, in whole or in part.
    Unknown,
}

impl Outcome {
    /// The number that stands for it on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::NotSent => 0,
            Self::Refused => 1,
            Self::Unknown => 2,
        }
    }

    /// The outcome with this code; anything unheard of is [`Outcome::Unknown`], the careful answer.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::NotSent,
            1 => Self::Refused,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSent => "not sent",
            Self::Refused => "refused",
            Self::Unknown => "outcome unknown",
        })
    }
}

/// How a caller's token failed at a fenced endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FencingViolation {
    /// The endpoint has no token: it does not lead (FLINK-7655 keeps this apart from a mismatch).
    NotLeader,
    /// One epoch, two sessions.
    Mismatch,
    /// The caller's token is of an earlier leadership.
    CallerIsStale,
    /// The endpoint's token is of an earlier leadership: it should step down.
    EndpointIsStale,
    /// The two tokens count in different histories.
    OtherLineage,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $code:literal, $outcome:ident, $transient:literal, $text:literal;)*) => {
        /// What went wrong. Each kind has a fixed code on the wire and a usual [`Outcome`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RpcErrorKind {
            $($(#[$doc])* $kind,)*
            /// The fencing token was refused.
            Fenced(FencingViolation),
        }

        impl RpcErrorKind {
            /// Every kind, in no particular order.
            pub const ALL: &'static [Self] = &[
                $(Self::$kind,)*
                Self::Fenced(FencingViolation::NotLeader),
                Self::Fenced(FencingViolation::Mismatch),
                Self::Fenced(FencingViolation::CallerIsStale),
                Self::Fenced(FencingViolation::EndpointIsStale),
                Self::Fenced(FencingViolation::OtherLineage),
            ];

            /// The number that stands for the kind on the wire.
            #[must_use]
            pub const fn code(self) -> u16 {
                match self {
                    $(Self::$kind => $code,)*
                    Self::Fenced(FencingViolation::NotLeader) => 100,
                    Self::Fenced(FencingViolation::Mismatch) => 101,
                    Self::Fenced(FencingViolation::CallerIsStale) => 102,
                    Self::Fenced(FencingViolation::EndpointIsStale) => 103,
                    Self::Fenced(FencingViolation::OtherLineage) => 104,
                }
            }

            /// The kind with this code; [`RpcErrorKind::Other`] for a code of a newer peer.
            #[must_use]
            pub const fn from_code(code: u16) -> Self {
                match code {
                    $($code => Self::$kind,)*
                    100 => Self::Fenced(FencingViolation::NotLeader),
                    101 => Self::Fenced(FencingViolation::Mismatch),
                    102 => Self::Fenced(FencingViolation::CallerIsStale),
                    103 => Self::Fenced(FencingViolation::EndpointIsStale),
                    104 => Self::Fenced(FencingViolation::OtherLineage),
                    _ => Self::Other,
                }
            }

            /// What the kind says about the call unless the place that made the error knows better.
            #[must_use]
            pub const fn usual_outcome(self) -> Outcome {
                match self {
                    $(Self::$kind => Outcome::$outcome,)*
                    Self::Fenced(_) => Outcome::Refused,
                }
            }

            /// True if time or a new leader alone can make the same call succeed.
            #[must_use]
            pub const fn is_transient(self) -> bool {
                match self {
                    $(Self::$kind => $transient,)*
                    Self::Fenced(violation) => matches!(
                        violation,
                        FencingViolation::NotLeader | FencingViolation::EndpointIsStale
                    ),
                }
            }
        }

        impl fmt::Display for RpcErrorKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$kind => $text,)*
                    Self::Fenced(FencingViolation::NotLeader) => "fenced: not the leader",
                    Self::Fenced(FencingViolation::Mismatch) => "fenced: token mismatch",
                    Self::Fenced(FencingViolation::CallerIsStale) => "fenced: the caller is stale",
                    Self::Fenced(FencingViolation::EndpointIsStale) => {
                        "fenced: the endpoint is stale"
                    }
                    Self::Fenced(FencingViolation::OtherLineage) => "fenced: another lineage",
                })
            }
        }
    };
}

kinds! {
    /// A reason that this build does not know.
    Other = 0, Unknown, false, "other error";
    /// The text is no address, or the name no endpoint id.
    InvalidAddress = 1, NotSent, false, "invalid address";
    /// No endpoint of that name lives in the process.
    NoSuchEndpoint = 2, Refused, true, "no such endpoint";
    /// The endpoint does not serve that gateway.
    WrongGateway = 3, Refused, false, "wrong gateway";
    /// The endpoint serves another version of that gateway.
    GatewayVersionMismatch = 4, Refused, false, "gateway version mismatch";
    /// The two processes have no protocol version in common.
    ProtocolVersionMismatch = 5, NotSent, false, "protocol version mismatch";
    /// The other side does not speak this protocol, or broke it.
    ProtocolViolation = 6, Unknown, false, "protocol violation";
    /// The endpoint is not started, or was stopped and not started again.
    NotStarted = 7, Refused, true, "not started";
    /// The endpoint has ended; the text has the cause.
    Stopped = 8, Refused, false, "stopped";
    /// No connection could be made to the process.
    Unreachable = 9, NotSent, true, "unreachable";
    /// The connection broke with the call under way.
    ConnectionLost = 10, Unknown, true, "connection lost";
    /// The endpoint was restarted: under supervision, or with its process.
    Restarted = 11, Unknown, true, "restarted";
    /// A fenced endpoint was called without a token.
    MissingToken = 12, Refused, false, "missing token";
    /// An inbox, or a caller's credit, has no room.
    Full = 13, Refused, true, "full";
    /// A message or reply is over its size limit.
    TooLarge = 14, NotSent, false, "too large";
    /// No answer in time; the outcome follows from how far the call got.
    Timeout = 15, Unknown, true, "time-out";
    /// The handler panicked.
    Panicked = 16, Unknown, false, "handler panicked";
    /// The message could not be encoded: nothing was sent.
    Encode = 17, NotSent, false, "encoding failed";
    /// The endpoint could not decode the message: the handler did not run.
    Decode = 18, Refused, false, "decoding failed";
    /// The handler ran, but its reply could not be encoded or decoded.
    ReplyCodec = 19, Unknown, false, "reply not readable";
    /// The message is `local` and the endpoint is in another process.
    LocalOnly = 20, NotSent, false, "local only";
    /// The gateway has no such method there.
    UnknownMethod = 21, Refused, false, "unknown method";
    /// A living endpoint of the service has the name.
    NameTaken = 22, NotSent, false, "name taken";
    /// The operation is not allowed in the present state.
    InvalidState = 23, NotSent, false, "invalid state";
    /// The handler ended without an answer.
    NoReply = 24, Unknown, false, "no reply";
    /// The caller gave the call up.
    Cancelled = 25, Unknown, false, "cancelled";
    /// `on_start`, `on_resume` or `on_stop` failed.
    LifecycleFailed = 26, Unknown, false, "life cycle hook failed";
    /// The service is shut down.
    ServiceStopped = 27, NotSent, false, "service stopped";
    /// A setting is not allowed; the text says which and what is.
    InvalidConfiguration = 28, NotSent, false, "invalid configuration";
    /// The other side could not prove who it is.
    Unauthorized = 29, NotSent, false, "unauthorized";
}
