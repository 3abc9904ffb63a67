//! A gateway's session with an endpoint in another process: [`RemoteSession`] over links.
//!
//! The session outlives its connection: the next use after a loss connects anew, as long as the
//! address is served by the same incarnation.

mod ask;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use lockkeeper_core::error::TimeoutPhase;
use lockkeeper_core::trace::TraceContext;
use lockkeeper_core::transport::{ConnectRequest, OutboundCall, RemoteSession};
use lockkeeper_core::{Authority, Outcome, RpcError, RpcErrorKind};
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::connection::OpenEnd;
use crate::errors;
use crate::link::{Asked, LinkHandle, Request};
use crate::meters;
use crate::shared::Shared;
use crate::wire::{Connect, SHAPES_SINCE, Tell};

/// How often a call that was certainly not sent is tried on a new connection.
const ATTEMPTS: u32 = 3;

/// The handle that core's gateways hold. Dropping the last one leaves the session.
pub(crate) struct Session(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    request: ConnectRequest,
    authority: Authority,
    /// The gateway's number of a method → its place in our `Connect` frame.
    places: Vec<Option<u16>>,
    incarnation: OnceLock<Uuid>,
    present: Mutex<Option<Arc<Binding>>>,
    reopening: tokio::sync::Mutex<()>,
    ended: CancellationToken,
    end: OnceLock<RpcError>,
}

/// The session's number on one connection. Dropping it leaves the session there.
struct Binding {
    link: Arc<LinkHandle>,
    session: u32,
    asked: Arc<Asked>,
}

impl Drop for Binding {
    fn drop(&mut self) {
        if self.link.loss().is_none() {
            self.link.send(Request::Leave {
                session: self.session,
            });
        }
    }
}

impl Session {
    /// Makes the first binding; the incarnation found is the session's from then on.
    pub(crate) async fn connect(
        shared: Arc<Shared>,
        request: ConnectRequest,
    ) -> Result<Self, RpcError> {
        let Some(authority) = request.address.authority().cloned() else {
            return Err(RpcError::new(
                RpcErrorKind::InvalidAddress,
                format!("{} names no process", request.address),
            ));
        };
        let mut places = vec![None; request.gateway.methods.len()];
        for (place, (number, _)) in (0_u16..).zip(request.gateway.remote_methods()) {
            if let Some(entry) = places.get_mut(usize::from(number)) {
                *entry = Some(place);
            }
        }
        let deadline = request.deadline.into_std();
        let inner = Inner {
            shared,
            request,
            authority,
            places,
            incarnation: OnceLock::new(),
            present: Mutex::new(None),
            reopening: tokio::sync::Mutex::new(()),
            ended: CancellationToken::new(),
            end: OnceLock::new(),
        };
        inner.binding(deadline).await?;
        Ok(Self(Arc::new(inner)))
    }
}

impl Inner {
    fn present(&self) -> Option<Arc<Binding>> {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let binding = present.as_ref()?;
        if let Some(end) = binding.asked.end() {
            self.finish(end.clone());
            return None;
        }
        binding.link.is_usable().then(|| Arc::clone(binding))
    }

    /// The session's place on a usable connection, made anew if need be.
    async fn binding(&self, deadline: Instant) -> Result<Arc<Binding>, RpcError> {
        if let Some(binding) = self.present() {
            return Ok(binding);
        }
        if let Some(end) = self.end.get() {
            return Err(end.clone().with_outcome(Outcome::NotSent));
        }
        let begun = Instant::now();
        let too_late = || {
            let call = format_args!("connecting to {}", self.request.address);
            RpcError::timeout(&call, begun.elapsed(), TimeoutPhase::Connecting)
        };
        let limit = deadline.into();
        let _one_at_a_time = timeout_at(limit, self.reopening.lock())
            .await
            .map_err(|_| too_late())?;
        if let Some(binding) = self.present() {
            return Ok(binding);
        }
        for _ in 0..ATTEMPTS {
            let link = self.shared.link(&self.authority, deadline).await?;
            let incarnation = link.peer().incarnation;
            if *self.incarnation.get_or_init(|| incarnation) != incarnation {
                let error = errors::restarted(&self.request.address);
                self.finish(error.clone());
                return Err(error);
            }
            let endpoint = self.request.address.endpoint().clone();
            let asked = Arc::new(Asked::new(endpoint, self.request.gateway));
            match self.open(&link, &asked, deadline).await {
                Some(OpenEnd::Session { session, .. }) => {
                    let binding = Arc::new(Binding {
                        link,
                        session,
                        asked,
                    });
                    let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
                    if present.replace(Arc::clone(&binding)).is_some() {
                        meters::reconnected();
                    }
                    return Ok(binding);
                }
                Some(OpenEnd::Refused(fault)) => return Err(self.refused(fault.into())),
                Some(OpenEnd::TimedOut) => return Err(too_late()),
                Some(OpenEnd::TooLong(error)) => {
                    return Err(RpcError::new(
                        RpcErrorKind::TooLarge,
                        format!("the handshake with {}: {error}", self.request.address),
                    ));
                }
                // Retired or lost in between: the next attempt finds another.
                Some(OpenEnd::Lost(_)) | None => {}
            }
        }
        Err(errors::undialled(
            &self.request.address,
            ATTEMPTS,
            &"its connections break at once",
        ))
    }

    async fn open(
        &self,
        link: &LinkHandle,
        asked: &Arc<Asked>,
        deadline: Instant,
    ) -> Option<OpenEnd> {
        let gateway = self.request.gateway;
        let connect = Connect {
            request: 0,
            endpoint: self.request.address.endpoint().as_str().to_owned(),
            gateway: gateway.name.to_owned(),
            gateway_version: gateway.version,
            token: self.request.token,
            methods: gateway
                .remote_methods()
                .map(|(_, name)| name.to_owned())
                .collect(),
            shapes: self.shapes(link),
        };
        let (opener, opened) = oneshot::channel();
        link.send(Request::Open {
            connect,
            deadline,
            asked: Arc::clone(asked),
            opener,
        });
        opened.await.ok()
    }

    /// One number for each method that can leave the process, if the peer takes them.
    fn shapes(&self, link: &LinkHandle) -> Vec<u64> {
        let ConnectRequest {
            gateway, shapes, ..
        } = &self.request;
        if link.peer().version < SHAPES_SINCE || shapes.is_empty() {
            return Vec::new();
        }
        let of = |number| shapes.get(usize::from(number)).copied().unwrap_or(0);
        gateway
            .remote_methods()
            .map(|(number, _)| of(number))
            .collect()
    }

    /// An endpoint that the same incarnation no longer has is gone for good.
    fn refused(&self, error: RpcError) -> RpcError {
        if matches!(
            error.kind(),
            RpcErrorKind::NoSuchEndpoint | RpcErrorKind::Stopped
        ) {
            self.finish(error.clone());
        }
        error
    }

    fn finish(&self, error: RpcError) {
        // The first cause stands.
        let _ = self.end.set(error);
        self.ended.cancel();
    }

    fn place(&self, method: u16) -> Result<u16, RpcError> {
        self.places
            .get(usize::from(method))
            .copied()
            .flatten()
            .ok_or_else(|| {
                RpcError::new(
                    RpcErrorKind::LocalOnly,
                    format!(
                        "{} of {} can't leave its process, and {} is in another one",
                        self.request.gateway.method_name(method),
                        self.request.gateway.name,
                        self.request.address
                    ),
                )
            })
    }

    /// Refuses what does not fit into a frame before a byte of it is queued.
    fn fits(
        &self,
        link: &LinkHandle,
        method: u16,
        fields: usize,
        payload: &Bytes,
    ) -> Result<(), RpcError> {
        let size = payload.len().saturating_add(1 + fields);
        let limit = usize::try_from(link.frame_limit()).unwrap_or(usize::MAX);
        if size > limit {
            let method = self.request.gateway.method_name(method);
            return Err(RpcError::too_large(method, "message", size, limit));
        }
        Ok(())
    }

    fn tell(
        &self,
        method: u16,
        payload: Bytes,
        trace: Option<TraceContext>,
    ) -> Result<(), RpcError> {
        let place = self.place(method)?;
        if let Some(end) = self.end.get() {
            return Err(end.clone().with_outcome(Outcome::NotSent));
        }
        let Some(binding) = self.present() else {
            return Err(RpcError::new(
                RpcErrorKind::Unreachable,
                format!("{} is not connected at present", self.request.address),
            ));
        };
        let link = &binding.link;
        self.fits(link, method, Tell::FIELDS, &payload)?;
        let size = payload.len();
        let full = |what| {
            let method = self.request.gateway.method_name(method);
            let text = format!("{method} of {}: {what}", self.request.address);
            RpcError::new(RpcErrorKind::Full, text).with_outcome(Outcome::NotSent)
        };
        if !binding.asked.spend(size) {
            meters::without_credit();
            return Err(full(
                "the endpoint has given no credit for more one-way messages; those before have to \
                 be handled first",
            ));
        }
        let Some(room) = link.try_room(size) else {
            binding.asked.unspend(size);
            return Err(full("the connection's outgoing queue has no room"));
        };
        let session = binding.session;
        let trace = trace.filter(|_| link.takes_trace(size + 1 + Tell::FIELDS));
        if !link.send(Request::Tell {
            session,
            method: place,
            trace: trace.map(Box::new),
            payload,
            room,
        }) {
            return Err(RpcError::new(
                RpcErrorKind::Unreachable,
                format!("{}: the connection is gone", self.request.address),
            ));
        }
        Ok(())
    }

    /// Watches the connection, and after a loss finds out whether the endpoint is still there.
    async fn closed(&self) -> RpcError {
        loop {
            if let Some(end) = self.end.get() {
                return end.clone();
            }
            if let Some(binding) = self.present() {
                tokio::select! {
                    () = self.ended.cancelled() => continue,
                    () = self.shared.shut.cancelled() => self.finish(errors::shut_down()),
                    () = binding.link.closed() => {}
                    () = binding.asked.ended() => {}
                }
                continue;
            }
            let patience = self.shared.settings.handshake_timeout;
            match self.reconnect_within(patience).await {
                Ok(()) => {}
                Err(error) => self.finish(error),
            }
        }
    }

    /// Tries until it is connected, refused for good, or out of patience.
    async fn reconnect_within(&self, patience: Duration) -> Result<(), RpcError> {
        let deadline = Instant::now() + patience;
        let mut unreachable = None;
        loop {
            match self.binding(deadline).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == RpcErrorKind::Unreachable => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    unreachable = Some(error);
                }
                // The time is over within a pause: what was wrong before it says more.
                Err(error) if error.kind() == RpcErrorKind::Timeout => {
                    return Err(unreachable.unwrap_or(error));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Session {
    fn send_one_way(
        &self,
        method: u16,
        payload: Bytes,
        trace: Option<TraceContext>,
    ) -> Result<(), RpcError> {
        let told = self.0.tell(method, payload, trace);
        if told.is_err() && self.0.present().is_none() && self.0.end.get().is_none() {
            // The next one finds a connection, if there is one to be had.
            let inner = Arc::clone(&self.0);
            let patience = inner.shared.settings.handshake_timeout;
            self.0.shared.io.spawn(async move {
                if inner.reopening.try_lock().is_ok() {
                    // Its failure is found by the next call.
                    let _ = inner.binding(Instant::now() + patience).await;
                }
            });
        }
        told
    }
}

impl RemoteSession for Session {
    fn ask(&self, call: OutboundCall) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.ask(call, None).await })
    }

    fn ask_traced(
        &self,
        call: OutboundCall,
        trace: TraceContext,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let inner = Arc::clone(&self.0);
        let trace = Some(Box::new(trace));
        Box::pin(async move { inner.ask(call, trace).await })
    }

    fn tell(&self, method: u16, payload: Bytes) -> Result<(), RpcError> {
        self.send_one_way(method, payload, None)
    }

    fn tell_traced(
        &self,
        method: u16,
        payload: Bytes,
        trace: TraceContext,
    ) -> Result<(), RpcError> {
        self.send_one_way(method, payload, Some(trace))
    }

    fn is_connected(&self) -> bool {
        self.0.present().is_some()
    }

    fn closed(&self) -> BoxFuture<'static, RpcError> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.closed().await })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("address", &self.0.request.address)
            .field("gateway", &self.0.request.gateway.name)
            .field("connected", &self.is_connected())
            .finish_non_exhaustive()
    }
}
