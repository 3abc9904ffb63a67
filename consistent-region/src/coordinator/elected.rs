//! A coordinator that contends for the leadership of its region (feature `remote`).
//!
//! On a grant it begins the token's term, opens its endpoint under the
//! token and confirms the endpoint's address; on a revocation it answers nobody any more. When its
//! term ends by the store (a higher term has been there, a write of unknown outcome) or by its own
//! deadline, it gives the leadership up and contends anew.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockkeeper_core::status::StatusSource;
use lockkeeper_core::{FencingToken, RpcError, RpcServer, RpcService};
use lockkeeper_fencing::clock::LocalDeadline;
use lockkeeper_fencing::election::{
    Callback, ElectionError, LeaderContender, LeaderElection, Leadership,
};
use tokio::sync::watch;

use super::RegionCoordinator;
use super::handle::{CoordinatorEnd, CoordinatorHandle};
use super::settings::{CoordinatorSettings, SettingsError};
use super::shown::RegionSource;
use crate::graph::Region;
use crate::link::remote::CoordinatorEndpoint;
use crate::point::Hook;
use crate::store::CheckpointStore;

/// Pause before a leadership that was given up is contended for again.
const CONTEND_AGAIN: Duration = Duration::from_millis(200);

/// A coordinator that leads its region when it is elected. Clones are the same coordinator.
#[derive(Clone)]
pub struct ElectedCoordinator {
    handle: CoordinatorHandle,
    election: LeaderElection,
    server: Arc<RpcServer<CoordinatorEndpoint>>,
    token: watch::Receiver<Option<FencingToken>>,
}

/// Why a coordinator can't contend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartElectedError {
    /// A setting can't be.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Its endpoint can't be started.
    #[error("the coordinator's endpoint can't be started: {0}")]
    Endpoint(#[from] RpcError),
    /// The election can't begin.
    #[error("the election can't begin: {0}")]
    Election(#[from] ElectionError),
}

/// What the contender's callbacks share.
#[derive(Clone)]
struct Contender {
    handle: CoordinatorHandle,
    election: LeaderElection,
    server: Arc<RpcServer<CoordinatorEndpoint>>,
    deadline: Arc<Mutex<Option<LocalDeadline>>>,
    token: Arc<watch::Sender<Option<FencingToken>>>,
}

impl ElectedCoordinator {
    /// Starts contending on the current arbiter. The endpoint is named
    /// `coordinator-<component>`; workers find it by retrieval of the election's component.
    ///
    /// Epochs of the election must be above every term that the store has seen: a store that is
    /// older than its election's folder needs
    /// [`highest_fence`](lockkeeper_fencing::guard::highest_fence) at the election's start.
    ///
    /// The store keeps which coordination store its terms come from. One that was replaced or
    /// restored is refused ([`CoordinatorEnd::Unusable`]) until a person has said that no coordinator of
    /// the former one is left: by `lockkeeper-region adopt`, which is
    /// [`Archive::adopt`](crate::archive::Archive::adopt). So an
    /// election in memory is not for a store that outlives its process.
    ///
    /// # Errors
    /// See [`StartElectedError`].
    pub async fn start(
        settings: CoordinatorSettings,
        store: Arc<dyn CheckpointStore>,
        hook: Hook,
        service: &RpcService,
        election: LeaderElection,
    ) -> Result<Self, StartElectedError> {
        let deadline: Arc<Mutex<Option<LocalDeadline>>> = Arc::default();
        let may_act = {
            let deadline = Arc::clone(&deadline);
            move || {
                lock(&deadline)
                    .as_ref()
                    .is_some_and(|deadline| deadline.check().is_ok())
            }
        };
        let handle = RegionCoordinator::start_elected(settings, store, hook, may_act)?;
        let name = format!("coordinator-{}", election.component());
        let endpoint = CoordinatorEndpoint::new(handle.way().clone(), service.clone());
        let server = Arc::new(service.start_fenced_server(&name, endpoint, None).await?);
        server.start().await?;
        let (sender, token) = watch::channel(None);
        let contender = Contender {
            handle: handle.clone(),
            election: election.clone(),
            server: Arc::clone(&server),
            deadline,
            token: Arc::new(sender),
        };
        election.start(contender.clone()).await?;
        actix_rt::spawn(contend_again(contender));
        Ok(Self {
            handle,
            election,
            server,
            token,
        })
    }

    /// The coordinator: status, events, commands.
    #[must_use]
    pub fn handle(&self) -> &CoordinatorHandle {
        &self.handle
    }

    /// The token under which it leads; `None` while it does not.
    #[must_use]
    pub fn token(&self) -> watch::Receiver<Option<FencingToken>> {
        self.token.clone()
    }

    /// The region for a console: as
    /// [`CoordinatorHandle::status_source`](super::CoordinatorHandle::status_source), and it says
    /// that the region is coordinated elsewhere while this process does not lead.
    #[must_use]
    pub fn status_source(&self, region: &Region) -> Arc<dyn StatusSource> {
        RegionSource::shared(self.handle.clone(), region, Some(self.token.clone()))
    }

    /// Gives the leadership up and ends the coordinator and its endpoint.
    ///
    /// # Errors
    /// When the endpoint failed; it is down all the same.
    pub async fn close(&self) -> Result<(), RpcError> {
        self.handle.halt().await;
        self.election.close().await;
        self.server.terminate().await
    }
}

impl fmt::Debug for ElectedCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElectedCoordinator")
            .field("component", self.election.component())
            .field("token", &*self.token.borrow())
            .finish_non_exhaustive()
    }
}

impl LeaderContender for Contender {
    fn grant_leadership(&mut self, Leadership { token, deadline }: Leadership) -> Callback {
        let this = self.clone();
        Box::pin(async move {
            *lock(&this.deadline) = Some(deadline);
            this.handle.grant_with(token).await;
            this.server.set_token(token);
            this.token.send_replace(Some(token));
            let address = this.server.address().to_string();
            if let Err(error) = this.election.confirm(token.session, address).await {
                tracing::warn!(%error, "the leadership was not confirmed");
            }
        })
    }

    fn revoke_leadership(&mut self) -> Callback {
        let this = self.clone();
        Box::pin(async move {
            *lock(&this.deadline) = None;
            this.token.send_replace(None);
            this.handle.revoke().await;
            if let Err(error) = this.server.revoke().await {
                tracing::warn!(%error, "a call outlived the leadership");
            }
        })
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        Box::pin(async move { tracing::warn!(%error, "the election has a problem") })
    }
}

/// A term that ended by itself: the leadership is of no use without it.
async fn contend_again(contender: Contender) {
    loop {
        match contender.handle.ended().await {
            end @ (CoordinatorEnd::Stopped | CoordinatorEnd::Unusable(_)) => {
                tracing::info!(?end, "the coordinator has ended");
                return contender.election.close().await;
            }
            end => tracing::warn!(?end, "giving the leadership up"),
        }
        contender.election.close().await;
        contender.handle.forget_end().await;
        tokio::time::sleep(CONTEND_AGAIN).await;
        if let Err(error) = contender.election.start(contender.clone()).await {
            tracing::error!(%error, "can't contend again");
            return contender.handle.halt().await;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
