//! A coordinator in this process, as its owner holds it.

use std::fmt;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context};
use futures_util::stream;
use lockkeeper_core::status::StatusSource;
use lockkeeper_core::token::FencingToken;
use tokio::sync::{broadcast, oneshot, watch};

#[cfg(feature = "remote")]
use super::actor::ForgetEnd;
use super::actor::{
    Command, CommandKind, Halt, Lead, Leadership, Parts, RegionCoordinator, Revoke,
};
use super::event::CommandRefused;
use super::publisher::Mandate;
use super::settings::{CoordinatorSettings, SettingsError};
use super::shown::RegionSource;
use super::status::{RegionEvent, RegionState, RegionStatus};
use crate::graph::Region;
use crate::link::local::LocalCoordinator;
use crate::point::Hook;
use crate::store::CheckpointStore;

/// How many events a slow listener may be behind before it misses some.
const EVENTS: usize = 1_024;

/// Why a coordinator does not coordinate any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoordinatorEnd {
    /// It was told to stop, or its actor has ended.
    Stopped,
    /// A coordinator with a higher term leads. An elected one gives its leadership up and may be
    /// elected again.
    SteppedDown {
        /// The highest term that was used.
        highest: u64,
    },
    /// The store failed in a way that only a new term can mend. An elected coordinator gives its
    /// leadership up and may be elected again.
    StoreFailed(String),
    /// The leadership's deadline has passed before it was renewed.
    DeadlinePassed,
    /// The store holds another region, another graph, what this version can't read, or terms of another
    /// coordination store.
    Unusable(String),
}

/// A running coordinator. It lives on when this is dropped; [`halt`](Self::halt) ends it.
#[derive(Clone)]
pub struct CoordinatorHandle {
    address: Addr<RegionCoordinator>,
    way: LocalCoordinator,
    status: watch::Receiver<RegionStatus>,
    events: broadcast::Sender<RegionEvent>,
    ended: watch::Receiver<Option<CoordinatorEnd>>,
}

impl fmt::Debug for CoordinatorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoordinatorHandle")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl RegionCoordinator {
    /// Starts the only coordinator of a region on the current arbiter: nobody is elected, each
    /// start and each failure of the store begins a new term.
    ///
    /// Two of them on one store fence each other out in turn: nothing is lost, nothing gets on.
    ///
    /// # Errors
    /// When a setting can't be.
    pub fn start_local(
        settings: CoordinatorSettings,
        store: Arc<dyn CheckpointStore>,
        hook: Hook,
    ) -> Result<CoordinatorHandle, SettingsError> {
        Self::launch(settings, store, hook, Leadership::Alone)
    }

    /// Starts a coordinator that leads only between [`CoordinatorHandle::grant`] and
    /// [`CoordinatorHandle::revoke`]. `may_act` is asked right before every step: it must read the
    /// deadline of the leadership, not a flag.
    ///
    /// # Errors
    /// When a setting can't be.
    pub fn start_elected(
        settings: CoordinatorSettings,
        store: Arc<dyn CheckpointStore>,
        hook: Hook,
        may_act: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<CoordinatorHandle, SettingsError> {
        Self::launch(
            settings,
            store,
            hook,
            Leadership::Elected {
                may_act: Arc::new(may_act),
            },
        )
    }

    fn launch(
        settings: CoordinatorSettings,
        store: Arc<dyn CheckpointStore>,
        hook: Hook,
        leadership: Leadership,
    ) -> Result<CoordinatorHandle, SettingsError> {
        settings.validate()?;
        let (way, mut inbox) = LocalCoordinator::channel();
        let (status_sender, status) = watch::channel(idle(&settings));
        let (events, _) = broadcast::channel(EVENTS);
        let (ended_sender, ended) = watch::channel(None);
        let parts = Parts {
            settings,
            store,
            hook,
            way: way.clone(),
            leadership,
            status: status_sender,
            events: events.clone(),
            ended: ended_sender,
        };
        let address = Self::create(move |ctx: &mut Context<Self>| {
            ctx.add_stream(stream::poll_fn(move |cx| inbox.poll_next(cx)));
            Self::new(parts)
        });
        Ok(CoordinatorHandle {
            address,
            way,
            status,
            events,
            ended,
        })
    }
}

fn idle(settings: &CoordinatorSettings) -> RegionStatus {
    RegionStatus {
        region: settings.region.clone(),
        term: 0,
        state: RegionState::Opening,
        reason: None,
        seq: 0,
        completed: 0,
        oldest_retained: 0,
        attempt: 0,
        consecutive_resets: 0,
        workers: Vec::new(),
        waiting: Vec::new(),
        stale_messages: 0,
        finished: false,
        round: None,
        sources_paused_since_unix_ms: None,
    }
}

impl CoordinatorHandle {
    /// The way for workers of this process, and for endpoints that receive workers' requests.
    #[must_use]
    pub fn way(&self) -> &LocalCoordinator {
        &self.way
    }

    /// How the region stands now.
    #[must_use]
    pub fn status(&self) -> RegionStatus {
        self.status.borrow().clone()
    }

    /// The status, and each change of it; changes that follow one another quickly may be seen as
    /// one.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<RegionStatus> {
        self.status.clone()
    }

    /// What happens from now on. A listener that falls 1,024 events behind misses the oldest.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<RegionEvent> {
        self.events.subscribe()
    }

    /// The region for a console: state, workers, the graph with the round that flows through it, the
    /// times of the rounds since now, events; actions `cut`, `reset`, `pause` and `resume`. `region` is
    /// the graph that is drawn. To be kept, and registered with a
    /// [`StatusRegistry`](lockkeeper_core::status::StatusRegistry), which does not keep it alive.
    #[must_use]
    pub fn status_source(&self, region: &Region) -> Arc<dyn StatusSource> {
        RegionSource::shared(self.clone(), region, None)
    }

    /// Waits until the region is in `state`; `false` when the coordinator ends before.
    pub async fn reached(&self, state: RegionState) -> bool {
        let mut status = self.status.clone();
        status
            .wait_for(|status| status.state == state)
            .await
            .is_ok()
    }

    /// Waits until the coordinator ends or, if it is elected, gives its term up.
    pub async fn ended(&self) -> CoordinatorEnd {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await.map(|end| end.clone());
        end.ok().flatten().unwrap_or(CoordinatorEnd::Stopped)
    }

    /// Asks for a cut now, or as soon as tuples flow again.
    ///
    /// # Errors
    /// When the region has failed or ended, or is coordinated elsewhere.
    pub async fn cut(&self) -> Result<(), CommandRefused> {
        self.command(CommandKind::Cut).await
    }

    /// Asks for a final cut and the end of the region. A region that is stopped like this goes on
    /// from that cut when it is started again. If the cut fails, the region is reset and tries
    /// again.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub async fn stop(&self) -> Result<(), CommandRefused> {
        self.command(CommandKind::Stop).await
    }

    /// Sets the region back to its newest cut. `force` grants it
    /// `max_consecutive_reset_attempts` more and takes a failed region up again.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub async fn reset(
        &self,
        force: bool,
        reason: impl Into<String>,
    ) -> Result<(), CommandRefused> {
        self.command(CommandKind::Reset {
            force,
            reason: reason.into(),
        })
        .await
    }

    /// Pauses the region's sources: no start operator takes anything in, and what they read from keeps
    /// it (a Canal server as long as its database keeps its binlogs). What was taken in flows on; cuts,
    /// resets and the end of the region go on as ever. Workers learn of it with the answer to their next
    /// heartbeat, within a quarter of their lease; those that join learn of it at once. Pausing again
    /// changes nothing.
    ///
    /// It is kept in no store: it ends by [`resume_sources`](Self::resume_sources), and with this
    /// coordinator's term at the latest, so at each restart and each change of the leader.
    ///
    /// # Errors
    /// As [`cut`](Self::cut).
    pub async fn pause_sources(&self) -> Result<(), CommandRefused> {
        self.command(CommandKind::PauseSources).await
    }

    /// Ends the pause of [`pause_sources`](Self::pause_sources), also in a region that has failed
    /// meanwhile. Nothing happens if there is none.
    ///
    /// # Errors
    /// When the region has ended, or is coordinated elsewhere.
    pub async fn resume_sources(&self) -> Result<(), CommandRefused> {
        self.command(CommandKind::ResumeSources).await
    }

    /// Takes a cut and keeps it under `name`: 1 to 64 letters, digits, `_` and `-`. Answered when
    /// it is kept; it stays until [`forget_savepoint`](Self::forget_savepoint), whatever the region
    /// does. Its state is read through the same objects as the region's own cuts, which are not
    /// written twice.
    ///
    /// # Errors
    /// As [`cut`](Self::cut), and when the name is bad or taken, another savepoint is being taken,
    /// or the store fails. After [`CommandRefused::NotLeading`] it may have been kept all the same.
    pub async fn savepoint(&self, name: impl Into<String>) -> Result<(), CommandRefused> {
        let (name, stop) = (name.into(), false);
        self.command(CommandKind::Savepoint { name, stop }).await
    }

    /// Takes the final cut as [`stop`](Self::stop) does and keeps it under `name`. Answered when it
    /// is kept; the region ends when it is committed.
    ///
    /// # Errors
    /// As [`savepoint`](Self::savepoint).
    pub async fn stop_with_savepoint(&self, name: impl Into<String>) -> Result<(), CommandRefused> {
        let (name, stop) = (name.into(), true);
        self.command(CommandKind::Savepoint { name, stop }).await
    }

    /// Sets the region back to a savepoint, also when it has failed. Cuts after it are given up;
    /// sequence numbers go on growing. A source that finds by itself that it has moved on since then
    /// fails the region.
    ///
    /// # Errors
    /// As [`cut`](Self::cut), and when there is no such savepoint, it can't be read, the sinks
    /// have committed later cuts that they can't take back, or sources have acknowledged rows of
    /// later cuts. The region goes on as it was.
    pub async fn restore_savepoint(&self, name: impl Into<String>) -> Result<(), CommandRefused> {
        self.command(CommandKind::Restore { name: name.into() })
            .await
    }

    /// Forgets a savepoint; what only it needs is removed. One that is not there is no error.
    ///
    /// # Errors
    /// When the store fails, or the region is coordinated elsewhere.
    pub async fn forget_savepoint(&self, name: impl Into<String>) -> Result<(), CommandRefused> {
        self.command(CommandKind::ForgetSavepoint { name: name.into() })
            .await
    }

    async fn command(&self, kind: CommandKind) -> Result<(), CommandRefused> {
        let (answer, answered) = oneshot::channel();
        if self.address.send(Command { kind, answer }).await.is_err() {
            return Err(CommandRefused::NotLeading);
        }
        answered.await.unwrap_or(Err(CommandRefused::NotLeading))
    }

    /// Begins the term of a leadership that has no token: `term` must be above every
    /// term that this store has seen ([`highest_fence`](lockkeeper_fencing::guard::highest_fence)).
    pub async fn grant(&self, term: u64) {
        let _ = self.address.send(Lead(Mandate::Term(term))).await;
    }

    /// Begins the term of a token's leadership, whose number is the token's epoch, until the region was
    /// given to the coordination store of another [`Lineage`](lockkeeper_core::token::Lineage); then it
    /// is higher. A token of a lineage that the region was not given to ends the coordinator as
    /// [`Unusable`](CoordinatorEnd::Unusable).
    pub async fn grant_with(&self, token: FencingToken) {
        let _ = self.address.send(Lead(Mandate::Token(token))).await;
    }

    /// The leadership is over: from now on everybody is refused.
    pub async fn revoke(&self) {
        let _ = self.address.send(Revoke).await;
    }

    /// Makes [`ended`](Self::ended) wait for the end of the next term.
    #[cfg(feature = "remote")]
    pub(super) async fn forget_end(&self) {
        let _ = self.address.send(ForgetEnd).await;
    }

    /// Ends the coordinator; the region's operators stay as they are until their leases end.
    pub async fn halt(&self) {
        let _ = self.address.send(Halt).await;
    }
}
