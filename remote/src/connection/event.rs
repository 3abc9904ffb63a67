//! What goes into the machine and what comes out.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_core::trace::TraceContext;

use super::Ticket;
use crate::wire::{Connect, Farewell, Fault, Frame, Grant, WireError};

/// The shell's types that the machine keeps and hands back, without looking inside.
pub(crate) trait Host {
    /// Gets the end of a call.
    type Waiter;
    /// Gets the end of a session request.
    type Opener;
    /// Serves the calls of one session.
    type Served: Clone;
    /// Tells a handler that its caller gave up.
    type Cancel: Clone + Default;
}

/// Something happened.
pub(crate) enum Event<H: Host> {
    /// The peer sent a frame.
    Received(Frame),
    /// The peer's bytes are no frame.
    Unreadable(WireError),
    /// The link is gone, or is given up.
    Broken(Loss),
    /// The shell wrote that many bytes of the outgoing buffer to the socket.
    Wrote(usize),
    /// Somebody here wants a session.
    Open {
        connect: Connect,
        deadline: Instant,
        opener: H::Opener,
    },
    /// Somebody here calls. `call` is unique among the calls handed in lately.
    Call {
        call: u32,
        session: u32,
        method: u16,
        deadline: Instant,
        trace: Option<Box<TraceContext>>,
        payload: Bytes,
        /// Comes back in [`Action::Free`].
        room: u32,
        waiter: H::Waiter,
    },
    /// Somebody here sends one way.
    Tell {
        session: u32,
        method: u16,
        trace: Option<Box<TraceContext>>,
        payload: Bytes,
        /// Comes back in [`Action::Free`].
        room: u32,
    },
    /// The caller of a call no longer waits.
    Cancel { call: u32 },
    /// Nobody here uses the session any more.
    Leave { session: u32 },
    /// The answer to [`Action::Accept`].
    Accepted {
        request: u32,
        result: Result<H::Served, Fault>,
    },
    /// One-way messages of a session here no longer take room.
    Freed { session: u32, grant: Grant },
    /// The endpoint of a session here has ended.
    Ended { session: u32, fault: Fault },
    /// The answer to [`Action::Serve`].
    Answer {
        ticket: Ticket,
        result: Result<Bytes, Fault>,
    },
    /// This side opens nothing new here.
    Retire { reason: Farewell, text: String },
    /// Time passed.
    Tick,
}

/// Something is to be done.
pub(crate) enum Action<H: Host> {
    /// Give the waiter its end.
    Resolve { waiter: H::Waiter, end: CallEnd },
    /// Give the opener its end.
    Opened { opener: H::Opener, end: OpenEnd },
    /// Find the endpoint and answer with [`Event::Accepted`].
    Accept(Connect),
    /// Have the call handled and answer with [`Event::Answer`].
    Serve { ticket: Ticket, serve: Serve<H> },
    /// A session is served under this number.
    Serving { session: u32, served: H::Served },
    /// A session is not served any more.
    NotServing { session: u32 },
    /// Have the one-way message handled. Its room comes back with [`Event::Freed`].
    ServeTell {
        served: H::Served,
        method: u16,
        trace: Option<Box<TraceContext>>,
        payload: Bytes,
    },
    /// Nobody waits for the answer to this call any more.
    CancelServed(H::Cancel),
    /// Drop this, which takes long, where nobody waits for it.
    Discard(Bytes),
    /// A message of the shell's no longer holds this much room.
    Free(u32),
    /// A session of ours may send more one-way messages.
    Granted { session: u32, grant: Grant },
    /// A session of ours is over, with its endpoint.
    SessionEnded { session: u32, fault: Fault },
    /// A one-way message went nowhere.
    TellLost {
        session: u32,
        method: u16,
        loss: TellLoss,
    },
    /// The peer said goodbye: use this connection for nothing new.
    PeerLeaves { reason: Farewell, text: String },
    /// Flush and close the socket; the machine is done.
    Close(Loss),
}

/// A call to be handled.
pub(crate) struct Serve<H: Host> {
    pub(crate) served: H::Served,
    pub(crate) method: u16,
    /// When the caller gives up; `None` if that is too far away to say.
    pub(crate) deadline: Option<Instant>,
    /// The span that it is made from.
    pub(crate) trace: Option<Box<TraceContext>>,
    pub(crate) payload: Bytes,
    /// Comes back in [`Action::CancelServed`] if the caller gives up.
    pub(crate) cancel: H::Cancel,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// The handler's value, encoded.
    Value(Bytes),
    /// The other side says why not.
    Failed(Fault),
    /// The deadline passed. `sent` tells whether the call may have reached the handler.
    TimedOut { sent: bool },
    /// It never left this process.
    NotSent(Loss),
    /// It left this process, and no answer will come.
    Unknown(Loss),
    /// More calls are in flight than the connection takes; not sent.
    TooMany { limit: usize },
    /// It does not fit into a frame; not sent.
    TooLong(WireError),
}

/// How a session request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenEnd {
    Session {
        session: u32,
        grant: Grant,
    },
    Refused(Fault),
    TimedOut,
    Lost(Loss),
    /// The request does not fit into a frame.
    TooLong(WireError),
}

/// Why a connection is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The peer closed it, or its process ended.
    Closed,
    /// The operating system reports an error.
    Io(std::io::ErrorKind),
    /// Nothing came for so long.
    Silent(Duration),
    /// The peer's bytes break the protocol.
    Protocol(String),
    /// One side left in order.
    Left(Farewell, String),
    /// The peer does not read: so many bytes of answers wait for it.
    Unread(usize),
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::Io(kind) => write!(f, "the connection broke: {kind}"),
            Self::Silent(time) => write!(f, "the peer was silent for {time:?}"),
            Self::Protocol(text) => write!(f, "the peer broke the protocol: {text}"),
            Self::Left(reason, text) => write!(f, "connection left ({reason:?}): {text}"),
            Self::Unread(size) => write!(f, "the peer left {size} bytes of answers unread"),
        }
    }
}

/// Why a one-way message went nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TellLoss {
    /// Inbound: it names a session that is not served here.
    UnknownSession,
    /// Outbound: it was not, or not wholly, written when the connection was left or lost.
    NotSent(Loss),
    /// Outbound: it does not fit into a frame.
    TooLong(WireError),
}

impl std::fmt::Display for TellLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownSession => f.write_str("its session is over"),
            Self::NotSent(loss) => write!(f, "{loss}"),
            Self::TooLong(error) => write!(f, "{error}"),
        }
    }
}
