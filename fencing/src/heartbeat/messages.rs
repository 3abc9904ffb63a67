//! What the actor of heartbeats is told, and what it tells.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use actix::Message;
use lockkeeper_core::error::RpcError;

/// What names a target.
pub trait HeartbeatKey: Ord + Clone + fmt::Debug + Send + Unpin + 'static {}

impl<T: Ord + Clone + fmt::Debug + Send + Unpin + 'static> HeartbeatKey for T {}

/// What is told about the targets.
#[derive(Clone, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub enum HeartbeatEvent<T: 'static, P: 'static> {
    /// A target has answered, with this. Answers that come too late, after a time-out or to a
    /// question of a former monitoring, are not told.
    Beat {
        /// The target.
        target: T,
        /// What its answer carries.
        payload: P,
    },
    /// A target was silent for too long. Told once; it is not monitored any longer.
    TimedOut {
        /// The target.
        target: T,
    },
    /// Too many questions in a row did not reach a target. Told once, as above.
    Unreachable {
        /// The target.
        target: T,
    },
}

/// One call to a target, for the question of that round, and how long its answer is waited for.
pub(super) type Ask<P> = Box<dyn Fn(u64, Duration) -> Asking<P> + Send + Sync>;

type Asking<P> = Pin<Box<dyn Future<Output = Result<P, RpcError>> + Send>>;

/// Begins to monitor a target; one that is monitored already goes on as it is.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Monitor<T, P: 'static> {
    pub(super) target: T,
    pub(super) ask: Option<Ask<P>>,
}

impl<T: fmt::Debug, P> fmt::Debug for Monitor<T, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Monitor")
            .field("target", &self.target)
            .field("is_asked", &self.ask.is_some())
            .finish()
    }
}

impl<T, P: Send + 'static> Monitor<T, P> {
    /// A target that is asked each interval. `ask` makes one call, and is given the round of the
    /// question and how long its answer is waited for:
    ///
    /// ```
    /// # use actix::prelude::*;
    /// # use lockkeeper_core::prelude::*;
    /// # use lockkeeper_fencing::heartbeat::Monitor;
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Message, Serialize, Deserialize)]
    /// #[rtype(result = "u64")]
    /// struct Beat { round: u64 }
    ///
    /// rpc_gateway! { WorkerGateway("example.Worker", version = 1) { Beat } }
    ///
    /// fn worker(gateway: Gateway<WorkerGateway>) -> Monitor<&'static str, u64> {
    ///     Monitor::asking("worker 1", move |round, limit| {
    ///         let gateway = gateway.clone();
    ///         async move { gateway.send(Beat { round }).timeout(limit).await }
    ///     })
    /// }
    /// ```
    pub fn asking<A>(target: T, ask: impl Fn(u64, Duration) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Result<P, RpcError>> + Send + 'static,
    {
        let asking = move |round, limit| -> Asking<P> { Box::pin(ask(round, limit)) };
        Monitor {
            target,
            ask: Some(Box::new(asking)),
        }
    }

    /// A target that asks this side: whoever is asked sends [`Heard`] each time.
    pub fn listening(target: T) -> Self {
        Monitor { target, ask: None }
    }
}

/// Ends monitoring: nothing is told about this target any longer.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Unmonitor<T>(pub T);

/// A target that is listened to has asked.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Heard<T>(pub T);

/// Asks for the [`HeartbeatsState`].
pub struct GetHeartbeats<T>(PhantomData<fn() -> T>);

impl<T> GetHeartbeats<T> {
    /// The message.
    #[must_use]
    pub const fn new() -> Self {
        GetHeartbeats(PhantomData)
    }
}

impl<T> Default for GetHeartbeats<T> {
    fn default() -> Self {
        GetHeartbeats::new()
    }
}

impl<T> fmt::Debug for GetHeartbeats<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("GetHeartbeats")
    }
}

impl<T: HeartbeatKey> Message for GetHeartbeats<T> {
    type Result = HeartbeatsState<T>;
}

/// The state of all monitoring.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeartbeatsState<T> {
    /// The targets, with how long ago they have last given a sign; `None` for not yet.
    pub targets: BTreeMap<T, Option<Duration>>,
    /// The most that a tick came too late since the beginning: large values say that this actor's
    /// thread, which should be the endpoint's, is overloaded or blocked.
    pub largest_lateness: Duration,
}
