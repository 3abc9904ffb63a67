//! One session that this side has at the peer: what it may send, and whether it is over.

use std::sync::{Mutex, OnceLock, PoisonError};

use lockkeeper_core::{EndpointId, GatewayDescriptor, RpcError};
use tokio_util::sync::CancellationToken;

use super::ask_room::AskRoom;
use crate::wire::Grant;

/// Shared by the session's users and the connection's task.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) endpoint: EndpointId,
    pub(crate) gateway: &'static GatewayDescriptor,
    credit: Mutex<Balance>,
    /// For asks, each until it is answered.
    pub(crate) asks: AskRoom,
    end: OnceLock<RpcError>,
    ended: CancellationToken,
}

/// Messages and bytes that may still be sent one way.
#[derive(Debug, Default)]
struct Balance {
    messages: i64,
    bytes: i64,
}

impl Asked {
    pub(crate) fn new(endpoint: EndpointId, gateway: &'static GatewayDescriptor) -> Self {
        Self {
            endpoint,
            gateway,
            credit: Mutex::default(),
            asks: AskRoom::default(),
            end: OnceLock::new(),
            ended: CancellationToken::new(),
        }
    }

    fn credit(&self) -> std::sync::MutexGuard<'_, Balance> {
        // Two additions: a panic leaves no half of them.
        self.credit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session begins, with so much for each way of sending.
    pub(super) fn open(&self, grant: Grant) {
        self.grant(grant);
        self.asks.open(grant.messages);
    }

    pub(super) fn grant(&self, grant: Grant) {
        let mut credit = self.credit();
        credit.messages = credit.messages.saturating_add(i64::from(grant.messages));
        credit.bytes = credit.bytes.saturating_add(i64::from(grant.bytes));
    }

    /// Takes the credit for a one-way message; false if there is none.
    pub(crate) fn spend(&self, size: usize) -> bool {
        let mut credit = self.credit();
        if credit.messages <= 0 || credit.bytes <= 0 {
            return false;
        }
        credit.messages -= 1;
        credit.bytes -= i64::try_from(size).unwrap_or(i64::MAX);
        true
    }

    /// Messages and bytes that may still be sent one way; below zero if the last message was larger
    /// than what was left.
    pub(crate) fn credit_left(&self) -> (i64, i64) {
        let credit = self.credit();
        (credit.messages, credit.bytes)
    }

    /// Gives back the credit of a message that was not sent.
    pub(crate) fn unspend(&self, size: usize) {
        let mut credit = self.credit();
        credit.messages += 1;
        credit.bytes += i64::try_from(size).unwrap_or(i64::MAX);
    }

    /// The name of a method that is known by its place in the handshake.
    pub(crate) fn method_name(&self, place: u16) -> &'static str {
        let mut methods = self.gateway.remote_methods();
        methods
            .nth(usize::from(place))
            .map_or("?", |(_, name)| name)
    }

    pub(super) fn finish(&self, end: RpcError) {
        // The first word stands.
        let _ = self.end.set(end);
        self.ended.cancel();
    }

    /// Why it is over, once it is.
    pub(crate) fn end(&self) -> Option<&RpcError> {
        self.end.get()
    }

    /// Resolves when it is over.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}
