//! The connector that is pulled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::connection::Connection;
use crate::access::CanalNodeAccessStrategy;
use crate::error::{CanalError, SessionPhase};
use crate::filter::Filter;
use crate::identity::ClientIdentity;
use crate::message::{BatchId, Message};
use crate::role::{Activity, ClientRole, Report, RoleHandle};
use crate::session::{Request, SessionConfig};

/// A client of one destination that is pulled: connect, subscribe, then
/// [`get_without_ack`](Self::get_without_ack) and [`ack`](Self::ack) in turn.
///
/// # Errors and the connection
/// When an error [ends the connection](CanalError::ends_connection), every call but
/// [`connect`](Self::connect) says [`CanalError::NotConnected`] from then on. After `connect` and
/// [`subscribe`](Self::subscribe) everything that was not acknowledged comes again. Nothing is
/// repaired behind the caller's back: that would hide that batches came twice.
///
/// # Dropped futures
/// `get_without_ack`, `ack`, `rollback` and `confirm_acks` may be dropped at any time, for example
/// by `select!`: what was fetched comes with the next call. Dropping `connect`, `subscribe` or
/// `unsubscribe` closes the connection.
///
/// # What differs from Java's
/// - `ack(id)` acknowledges all batches up to `id`.
/// - [`rollback_to`](Self::rollback_to) gives back `id` and every later batch; on the wire there
///   is only "roll back all", because a server loses rows when a single batch is rolled back.
/// - `subscribe` always rolls back, and waits until the server has done it.
/// - A batch that was acknowledged or rolled back, or that another connection brought, is refused
///   here and not sent.
/// - With a running monitor no call waits without limit for this client's turn:
///   [`connect`](Self::connect) says [`ClientRole::Standby`] at once,
///   [`wait_active`](Self::wait_active) waits, everything else says [`CanalError::Standby`].
/// - [`check_valid`](Self::check_valid) looks at the connection, not only at the role.
#[derive(Debug)]
pub struct SimpleCanalConnector {
    config: SessionConfig,
    frame_limit: usize,
    strategy: Box<dyn CanalNodeAccessStrategy>,
    connection: Option<Connection>,
    /// The last epoch of the connections before.
    epoch: u64,
    address: Option<String>,
    role: Option<RoleHandle>,
    /// The turn in which the connection was opened.
    turn: Option<Activity>,
}

impl SimpleCanalConnector {
    pub(super) fn new(
        config: SessionConfig,
        frame_limit: usize,
        strategy: Box<dyn CanalNodeAccessStrategy>,
        role: Option<RoleHandle>,
    ) -> Self {
        Self {
            role,
            turn: None,
            config,
            frame_limit,
            strategy,
            connection: None,
            epoch: first_epoch(),
            address: None,
        }
    }

    /// After how much silence of either side the server closes the connection.
    pub(super) fn silence_limit(&self) -> Duration {
        self.config
            .net_read_timeout
            .min(self.config.net_write_timeout)
    }

    /// Destination and client id.
    pub fn identity(&self) -> &ClientIdentity {
        &self.config.identity
    }

    /// The server of the connection.
    pub fn address(&self) -> Option<&str> {
        self.connection.as_ref().and(self.address.as_deref())
    }

    /// Dials and authenticates; does nothing while connected. Each node of the access strategy is
    /// tried once at most. With a running monitor this client becomes a candidate; if another one
    /// is active, the answer is [`ClientRole::Standby`] and nothing is dialled.
    ///
    /// # Errors
    /// [`CanalError::AuthFailed`] at once; else the last node's [`CanalError::Unreachable`],
    /// [`CanalError::Timeout`], [`CanalError::Closed`] or [`CanalError::Protocol`].
    /// [`CanalError::ZooKeeper`] when it is not known within `connect_timeout` who is active.
    pub async fn connect(&mut self) -> Result<ClientRole, CanalError> {
        if let Some(role) = &mut self.role {
            role.report(Report::Join);
            role.decided(self.config.connect_timeout).await?;
        }
        match self.check_role() {
            Ok(()) => self.dial().await,
            Err(CanalError::Standby { .. }) => Ok(ClientRole::Standby),
            Err(error) => Err(error),
        }
    }

    /// Waits up to `limit` for this client's turn, and connects. Without a running monitor it is
    /// always its turn.
    ///
    /// # Errors
    /// [`CanalError::Standby`] when the limit is over; else those of [`connect`](Self::connect).
    pub async fn wait_active(&mut self, limit: Duration) -> Result<(), CanalError> {
        if let Some(role) = &mut self.role {
            role.report(Report::Join);
            // Over the limit, the next line says who is active.
            if let Ok(waited) = tokio::time::timeout(limit, role.active()).await {
                waited?;
            }
        }
        self.check_role()?;
        self.dial().await.map(|_| ())
    }

    /// Whether this client is the active one at this moment. Without a running monitor it is.
    pub fn role(&self) -> ClientRole {
        let destination = self.config.identity.destination();
        match self.role.as_ref().map(|role| role.check(destination)) {
            Some(Err(_)) => ClientRole::Standby,
            Some(Ok(_)) | None => ClientRole::Active,
        }
    }

    async fn dial(&mut self) -> Result<ClientRole, CanalError> {
        if self.connection.is_some() {
            return Ok(ClientRole::Active);
        }
        let turn = self.present_turn()?;
        let result = self.dial_nodes().await;
        if let Some(role) = &self.role {
            match &result {
                Ok(()) => {
                    let local = self.connection.as_ref().and_then(Connection::local_address);
                    if let Some(local) = local {
                        role.report(Report::Connected(local));
                    }
                }
                Err(_) => role.report(Report::ConnectFailed),
            }
        }
        result?;
        self.turn = turn;
        self.check_role()?;
        Ok(ClientRole::Active)
    }

    async fn dial_nodes(&mut self) -> Result<(), CanalError> {
        let mut last_error = None;
        for _ in 0..self.strategy.node_count().max(1) {
            let address = self.strategy.next_node()?;
            let config = self.config.clone();
            match Connection::open(&address, config, self.frame_limit, self.epoch).await {
                Ok(connection) => {
                    self.connection = Some(connection);
                    self.address = Some(address);
                    return Ok(());
                }
                Err(error @ CanalError::AuthFailed { .. }) => return Err(error),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.unwrap_or(CanalError::NotConnected))
    }

    fn present_turn(&self) -> Result<Option<Activity>, CanalError> {
        let destination = self.config.identity.destination();
        self.role
            .as_ref()
            .map(|role| role.check(destination))
            .transpose()
    }

    /// Looks at the clock: whether this is still the turn in which the connection was opened. If
    /// not, the connection is closed without another word.
    fn check_role(&mut self) -> Result<(), CanalError> {
        let turn = self.present_turn();
        let same = match (&turn, &self.turn) {
            (Ok(Some(now)), Some(then)) => now.is(then),
            (Ok(Some(_)), None) => self.connection.is_none(),
            (Ok(None), _) => true,
            (Err(_), _) => false,
        };
        if !same {
            self.take();
            self.turn = None;
        }
        match turn {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Closes the connection, and gives up the role if there is one, so that a standby takes over
    /// at once. What is not acknowledged comes again after the next subscription.
    /// Acknowledgements that were sent may still fail unseen: see
    /// [`confirm_acks`](Self::confirm_acks).
    pub async fn disconnect(&mut self) {
        self.close_connection().await;
        if let Some(role) = &self.role {
            role.report(Report::Resign);
        }
    }

    /// Closes the connection and keeps the role.
    pub(super) async fn close_connection(&mut self) {
        if let Some(connection) = self.take() {
            connection.close().await;
        }
    }

    /// Waits without limit for this client's turn.
    pub(super) async fn wait_role(&mut self) -> Result<(), CanalError> {
        match &mut self.role {
            Some(role) => {
                role.report(Report::Join);
                role.active().await
            }
            None => Ok(()),
        }
    }

    /// Whether `batch` is of this epoch, asked without a connection.
    pub(super) fn check_epoch(&self, batch: BatchId) -> Result<(), CanalError> {
        let current = self.epoch();
        match batch.epoch() == current {
            true => Ok(()),
            false => Err(CanalError::StaleBatch { batch, current }),
        }
    }

    /// The fetch size and time-out of a GET, checked without a connection.
    pub(super) fn check_get(
        &self,
        fetch_size: u32,
        timeout: Option<Duration>,
    ) -> Result<(), CanalError> {
        self.config.check_get(fetch_size, timeout).map(|_| ())
    }

    /// Asks for the next batch; the next GET waits for it.
    pub(super) async fn ask(&mut self, fetch_size: u32) -> Result<(), CanalError> {
        let result = self.open()?.ask(fetch_size).await;
        self.settle(result)
    }

    /// Whether there is a connection with a subscription, and the server has not closed it or
    /// sent an error, as far as can be seen without asking it. False while this client is standby.
    pub fn check_valid(&mut self) -> bool {
        if self.check_role().is_err() {
            return false;
        }
        let Some(connection) = &mut self.connection else {
            return false;
        };
        if connection.check().is_err() {
            self.take();
            return false;
        }
        self.connection
            .as_ref()
            .is_some_and(|open| open.session().phase() == SessionPhase::Streaming)
    }

    /// Subscribes, or subscribes again with another filter, and gives back everything that is not
    /// acknowledged. The first subscription of a client id begins with the oldest entry that the
    /// server holds.
    ///
    /// # Errors
    /// [`CanalError::NotRunningHere`] when the server does not run the destination;
    /// [`CanalError::NotConnected`]; [`CanalError::Server`]; what breaks a connection.
    pub async fn subscribe(&mut self, filter: &Filter) -> Result<(), CanalError> {
        self.check_role()?;
        let mut connection = self.take().ok_or(CanalError::NotConnected)?;
        let result = connection.subscribe(filter.wire()).await;
        self.put_back(connection, result)
    }

    /// Gives up the subscription. **With ZooKeeper the server also deletes this client's
    /// position**: the next subscription begins anew.
    ///
    /// # Errors
    /// [`CanalError::NotConnected`]; [`CanalError::Server`]; what breaks a connection.
    pub async fn unsubscribe(&mut self) -> Result<(), CanalError> {
        self.check_role()?;
        let mut connection = self.take().ok_or(CanalError::NotConnected)?;
        let result = connection.unsubscribe().await;
        self.put_back(connection, result)
    }

    /// The next batch, acknowledged at once: **what the caller does not get done is lost**. Use
    /// [`get_without_ack`](Self::get_without_ack) where that matters.
    ///
    /// # Errors
    /// Those of `get_without_ack` and [`ack`](Self::ack).
    pub async fn get(
        &mut self,
        fetch_size: u32,
        timeout: Option<Duration>,
    ) -> Result<Option<Message>, CanalError> {
        let message = self.get_without_ack(fetch_size, timeout).await?;
        if let Some(message) = &message {
            self.ack(message.id()).await?;
        }
        Ok(message)
    }

    /// The next batch, or `None` if there is none. It waits at the server for [`ack`](Self::ack)
    /// or [`rollback`](Self::rollback); meanwhile later batches can be fetched. A server stops
    /// delivering when its buffer is full of what is not acknowledged (by default 16,384 entries
    /// or 16 MiB).
    ///
    /// `fetch_size` is 1 to 2,097,151: KiB of entries in the server's default mode (the batch ends
    /// with the entry that exceeds it), entries in its ITEMSIZE mode. Without `timeout` the answer
    /// comes at once. With it the server waits **until the batch is full**, not until something is
    /// there, and holds up other clients meanwhile: prefer `None` and a short pause.
    ///
    /// # Errors
    /// [`CanalError::NotSubscribed`]; [`CanalError::InvalidArgument`] for a fetch size out of
    /// range, a time-out of zero or one not below `request_timeout`; [`CanalError::EpochEnded`]
    /// when batches were stolen or rolled back by somebody else; [`CanalError::UnknownBatch`] or
    /// [`CanalError::NotTheFirst`] when the server has refused an acknowledgement sent before;
    /// [`CanalError::FrameTooLarge`]; what breaks a connection.
    pub async fn get_without_ack(
        &mut self,
        fetch_size: u32,
        timeout: Option<Duration>,
    ) -> Result<Option<Message>, CanalError> {
        let result = match (self.role.clone(), self.turn.clone()) {
            (Some(mut role), Some(turn)) => tokio::select! {
                result = self.open()?.fetch(fetch_size, timeout) => result,
                () = role.ended(&turn) => Ok(None),
            },
            _ => self.open()?.fetch(fetch_size, timeout).await,
        };
        // Once more: what came after the end of the turn is not handed out.
        self.check_role()?;
        self.settle(result)
    }

    /// Acknowledges all batches up to `batch`, in order. The server does not answer: whether it
    /// has accepted is known with the next answer ([`get_without_ack`](Self::get_without_ack),
    /// [`confirm_acks`](Self::confirm_acks)).
    ///
    /// # Errors
    /// Sent nothing and harmed nothing: [`CanalError::StaleBatch`] for a batch of another epoch,
    /// [`CanalError::UnknownBatch`] for one that is not outstanding. Else what breaks a connection.
    pub async fn ack(&mut self, batch: BatchId) -> Result<(), CanalError> {
        self.silent(Request::Acknowledge(batch)).await
    }

    /// Gives back all batches that are not acknowledged: they come again, with new numbers.
    ///
    /// # Errors
    /// [`CanalError::NotSubscribed`]; what breaks a connection.
    pub async fn rollback(&mut self) -> Result<(), CanalError> {
        self.silent(Request::RollbackAll).await
    }

    /// Gives back `batch` and all later ones.
    ///
    /// # Errors
    /// [`CanalError::EarlierBatchesOutstanding`] when earlier ones are not acknowledged;
    /// [`CanalError::StaleBatch`], [`CanalError::UnknownBatch`] as in [`ack`](Self::ack); what
    /// breaks a connection.
    pub async fn rollback_to(&mut self, batch: BatchId) -> Result<(), CanalError> {
        self.silent(Request::RollbackTo(batch)).await
    }

    /// Waits until the server has accepted every acknowledgement and rollback that was sent. It is
    /// also a keep-alive: server and network are known to work when it returns.
    ///
    /// # Errors
    /// [`CanalError::UnknownBatch`], [`CanalError::NotTheFirst`] when the server refused one; what
    /// breaks a connection.
    pub async fn confirm_acks(&mut self) -> Result<(), CanalError> {
        let result = self.open()?.probe().await;
        self.settle(result)
    }

    /// Batches that were handed out and wait for an acknowledgement.
    pub fn outstanding_batches(&self) -> usize {
        self.connection
            .as_ref()
            .map_or(0, |open| open.session().ledger().unacknowledged())
    }

    /// Acknowledgements that were sent and that the server has not confirmed yet.
    pub fn unconfirmed_acks(&self) -> usize {
        self.connection
            .as_ref()
            .map_or(0, |open| open.session().ledger().unconfirmed())
    }

    /// The last batch whose acknowledgement the server has confirmed on this connection.
    pub fn last_confirmed(&self) -> Option<BatchId> {
        self.connection
            .as_ref()
            .and_then(|open| open.session().ledger().last_confirmed())
    }

    /// The epoch of the connection, or of the last one: batches of others are void.
    pub fn epoch(&self) -> u64 {
        self.connection
            .as_ref()
            .map_or(self.epoch, |open| open.session().ledger().epoch())
    }

    async fn silent(&mut self, request: Request) -> Result<(), CanalError> {
        let result = self.open()?.send_silent(request).await;
        self.settle(result)
    }

    fn open(&mut self) -> Result<&mut Connection, CanalError> {
        self.check_role()?;
        self.connection.as_mut().ok_or(CanalError::NotConnected)
    }

    /// Takes the connection away if its session is over.
    fn settle<T>(&mut self, result: Result<T, CanalError>) -> Result<T, CanalError> {
        if let Err(error) = &result
            && !self.refused_here(error)
        {
            self.take();
        }
        result
    }

    /// Whether an error left the session as it was: refused before anything was sent.
    fn refused_here(&self, error: &CanalError) -> bool {
        let open = self.connection.as_ref();
        let lives = open.is_some_and(|open| open.session().phase() != SessionPhase::Closed);
        let transport = matches!(
            error,
            CanalError::Closed { .. }
                | CanalError::Timeout { .. }
                | CanalError::FrameTooLarge { .. }
        );
        lives && !transport
    }

    fn put_back<T>(
        &mut self,
        connection: Connection,
        result: Result<T, CanalError>,
    ) -> Result<T, CanalError> {
        self.connection = Some(connection);
        self.settle(result)
    }

    fn take(&mut self) -> Option<Connection> {
        self.epoch = self.epoch();
        self.connection.take()
    }
}

/// The epoch below all of a new connector's. Each connector has a range of its own, so that no two
/// batches of a process have the same [`BatchId`], also when a connector replaces another and the
/// server's numbers begin again.
pub(crate) fn first_epoch() -> u64 {
    static CONNECTORS: AtomicU64 = AtomicU64::new(1);
    CONNECTORS.fetch_add(1, Ordering::Relaxed) << 32
}
