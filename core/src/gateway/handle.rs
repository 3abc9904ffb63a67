//! The handles with which endpoints are called.

use std::{fmt, marker::PhantomData, sync::Arc};

use actix::Message;
use bytes::Bytes;
use tokio::time::Instant;

use super::{Carries, Fenced, Request, RpcGateway};
use crate::{
    address::RpcAddress,
    endpoint::{
        entry::{Call, EncodedCall, Header, LocalCall},
        fence::TokenCheck,
        local::LocalEndpoint,
    },
    error::{RpcError, RpcErrorKind},
    reply::{Waiter, slot},
    service::Shared,
    token::FencingToken,
    trace,
    transport::{Caller, RemoteSession, ReplySink},
};

/// A handle with which endpoints that serve `G` are called, in this process or another.
///
/// `Clone + Send + Sync`; usable from any tokio task, in `web::Data`, with or without an actix
/// `System`. The verbs are actix' own:
///
/// - [`send`](Self::send) asks and awaits the reply,
/// - [`try_send`](Self::try_send) sends one way and says at once if it could not,
/// - [`do_send`](Self::do_send) sends one way; what can't be sent is a dead letter.
pub struct Gateway<G: RpcGateway> {
    pub(crate) inner: Arc<GatewayInner>,
    gateway: PhantomData<fn() -> G>,
}

/// The handle of a gateway whose calls need a token.
pub type FencedGateway<G> = Gateway<G>;

pub(crate) struct GatewayInner {
    pub(crate) address: RpcAddress,
    pub(crate) shared: Arc<Shared>,
    pub(crate) token: TokenSource,
    pub(crate) link: Link,
}

/// Where a gateway's token comes from.
#[derive(Clone, Debug)]
pub(crate) enum TokenSource {
    None,
    /// Fixed at connect.
    Fixed(Arc<FencingToken>),
    /// The endpoint's own, as it is at each call: a self gateway.
    Present,
}

pub(crate) enum Link {
    Local {
        endpoint: Arc<dyn LocalEndpoint>,
        gateway: usize,
    },
    Remote(Arc<dyn RemoteSession>),
}

impl GatewayInner {
    pub(crate) fn check(&self, endpoint: &dyn LocalEndpoint) -> Result<TokenCheck, RpcError> {
        match &self.token {
            TokenSource::None => Ok(TokenCheck::None),
            TokenSource::Fixed(token) => Ok(TokenCheck::Token(Arc::clone(token))),
            TokenSource::Present => endpoint.present_check(),
        }
    }
}

impl<G: RpcGateway> Gateway<G> {
    pub(crate) fn new(inner: GatewayInner) -> Self {
        Self {
            inner: Arc::new(inner),
            gateway: PhantomData,
        }
    }

    /// The endpoint's address.
    #[must_use]
    pub fn address(&self) -> &RpcAddress {
        &self.inner.address
    }

    /// The endpoint's host, `""` inside this process.
    #[must_use]
    pub fn hostname(&self) -> &str {
        self.inner.address.hostname()
    }

    /// Asks, and awaits the reply: `gateway.send(Add(5)).timeout(limit).await`.
    ///
    /// Nothing is sent before the future is polled. Without [`timeout`](Request::timeout) the limit
    /// is the service's default, and never more than what is left to the call whose handler asks.
    /// If the endpoint's inbox is full, it waits for room within the limit. Dropping the future
    /// gives the call up: it does not run if it has not begun.
    #[track_caller]
    pub fn send<M>(&self, message: M) -> Request<G, M>
    where
        G: Carries<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        Request::new(Arc::clone(&self.inner), message)
    }

    /// Sends one way, without waiting for room.
    ///
    /// # Errors
    /// `Full`, `NotStarted`, `Stopped`, `Unreachable`, `TooLarge`, `Encode`, `LocalOnly`: the
    /// message was not sent. `Ok` says that it was taken, not that it will be handled: if it is not
    /// (wrong token, endpoint stopped meanwhile), the dead letters have it.
    pub fn try_send<M>(&self, message: M) -> Result<(), RpcError>
    where
        G: Carries<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        self.tell(message).map_err(|(error, _)| error)
    }

    /// Sends one way and never waits. What can't be sent becomes a dead letter with its reason:
    /// look at [`RpcService::dead_letters`](crate::RpcService::dead_letters), or use
    /// [`try_send`](Self::try_send).
    pub fn do_send<M>(&self, message: M)
    where
        G: Carries<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        if let Err((reason, method)) = self.tell(message) {
            self.inner.shared.dead_letters.refusal(reason.kind());
            self.inner
                .shared
                .dead_letters
                .letter(&crate::dead_letter::DeadLetter {
                    endpoint: self.inner.address.endpoint().clone(),
                    method,
                    caller: Caller::Local,
                    reason,
                });
        }
    }

    fn tell<M>(&self, message: M) -> Result<(), (RpcError, &'static str)>
    where
        G: Carries<M>,
        M: Message<Result: Send> + Send + 'static,
    {
        let method = G::DESCRIPTOR.method_name(G::METHOD);
        let named = |error| (error, method);
        let (trace, _span) = trace::outgoing(method, self.inner.address.endpoint().as_str());
        match &self.inner.link {
            Link::Remote(session) => G::encode(&message)
                .and_then(|payload| match trace {
                    Some(trace) => session.tell_traced(G::METHOD, payload, *trace),
                    None => session.tell(G::METHOD, payload),
                })
                .map_err(named),
            Link::Local { endpoint, gateway } => {
                let check = self.inner.check(&**endpoint).map_err(named)?;
                let header = move |bytes| Header {
                    method,
                    sent: Instant::now(),
                    deadline: None,
                    check,
                    caller: Caller::Local,
                    trace,
                    bytes,
                };
                let call = if self.inner.shared.serializes(G::DESCRIPTOR, G::METHOD) {
                    let payload = G::encode(&message).map_err(named)?;
                    Call::Encoded(Box::new(EncodedCall {
                        header: Arc::new(header(payload.len())),
                        payload,
                        reply: None,
                        cancellation: None,
                    }))
                } else {
                    Call::Local(LocalCall::tell(header(size_of::<M>()), message))
                };
                endpoint
                    .submit(*gateway, G::METHOD, call)
                    .map_err(|rejected| named(rejected.1))
            }
        }
    }

    /// True while calls can be made: the endpoint lives, or the session to it is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        match &self.inner.link {
            Link::Local { endpoint, .. } => {
                endpoint.state() != crate::endpoint::EndpointState::Terminated
            }
            Link::Remote(session) => session.is_connected(),
        }
    }

    /// Resolves with the cause when the endpoint has ended, or the session with it for good.
    pub fn closed(&self) -> impl Future<Output = RpcError> + Send + 'static {
        let watched = match &self.inner.link {
            Link::Local { endpoint, .. } => Ok(endpoint.terminated()),
            Link::Remote(session) => Err(session.closed()),
        };
        async move {
            match watched {
                Ok(terminated) => terminated.await.err().unwrap_or_else(|| {
                    RpcError::new(RpcErrorKind::Stopped, "the endpoint was terminated")
                }),
                Err(closed) => closed.await,
            }
        }
    }
}

impl<G: RpcGateway<Fencing = Fenced>> Gateway<G> {
    /// The token that calls carry now; `None` for the self gateway of an endpoint without token.
    #[must_use]
    pub fn token(&self) -> Option<FencingToken> {
        match (&self.inner.token, &self.inner.link) {
            (TokenSource::Fixed(token), _) => Some(**token),
            (TokenSource::Present, Link::Local { endpoint, .. }) => endpoint.token(),
            (TokenSource::Present, Link::Remote(_)) | (TokenSource::None, _) => None,
        }
    }
}

impl<G: RpcGateway> Clone for Gateway<G> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            gateway: PhantomData,
        }
    }
}

impl<G: RpcGateway> fmt::Debug for Gateway<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("gateway", &G::DESCRIPTOR.name)
            .field("address", &self.inner.address)
            .field("token", &self.inner.token)
            .finish_non_exhaustive()
    }
}

/// An encoded ask inside the process, with its answer's place.
pub(crate) fn encoded_ask(header: Header, payload: Bytes) -> (Call, Waiter<Bytes>) {
    let (replier, waiter) = slot::<Bytes>();
    let reply = ReplySink::new(move |answer| {
        replier.answer(answer);
    });
    let call = EncodedCall {
        header: Arc::new(header),
        payload,
        reply: Some(reply),
        cancellation: None,
    };
    (Call::Encoded(Box::new(call)), waiter)
}
