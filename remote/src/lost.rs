//! One-way messages that did not leave, or came for nobody: to the service's dead letters.

use std::sync::{Arc, OnceLock};

use lockkeeper_core::dead_letter::DeadLetters;
use lockkeeper_core::{EndpointId, RpcError};

use crate::quiet_log::QuietLog;

/// Where lost messages are told.
#[derive(Debug)]
pub(crate) struct Lost {
    log: Arc<QuietLog>,
    /// Set when the service has been built.
    letters: OnceLock<DeadLetters>,
}

impl Lost {
    pub(crate) fn new(log: Arc<QuietLog>) -> Self {
        Self {
            log,
            letters: OnceLock::new(),
        }
    }

    pub(crate) fn tell_to(&self, letters: &DeadLetters) {
        // A transport has one service.
        let _ = self.letters.set(letters.clone());
    }

    /// A message of this process that did not leave.
    pub(crate) fn unsent(&self, endpoint: &EndpointId, method: &'static str, reason: RpcError) {
        match self.letters.get() {
            Some(letters) => letters.lost(endpoint, method, reason),
            None => self
                .log
                .warn(format_args!("{method} to {endpoint} was lost: {reason}")),
        }
    }

    /// A message of which is not known what it was.
    pub(crate) fn unnamed(&self, peer: &dyn std::fmt::Display, why: &dyn std::fmt::Display) {
        self.log.warn(format_args!(
            "a one-way message from or to {peer} was lost: {why}"
        ));
    }
}
