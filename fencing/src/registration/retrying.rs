//! The shell of a registration.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::error::RpcError;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::RegistrationOptions;
use super::machine::{Action, Event, Machine};

/// Names an attempt: to be sent along, so that the receiver can tell a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// The registration that the attempt belongs to.
    pub registration: Uuid,
    /// Its number, from 1.
    pub number: u64,
}

/// What a receiver answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistrationResponse<S, R> {
    /// Registered.
    Success(S),
    /// Not now: tried again after `refused_delay`.
    Failure(String),
    /// Never: not tried again.
    Rejection(R),
}

/// How to connect and register; what [`RetryingRegistration`] drives.
pub trait Registrar: Send + Sync + 'static {
    /// A connection, such as a `FencedGateway`.
    type Gateway: Clone + Send + Sync + 'static;
    /// What comes with success.
    type Success: Clone + Send + Sync + 'static;
    /// Why one is rejected.
    type Rejection: fmt::Debug + Clone + Send + Sync + 'static;

    /// Connects.
    fn connect(&self) -> impl Future<Output = Result<Self::Gateway, RpcError>> + Send;

    /// Makes one attempt. It is dropped at its limit: what it answers later is ignored.
    fn register(
        &self,
        gateway: &Self::Gateway,
        attempt: Attempt,
        limit: Duration,
    ) -> impl Future<Output = Result<RegistrationResponse<Self::Success, Self::Rejection>, RpcError>>
    + Send;
}

/// A successful registration.
#[derive(Clone, Debug)]
pub struct Registered<G, S> {
    /// The connection over which it was made.
    pub gateway: G,
    /// What the receiver answered.
    pub success: S,
}

/// One registration, retried until it is accepted or rejected.
#[derive(Debug)]
pub struct RetryingRegistration<R> {
    registrar: R,
    options: RegistrationOptions,
    registration: Uuid,
}

impl<R: Registrar> RetryingRegistration<R> {
    /// A registration that has not begun.
    #[must_use]
    pub fn new(registrar: R, options: RegistrationOptions) -> Self {
        RetryingRegistration {
            registrar,
            options,
            registration: Uuid::new_v4(),
        }
    }

    /// Tries for as long as it takes. Dropping the future cancels the registration.
    ///
    /// # Errors
    /// The receiver's rejection.
    pub async fn run(self) -> Result<Registered<R::Gateway, R::Success>, R::Rejection> {
        let mut machine = Machine::new(self.options.clone());
        let mut gateway = None;
        let mut action = Action::Connect;
        loop {
            let event = match (action, &gateway) {
                (Action::Wait(delay), _) => {
                    tokio::time::sleep(delay).await;
                    Event::Waited
                }
                (Action::Connect, _) | (Action::Register { .. }, None) => {
                    match self.registrar.connect().await {
                        Ok(connected) => {
                            gateway = Some(connected);
                            Event::Connected
                        }
                        Err(error) => {
                            tracing::debug!(%error, "connecting for a registration failed");
                            Event::ConnectFailed
                        }
                    }
                }
                (
                    Action::Register {
                        attempt: number,
                        limit,
                    },
                    Some(connected),
                ) => {
                    let attempt = Attempt {
                        registration: self.registration,
                        number,
                    };
                    let call = self.registrar.register(connected, attempt, limit);
                    match tokio::time::timeout(limit, call).await {
                        Err(_) => Event::TimedOut,
                        Ok(Err(error)) => {
                            tracing::debug!(%error, number, "an attempt to register failed");
                            Event::CallFailed
                        }
                        Ok(Ok(RegistrationResponse::Failure(reason))) => {
                            tracing::debug!(reason, number, "an attempt to register was refused");
                            Event::Refused
                        }
                        Ok(Ok(RegistrationResponse::Rejection(rejection))) => {
                            return Err(rejection);
                        }
                        Ok(Ok(RegistrationResponse::Success(success))) => {
                            return Ok(Registered {
                                gateway: connected.clone(),
                                success,
                            });
                        }
                    }
                }
            };
            action = machine.step(event);
        }
    }
}
