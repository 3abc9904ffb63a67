//! One-way messages that nobody handled, and calls that were refused: counted by reason, and shown
//! to a sink.

use std::{fmt, sync::Arc};

use dashmap::DashMap;

use crate::{
    address::EndpointId,
    error::{RpcError, RpcErrorKind},
    status::{StatusSnapshot, StatusSource},
    transport::Caller,
};

/// A one-way message that was not handled. Its payload is gone; who must keep it asks with `send`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The endpoint that it was for.
    pub endpoint: EndpointId,
    /// The message type's name.
    pub method: &'static str,
    /// Who sent it.
    pub caller: Caller,
    /// Why it was not handled.
    pub reason: RpcError,
}

/// Sees every dead letter of a service, on whatever thread it died: it must not block.
pub trait DeadLetterSink: Send + Sync + fmt::Debug + 'static {
    /// Takes one dead letter.
    fn dead_letter(&self, letter: &DeadLetter);
}

/// The counters of a service: dead letters, and refused calls, each by reason.
#[derive(Clone, Debug, Default)]
pub struct DeadLetters {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sink: Option<Arc<dyn DeadLetterSink>>,
    letters: DashMap<RpcErrorKind, u64>,
    refused: DashMap<RpcErrorKind, u64>,
}

impl DeadLetters {
    pub(crate) fn new(sink: Option<Arc<dyn DeadLetterSink>>) -> Self {
        Self {
            inner: Arc::new(Inner {
                sink,
                ..Inner::default()
            }),
        }
    }

    /// Dead letters with this reason so far.
    #[must_use]
    pub fn count(&self, reason: RpcErrorKind) -> u64 {
        self.inner.letters.get(&reason).map_or(0, |count| *count)
    }

    /// All dead letters so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.inner.letters.iter().map(|entry| *entry.value()).sum()
    }

    /// Calls that were answered with this kind before or instead of a reply.
    #[must_use]
    pub fn refused(&self, reason: RpcErrorKind) -> u64 {
        self.inner.refused.get(&reason).map_or(0, |count| *count)
    }

    /// For transports: a one-way message of this process that was taken, and did not leave.
    pub fn lost(&self, endpoint: &EndpointId, method: &'static str, reason: RpcError) {
        self.letter(&DeadLetter {
            endpoint: endpoint.clone(),
            method,
            caller: Caller::Local,
            reason,
        });
    }

    pub(crate) fn letter(&self, letter: &DeadLetter) {
        *self.inner.letters.entry(letter.reason.kind()).or_default() += 1;
        tracing::debug!(
            endpoint = %letter.endpoint, method = letter.method, caller = %letter.caller,
            reason = %letter.reason, "dead letter"
        );
        metrics::counter!("lockkeeper_rpc_dead_letters_total", "reason" => letter.reason.kind().to_string())
            .increment(1);
        if let Some(sink) = &self.inner.sink {
            sink.dead_letter(letter);
        }
    }

    pub(crate) fn refusal(&self, reason: RpcErrorKind) {
        *self.inner.refused.entry(reason).or_default() += 1;
        metrics::counter!("lockkeeper_rpc_refused_total", "reason" => reason.to_string())
            .increment(1);
    }
}

impl StatusSource for DeadLetters {
    fn name(&self) -> String {
        "dead letters".into()
    }

    fn snapshot(&self) -> StatusSnapshot {
        let letters = self
            .inner
            .letters
            .iter()
            .map(|e| (format!("lost: {}", e.key()), *e.value()));
        let refused = self
            .inner
            .refused
            .iter()
            .map(|e| (format!("refused: {}", e.key()), *e.value()));
        let mut counts = letters.chain(refused).collect::<Vec<_>>();
        counts.sort();
        counts
            .into_iter()
            .fold(StatusSnapshot::default(), |all, (name, count)| {
                all.with(name, count)
            })
    }
}
