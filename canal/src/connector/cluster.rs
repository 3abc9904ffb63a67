//! The connector that is pulled and repairs itself.

use std::time::Duration;

use super::backoff::Backoff;
use super::simple::SimpleCanalConnector;
use crate::error::CanalError;
use crate::filter::Filter;
use crate::identity::ClientIdentity;
use crate::message::{BatchId, Message};
use crate::role::ClientRole;

/// A client of one destination that is pulled, and that connects and subscribes again by itself:
/// to the server that the access strategy names, with growing waits.
///
/// After a repair the batches that were handed out before are void: they come again, in a new
/// [epoch](BatchId::epoch), and [`ack`](Self::ack) says [`CanalError::StaleBatch`] for them. So
/// a loop that fetches, works and acknowledges goes on after every failure if it passes over that
/// error. [`CanalConnectorBuilder::retry`](crate::CanalConnectorBuilder::retry) says how long one
/// call tries.
///
/// # What differs from Java's
/// - An acknowledgement or a rollback is never repeated on another connection. Java does that, and
///   the server's refusal then breaks the new connection too.
/// - With a running monitor no call blocks until it is this client's turn: they say
///   [`CanalError::Standby`]; [`wait_active`](Self::wait_active) waits, with a limit.
/// - The waits grow from 100 ms to 5 s instead of being 5 s.
/// - What stays wrong, as a wrong password, is told at once and not tried again.
#[derive(Debug)]
pub struct ClusterCanalConnector {
    simple: SimpleCanalConnector,
    retry: Backoff,
    /// What was subscribed to; applied on every new connection.
    filter: Option<Filter>,
}

impl ClusterCanalConnector {
    pub(super) fn new(simple: SimpleCanalConnector, retry: Backoff) -> Self {
        Self {
            simple,
            retry,
            filter: None,
        }
    }

    /// Destination and client id.
    pub fn identity(&self) -> &ClientIdentity {
        self.simple.identity()
    }

    /// The server of the connection.
    pub fn address(&self) -> Option<&str> {
        self.simple.address()
    }

    /// Whether this client is the active one at this moment.
    pub fn role(&self) -> ClientRole {
        self.simple.role()
    }

    /// Connects, and subscribes if there was a subscription; says at once if another client is
    /// active.
    ///
    /// # Errors
    /// Those of [`SimpleCanalConnector::connect`], the last one after all tries.
    pub async fn connect(&mut self) -> Result<ClientRole, CanalError> {
        match self.repair().await {
            Ok(()) => Ok(ClientRole::Active),
            Err(CanalError::Standby { .. }) => Ok(ClientRole::Standby),
            Err(error) => Err(error),
        }
    }

    /// Waits up to `limit` for this client's turn, then connects and subscribes.
    ///
    /// # Errors
    /// [`CanalError::Standby`] when the limit is over; else those of [`connect`](Self::connect).
    pub async fn wait_active(&mut self, limit: Duration) -> Result<(), CanalError> {
        match tokio::time::timeout(limit, self.simple.wait_role()).await {
            Ok(waited) => waited?,
            // The next line says who is active.
            Err(_) => tracing::debug!(?limit, "another client is still active"),
        }
        self.repair().await
    }

    /// Closes the connection, and gives up the role if there is one.
    pub async fn disconnect(&mut self) {
        self.simple.disconnect().await;
    }

    /// As [`SimpleCanalConnector::check_valid`].
    pub fn check_valid(&mut self) -> bool {
        self.simple.check_valid()
    }

    /// Subscribes. The filter is kept and applied again on every new connection; while this client
    /// is standby it is only kept.
    ///
    /// # Errors
    /// Those of [`SimpleCanalConnector::subscribe`], the last one after all tries.
    pub async fn subscribe(&mut self, filter: &Filter) -> Result<(), CanalError> {
        self.filter = Some(filter.clone());
        if self.simple.check_valid() {
            match self.simple.subscribe(filter).await {
                Ok(()) => return Ok(()),
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => tracing::debug!(%error, "subscribing on a new connection"),
            }
        }
        match self.repair().await {
            Err(CanalError::Standby { .. }) => Ok(()),
            other => other,
        }
    }

    /// Gives up the subscription; see [`SimpleCanalConnector::unsubscribe`] for what goes with it.
    ///
    /// # Errors
    /// Those of `SimpleCanalConnector::unsubscribe`, at once: it is not repeated.
    pub async fn unsubscribe(&mut self) -> Result<(), CanalError> {
        self.filter = None;
        self.simple.unsubscribe().await
    }

    /// The next batch, acknowledged at once: **what the caller does not get done is lost**.
    ///
    /// # Errors
    /// Those of [`get_without_ack`](Self::get_without_ack) and [`ack`](Self::ack).
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

    /// The next batch, or `None` if there is none, as
    /// [`SimpleCanalConnector::get_without_ack`]. A broken connection is repaired first.
    ///
    /// # Errors
    /// [`CanalError::Standby`] while another client is active; [`CanalError::NotSubscribed`];
    /// [`CanalError::InvalidArgument`]; what is left after all tries.
    pub async fn get_without_ack(
        &mut self,
        fetch_size: u32,
        timeout: Option<Duration>,
    ) -> Result<Option<Message>, CanalError> {
        self.simple.check_get(fetch_size, timeout)?;
        let mut retry = self.retry.clone();
        loop {
            let error = match self.attempt_to_get(fetch_size, timeout).await {
                Ok(message) => return Ok(message),
                Err(error) => error,
            };
            self.wait_after(error, &mut retry).await?;
        }
    }

    async fn attempt_to_get(
        &mut self,
        fetch_size: u32,
        timeout: Option<Duration>,
    ) -> Result<Option<Message>, CanalError> {
        if !self.simple.check_valid() {
            self.open().await?;
        }
        self.simple.get_without_ack(fetch_size, timeout).await
    }

    /// Acknowledges all batches up to `batch`.
    ///
    /// # Errors
    /// [`CanalError::StaleBatch`] for a batch of a former connection, which is not sent;
    /// [`CanalError::Standby`]; else those of [`SimpleCanalConnector::ack`]. Never repeated: after
    /// any error the batch comes again.
    pub async fn ack(&mut self, batch: BatchId) -> Result<(), CanalError> {
        self.simple.check_epoch(batch)?;
        self.simple.ack(batch).await
    }

    /// Gives back all batches that are not acknowledged.
    ///
    /// # Errors
    /// Those of [`SimpleCanalConnector::rollback`]. A broken connection has given them back
    /// already.
    pub async fn rollback(&mut self) -> Result<(), CanalError> {
        self.simple.rollback().await
    }

    /// Gives back `batch` and all later ones.
    ///
    /// # Errors
    /// Those of [`SimpleCanalConnector::rollback_to`].
    pub async fn rollback_to(&mut self, batch: BatchId) -> Result<(), CanalError> {
        self.simple.check_epoch(batch)?;
        self.simple.rollback_to(batch).await
    }

    /// Waits until the server has accepted what was sent.
    ///
    /// # Errors
    /// Those of [`SimpleCanalConnector::confirm_acks`].
    pub async fn confirm_acks(&mut self) -> Result<(), CanalError> {
        self.simple.confirm_acks().await
    }

    /// Batches that wait for an acknowledgement.
    pub fn outstanding_batches(&self) -> usize {
        self.simple.outstanding_batches()
    }

    /// The epoch of the connection, or of the last one.
    pub fn epoch(&self) -> u64 {
        self.simple.epoch()
    }

    /// Connected and, if there is a filter, subscribed; as often as `retry` says.
    async fn repair(&mut self) -> Result<(), CanalError> {
        let mut retry = self.retry.clone();
        loop {
            match self.open().await {
                Ok(()) => return Ok(()),
                Err(error) => self.wait_after(error, &mut retry).await?,
            }
        }
    }

    async fn open(&mut self) -> Result<(), CanalError> {
        if self.simple.connect().await? == ClientRole::Standby {
            // Says who is active.
            self.simple.wait_active(Duration::ZERO).await?;
        }
        if let Some(filter) = &self.filter
            && !self.simple.check_valid()
        {
            // The server may have closed the connection since.
            self.simple.connect().await?;
            self.simple.subscribe(filter).await?;
        }
        Ok(())
    }

    /// Waits before the next try, or gives the error back if there is none.
    async fn wait_after(
        &mut self,
        error: CanalError,
        retry: &mut Backoff,
    ) -> Result<(), CanalError> {
        let now = matches!(
            error,
            CanalError::Standby { .. } | CanalError::NotSubscribed { .. }
        );
        if now || !error.is_retryable() {
            return Err(error);
        }
        self.simple.close_connection().await;
        let Some(wait) = retry.failed(fastrand::f64()) else {
            return Err(error);
        };
        tracing::debug!(%error, ?wait, "the connection to the Canal server is repaired");
        tokio::time::sleep(wait).await;
        Ok(())
    }
}
