//! A connection that exists because of a registration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::error::RpcError;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{
    Attempt, Registered, Registrar, RegistrationOptions, RegistrationResponse, RetryingRegistration,
};

/// Where a [`RegisteredConnection`] is.
#[derive(Clone, Debug)]
pub enum ConnectionState<G, S, R> {
    /// Not started.
    Created,
    /// Registering; the former connection stays usable until the new one stands.
    Connecting(Option<Registered<G, S>>),
    /// Registered.
    Established(Registered<G, S>),
    /// Rejected: it is not tried again by itself.
    Rejected(R),
    /// Closed.
    Closed,
}

/// A call that the state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// It was started before.
    #[error("the connection was started before; use try_reconnect")]
    AlreadyStarted,
    /// It was not started, or it is registering already.
    #[error("the connection does not stand; start it, or wait for its registration")]
    NotEstablished,
    /// It is closed.
    #[error("the connection is closed; make a new one")]
    Closed,
}

type State<R> = ConnectionState<
    <R as Registrar>::Gateway,
    <R as Registrar>::Success,
    <R as Registrar>::Rejection,
>;

/// Registers, holds the gateway, and registers anew when told. Dropping it closes it. Its task
/// runs on the tokio runtime from which it is started.
pub struct RegisteredConnection<R: Registrar> {
    registrar: Arc<R>,
    options: RegistrationOptions,
    state: Arc<watch::Sender<State<R>>>,
    task: Option<JoinHandle<()>>,
}

impl<R: Registrar> RegisteredConnection<R> {
    /// A connection that is not started.
    #[must_use]
    pub fn new(registrar: R, options: RegistrationOptions) -> Self {
        let state = Arc::new(watch::Sender::new(ConnectionState::Created));
        RegisteredConnection {
            registrar: Arc::new(registrar),
            options,
            state,
            task: None,
        }
    }

    /// A watch of the state.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<State<R>> {
        self.state.subscribe()
    }

    /// The gateway that can be used now: also while a new registration is under way.
    #[must_use]
    pub fn gateway(&self) -> Option<R::Gateway> {
        match &*self.state.borrow() {
            ConnectionState::Established(registered)
            | ConnectionState::Connecting(Some(registered)) => Some(registered.gateway.clone()),
            _ => None,
        }
    }

    /// Begins to register.
    ///
    /// # Errors
    /// [`ConnectionError::AlreadyStarted`], [`ConnectionError::Closed`].
    pub fn start(&mut self) -> Result<(), ConnectionError> {
        match &*self.state.borrow() {
            ConnectionState::Created => {}
            ConnectionState::Closed => return Err(ConnectionError::Closed),
            _ => return Err(ConnectionError::AlreadyStarted),
        }
        self.register(None);
        Ok(())
    }

    /// Registers anew; the former gateway stays until that has succeeded.
    ///
    /// # Errors
    /// [`ConnectionError::NotEstablished`], [`ConnectionError::Closed`].
    pub fn try_reconnect(&mut self) -> Result<(), ConnectionError> {
        let former = match &*self.state.borrow() {
            ConnectionState::Established(registered) => registered.clone(),
            ConnectionState::Closed => return Err(ConnectionError::Closed),
            _ => return Err(ConnectionError::NotEstablished),
        };
        self.register(Some(former));
        Ok(())
    }

    /// Ends it. An answer that is under way is ignored.
    pub fn close(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.state.send_replace(ConnectionState::Closed);
    }

    fn register(&mut self, former: Option<Registered<R::Gateway, R::Success>>) {
        self.state.send_replace(ConnectionState::Connecting(former));
        let registration =
            RetryingRegistration::new(Shared(self.registrar.clone()), self.options.clone());
        let state = self.state.clone();
        self.task = Some(tokio::spawn(async move {
            let next = match registration.run().await {
                Ok(registered) => ConnectionState::Established(registered),
                Err(rejection) => ConnectionState::Rejected(rejection),
            };
            state.send_if_modified(|present| {
                let waits = matches!(present, ConnectionState::Connecting(_));
                if waits {
                    *present = next;
                }
                waits
            });
        }));
    }
}

impl<R: Registrar> fmt::Debug for RegisteredConnection<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.state.borrow() {
            ConnectionState::Created => "created",
            ConnectionState::Connecting(_) => "connecting",
            ConnectionState::Established(_) => "established",
            ConnectionState::Rejected(_) => "rejected",
            ConnectionState::Closed => "closed",
        };
        formatter
            .debug_struct("RegisteredConnection")
            .field("state", &state)
            .finish()
    }
}

impl<R: Registrar> Drop for RegisteredConnection<R> {
    fn drop(&mut self) {
        self.close();
    }
}

/// One registrar for a connection and its present registration.
struct Shared<R>(Arc<R>);

impl<R: Registrar> Registrar for Shared<R> {
    type Gateway = R::Gateway;
    type Success = R::Success;
    type Rejection = R::Rejection;

    async fn connect(&self) -> Result<Self::Gateway, RpcError> {
        self.0.connect().await
    }

    async fn register(
        &self,
        gateway: &Self::Gateway,
        attempt: Attempt,
        limit: Duration,
    ) -> Result<RegistrationResponse<Self::Success, Self::Rejection>, RpcError> {
        self.0.register(gateway, attempt, limit).await
    }
}
