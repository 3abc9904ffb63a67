//! What can go wrong between this client and a Canal server, by what the caller can do.

use std::time::Duration;

use crate::message::BatchId;
use crate::row::RowError;

/// Why an operation of a connector failed.
///
/// [`ends_connection`](Self::ends_connection) says whether the connector has to be connected
/// again, [`is_retryable`](Self::is_retryable) whether that can help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanalError {
    /// The server refused user or password. The connection is closed at once: servers below 1.1.8
    /// would go on as if the password had been right.
    #[error("the Canal server refused user `{user}`: {message}")]
    AuthFailed {
        /// The user that was sent.
        user: String,
        /// The first line of the server's text.
        message: String,
    },
    /// The server does not run this destination: it is unknown there, or another node of the
    /// cluster runs it. Ask another node, or correct the name.
    #[error("destination `{destination}` does not run on this Canal server: {message}")]
    NotRunningHere {
        /// The destination that was asked for.
        destination: String,
        /// The first line of the server's text.
        message: String,
    },
    /// The server knows no subscription of this client: subscribe first. Here also when the
    /// connector itself was not subscribed before it was asked for a batch.
    #[error("client {client_id} is not subscribed to destination `{destination}`: subscribe first")]
    NotSubscribed {
        /// The destination.
        destination: String,
        /// The client id.
        client_id: u16,
    },
    /// No such batch is waiting for an acknowledgement. From the connector itself: it was never
    /// handed out, was acknowledged before, or was rolled back. From the server: somebody else
    /// uses the same client id and has acknowledged or rolled back the batch.
    #[error("batch {batch} is not waiting for an acknowledgement: {message}")]
    UnknownBatch {
        /// The batch.
        batch: BatchId,
        /// Who says so and why.
        message: String,
    },
    /// The server expected the acknowledgement of an earlier batch: somebody else uses the same
    /// client id.
    #[error("batch {batch} is not the first one that waits for an acknowledgement: {message}")]
    NotTheFirst {
        /// The batch.
        batch: BatchId,
        /// The first line of the server's text.
        message: String,
    },
    /// The server announced a frame above the limit, or a request is above it. Nothing was
    /// allocated. Raise the limit, or write fewer rows per statement.
    #[error(
        "a frame of {length} bytes is above the limit of {limit} bytes; raise `frame_limit` or \
         change fewer rows per statement"
    )]
    FrameTooLarge {
        /// The frame's length in bytes.
        length: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// A transaction is above the limit of what is held until its end comes; nothing of it was
    /// handed out. Raise the limit, if the server holds so much unacknowledged, or take batches.
    #[error(
        "a transaction of destination `{destination}` is above the limit of {limit} bytes; raise \
         the assembler's limit and the server's buffer, or take batches instead of transactions"
    )]
    TransactionTooLarge {
        /// The destination.
        destination: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The peer does not keep to Canal's protocol.
    #[error("the peer does not keep to Canal's protocol: {0}")]
    Protocol(String),
    /// The server did not answer in time.
    #[error("no answer from the Canal server within {after:?} while {phase}")]
    Timeout {
        /// What was waited for.
        phase: SessionPhase,
        /// How long.
        after: Duration,
    },
    /// No connection could be opened to any address of the list.
    #[error("cannot connect to a Canal server: {0}")]
    Unreachable(String),
    /// The connection was closed or broke. After authentication was sent this can mean that the
    /// server could not read it.
    #[error("the connection to the Canal server ended while {phase}: {reason}")]
    Closed {
        /// What the session was doing.
        phase: SessionPhase,
        /// What was seen.
        reason: String,
    },
    /// The batches of this connection can no longer be trusted to be all and in order; nothing
    /// received after it was noticed is handed out. Connect and subscribe again: everything
    /// unacknowledged comes again.
    #[error("epoch {epoch} of destination `{destination}` ended: {reason}")]
    EpochEnded {
        /// The destination.
        destination: String,
        /// The epoch that ended.
        epoch: u64,
        /// What was noticed.
        reason: EpochEnd,
    },
    /// The batch is of an earlier connection or was rolled back: it is void and comes again.
    #[error("batch {batch} is of an epoch that is over (now {current}): it comes again")]
    StaleBatch {
        /// The batch.
        batch: BatchId,
        /// The epoch of the connection now.
        current: u64,
    },
    /// `rollback_to` was asked while earlier batches wait for their acknowledgement, which a
    /// rollback would give back as well. Acknowledge them first, or roll back all.
    #[error("batch {first} is still unacknowledged and would be rolled back with {batch}")]
    EarlierBatchesOutstanding {
        /// The batch that was to be rolled back.
        batch: BatchId,
        /// The first batch that waits for its acknowledgement.
        first: BatchId,
    },
    /// The client id is not one that a server accepts: it reads it as a Java `short`.
    #[error("client id {0} is not one a Canal server accepts: 1 to 32767")]
    InvalidClientId(u32),
    /// An argument or a setting that cannot work, with what to do.
    #[error("{0}")]
    InvalidArgument(String),
    /// ZooKeeper, which says where the servers are, did not answer.
    #[error("ZooKeeper: {0}")]
    ZooKeeper(String),
    /// Another client with this destination and client id is the active one, or ZooKeeper does not
    /// say that this one is. Nothing was sent, and what was handed out before is void: it comes
    /// again, at the active client. Wait with `wait_active`.
    #[error("this client of destination `{destination}` is standby; {}", active_one(holder.as_deref()))]
    Standby {
        /// The destination.
        destination: String,
        /// How the active client calls itself, if that is known: the address of its connection.
        holder: Option<String>,
    },
    /// The task behind a connector actor panicked. It begins anew by itself; this is its state
    /// meanwhile, and its end if it goes on panicking.
    #[error("the connector's task panicked: {0}")]
    Panicked(String),
    /// A row does not fit the type it was to become, and the connector was told to stop then
    /// ([`OnDecodeError::Stop`](crate::OnDecodeError::Stop)). Its batch is not acknowledged.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The connector is not connected.
    #[error("the connector is not connected: call connect() first")]
    NotConnected,
    /// Any other error the server reported.
    #[error("the Canal server answered with error {code}: {message}")]
    Server {
        /// Canal's code: 400 general, 401 destination or client id missing, 402 batch id missing.
        code: i32,
        /// The first line of the server's text.
        message: String,
    },
}

/// How the batches of a connection stopped being all and in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EpochEnd {
    /// Batch ids were not consecutive: another connection took the ones between.
    Hole {
        /// The id that had to come.
        expected: i64,
        /// The id that came.
        got: i64,
    },
    /// A batch began again with the first unacknowledged rows: somebody else rolled back.
    StartedAgain,
}

impl std::fmt::Display for EpochEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hole { expected, got } => write!(
                f,
                "batch {expected} had to come and {got} came: somebody else uses this client id"
            ),
            Self::StartedAgain => f.write_str(
                "a batch began again with the first unacknowledged rows: somebody else uses this \
                 client id and rolled back",
            ),
        }
    }
}

/// The steps of a session, in order. Each has a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SessionPhase {
    /// Opening the connection.
    Dial,
    /// Waiting for the server's first packet.
    Handshake,
    /// Waiting for the answer to user and password.
    Authentication,
    /// Authenticated, not subscribed.
    Authenticated,
    /// Waiting for the answer to the subscription.
    Subscription,
    /// Waiting until the rollback that follows every subscription has taken place.
    RolledBack,
    /// Batches are fetched and acknowledged.
    Streaming,
    /// Nothing more happens.
    Closed,
}

impl std::fmt::Display for SessionPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Dial => "connecting",
            Self::Handshake => "waiting for the handshake",
            Self::Authentication => "authenticating",
            Self::Authenticated => "authenticated",
            Self::Subscription => "subscribing",
            Self::RolledBack => "rolling back after the subscription",
            Self::Streaming => "streaming",
            Self::Closed => "closed",
        })
    }
}

fn active_one(holder: Option<&str>) -> String {
    match holder {
        Some(holder) => format!("the active one is {holder}"),
        None => "no active one is known".to_owned(),
    }
}

impl CanalError {
    /// Whether connecting again, now or a little later, can help. Wrong credentials, arguments,
    /// frames above the limit and rows of another type stay wrong until somebody changes something.
    pub fn is_retryable(&self) -> bool {
        !matches!(
            self,
            Self::AuthFailed { .. }
                | Self::FrameTooLarge { .. }
                | Self::TransactionTooLarge { .. }
                | Self::InvalidClientId(_)
                | Self::InvalidArgument(_)
                | Self::Row(_)
        )
    }

    /// Whether the connection is gone, so that the connector must be connected and subscribed
    /// again. False for what the connector refuses by itself: nothing was sent then.
    pub fn ends_connection(&self) -> bool {
        !matches!(
            self,
            Self::StaleBatch { .. }
                | Self::EarlierBatchesOutstanding { .. }
                | Self::InvalidClientId(_)
                | Self::InvalidArgument(_)
                | Self::Row(_)
        )
    }
}

const _: () = {
    const fn travels<T: Send + Sync + Clone + 'static>() {}
    travels::<CanalError>();
};
