//! A gateway that follows the leader: its callers see no election.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::Message;
use lockkeeper_core::error::{Outcome, RpcError, RpcErrorKind};
use lockkeeper_core::gateway::{Carries, Fenced, FencedGateway, RpcGateway};
use lockkeeper_core::service::RpcService;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::election::LeaderInformation;
use crate::retrieval::LeaderRetrieval;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Says that handling a message twice is the same as handling it once, so that a call whose
/// outcome is unknown may be made again.
///
/// ```
/// # #[derive(Clone)] struct SetLimit(u64);
/// // Setting a value twice is setting it once; adding to it twice is not.
/// impl lockkeeper_fencing::Idempotent for SetLimit {}
/// ```
pub trait Idempotent {}

/// Finds the leader of a component, connects with its token, and follows it.
///
/// A call that was refused before it ran, for a missing leader, a wrong token or a lost process, is
/// made again by itself until its limit is over, whatever its message. One with unknown outcome is
/// made again only by [`send_idempotent`](Self::send_idempotent). Clones share one connection.
pub struct LeaderGateway<G: RpcGateway> {
    inner: Arc<Inner<G>>,
}

struct Inner<G: RpcGateway> {
    service: RpcService,
    retrieval: LeaderRetrieval,
    connected: Mutex<Option<Connected<G>>>,
}

struct Connected<G: RpcGateway> {
    leader: LeaderInformation,
    gateway: FencedGateway<G>,
}

impl<G: RpcGateway<Fencing = Fenced>> LeaderGateway<G> {
    /// A gateway to whoever that retrieval shows, connected on the first call.
    #[must_use]
    pub fn new(service: RpcService, retrieval: LeaderRetrieval) -> Self {
        let inner = Inner {
            service,
            retrieval,
            connected: Mutex::new(None),
        };
        LeaderGateway {
            inner: Arc::new(inner),
        }
    }

    /// Asks the leader, within `limit` all retries and elections included.
    ///
    /// # Errors
    /// `Timeout` with outcome `NotSent` when no leader took the call within the limit; the text
    /// has the last reason. Whatever has outcome `Unknown`. What no other leader would change:
    /// wrong gateway, too large, not encodable, ….
    pub async fn send<M>(&self, message: M, limit: Duration) -> Result<M::Result, RpcError>
    where
        G: Carries<M>,
        M: Message<Result: Send> + Clone + Send + 'static,
    {
        self.call(message, limit, false).await
    }

    /// The same for messages that may be handled twice: also a call with unknown outcome is made
    /// again.
    ///
    /// # Errors
    /// As [`send`](Self::send); `Timeout` with outcome `Unknown` when one of the calls may have
    /// run.
    pub async fn send_idempotent<M>(
        &self,
        message: M,
        limit: Duration,
    ) -> Result<M::Result, RpcError>
    where
        G: Carries<M>,
        M: Message<Result: Send> + Idempotent + Clone + Send + 'static,
    {
        self.call(message, limit, true).await
    }

    async fn call<M>(
        &self,
        message: M,
        limit: Duration,
        idempotent: bool,
    ) -> Result<M::Result, RpcError>
    where
        G: Carries<M>,
        M: Message<Result: Send> + Clone + Send + 'static,
    {
        let deadline = Instant::now() + limit;
        let mut pause = FIRST_PAUSE;
        let mut may_have_run = false;
        loop {
            let (leader, error) = match self.attempt(message.clone(), deadline).await {
                Ok(result) => return Ok(result),
                Err(failed) => failed,
            };
            let unknown = error.outcome() == Outcome::Unknown;
            if (unknown && !idempotent) || !another_leader_may_take_it(&error) {
                return Err(error);
            }
            may_have_run |= unknown;
            self.forget(leader.as_ref()).await;
            let until = deadline.min(Instant::now() + pause);
            self.wait_for_another(leader.as_ref(), until).await;
            pause = (pause * 2).min(LAST_PAUSE);
            if Instant::now() >= deadline {
                return Err(out_of_time::<G>(limit, &error, may_have_run));
            }
        }
    }

    /// One call, and the leader that it was for.
    async fn attempt<M>(
        &self,
        message: M,
        deadline: Instant,
    ) -> Result<M::Result, (Option<LeaderInformation>, RpcError)>
    where
        G: Carries<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        let leader = self.inner.retrieval.current();
        let connected = tokio::time::timeout_at(deadline, self.connect(leader.as_ref())).await;
        let gateway = match connected {
            Ok(Ok(gateway)) => gateway,
            Ok(Err(error)) => return Err((leader, error)),
            Err(_) => {
                let error = RpcError::new(RpcErrorKind::Unreachable, "the leader did not answer");
                return Err((leader, error));
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        gateway
            .send(message)
            .timeout(left)
            .await
            .map_err(|error| (leader, error))
    }

    /// Until somebody else leads, at most until then.
    async fn wait_for_another(&self, leader: Option<&LeaderInformation>, until: Instant) {
        let mut watch = self.inner.retrieval.watch();
        let another = watch.wait_for(|shown| shown.as_ref() != leader);
        if let Ok(Err(_)) = tokio::time::timeout_at(until, another).await {
            // The retrieval has ended: what it showed last is all there is.
            tokio::time::sleep_until(until).await;
        }
    }

    /// Drops the connection to this leader; one to another that was made meanwhile stays.
    async fn forget(&self, leader: Option<&LeaderInformation>) {
        let mut connected = self.inner.connected.lock().await;
        if connected.as_ref().map(|known| &known.leader) == leader {
            *connected = None;
        }
    }

    async fn connect(
        &self,
        leader: Option<&LeaderInformation>,
    ) -> Result<FencedGateway<G>, RpcError> {
        let Some(leader) = leader else {
            return Err(RpcError::new(
                RpcErrorKind::Unreachable,
                "no leader is known",
            ));
        };
        let mut connected = self.inner.connected.lock().await;
        if let Some(known) = connected.as_ref().filter(|known| known.leader == *leader) {
            return Ok(known.gateway.clone());
        }
        let address = leader.address.parse()?;
        let connecting = self
            .inner
            .service
            .connect_fenced::<G>(&address, leader.token);
        // A connection carries no call yet: whatever came of it, nothing ran.
        let gateway = connecting
            .await
            .map_err(|error| error.with_outcome(Outcome::NotSent))?;
        *connected = Some(Connected {
            leader: leader.clone(),
            gateway: gateway.clone(),
        });
        Ok(gateway)
    }
}

/// Whether the reason lies with this leader, not with the call.
fn another_leader_may_take_it(error: &RpcError) -> bool {
    let gone = matches!(
        error.kind(),
        RpcErrorKind::Stopped | RpcErrorKind::InvalidAddress
    );
    gone || error.is_fenced() || error.kind().is_transient()
}

fn out_of_time<G: RpcGateway>(limit: Duration, last: &RpcError, may_have_run: bool) -> RpcError {
    let gateway = G::DESCRIPTOR.name;
    let text = format!("no leader of {gateway} took the call within {limit:?}; last: {last}");
    let outcome = if may_have_run {
        Outcome::Unknown
    } else {
        Outcome::NotSent
    };
    RpcError::new(RpcErrorKind::Timeout, text).with_outcome(outcome)
}

impl<G: RpcGateway> Clone for LeaderGateway<G> {
    fn clone(&self) -> Self {
        LeaderGateway {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<G: RpcGateway> fmt::Debug for LeaderGateway<G> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leader = self.inner.retrieval.current();
        formatter
            .debug_struct("LeaderGateway")
            .field("leader", &leader)
            .finish()
    }
}
