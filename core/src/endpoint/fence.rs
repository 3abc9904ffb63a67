//! The token of an endpoint, and the count of calls that began under it.
//!
//! A call is counted and its token checked in one step under one lock, so that after a swap of the
//! token no call begins under the old one, and the old one's calls are known to be over when their
//! count is zero.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    error::{FencingViolation, Outcome, RpcError, RpcErrorKind},
    token::{FencingToken, TokenRelation},
};

#[derive(Debug)]
pub(crate) struct Fence {
    state: Mutex<State>,
    /// Calls of earlier generations get no reply any more. Beside the lock: a call that looks while
    /// it changes may find either, as one that looked just before.
    muted_before: AtomicU64,
    quiet: Notify,
}

#[derive(Debug)]
struct State {
    token: Option<FencingToken>,
    generation: u64,
    /// Calls under the present token.
    running: usize,
    /// Calls under earlier tokens.
    outliving: usize,
    revoked: CancellationToken,
}

/// What a call must show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenCheck {
    /// The gateway is not fenced.
    None,
    /// The caller's token, which must be the endpoint's. Shared: each call carries it.
    Token(Arc<FencingToken>),
}

impl TokenCheck {
    pub(crate) fn of(token: FencingToken) -> Self {
        Self::Token(Arc::new(token))
    }

    pub(crate) fn token(&self) -> Option<FencingToken> {
        match self {
            Self::None => None,
            Self::Token(token) => Some(**token),
        }
    }
}

/// A call that has begun; hand it back with [`Fence::end`].
#[derive(Debug)]
pub(crate) struct Begun {
    /// `None`: it runs under no token, and is not counted.
    generation: Option<u64>,
}

impl Fence {
    pub(crate) fn new(token: Option<FencingToken>) -> Self {
        Self {
            state: Mutex::new(State {
                token,
                generation: 0,
                running: 0,
                outliving: 0,
                revoked: CancellationToken::new(),
            }),
            muted_before: AtomicU64::new(0),
            quiet: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.lock().token
    }

    /// Checks without beginning anything: for handshakes.
    pub(crate) fn check(&self, check: &TokenCheck) -> Result<(), RpcError> {
        compare(self.lock().token.as_ref(), check)
    }

    /// Checks a call's token and counts the call.
    pub(crate) fn begin(&self, check: &TokenCheck) -> Result<Begun, RpcError> {
        if matches!(check, TokenCheck::None) {
            return Ok(Begun { generation: None });
        }
        let mut state = self.lock();
        compare(state.token.as_ref(), check)?;
        state.running += 1;
        Ok(Begun {
            generation: Some(state.generation),
        })
    }

    /// Cancelled once the token is revoked under which the call began.
    pub(crate) fn revoked(&self, begun: &Begun) -> Option<CancellationToken> {
        let generation = begun.generation?;
        let state = self.lock();
        if generation == state.generation {
            return Some(state.revoked.clone());
        }
        let revoked = CancellationToken::new();
        revoked.cancel();
        Some(revoked)
    }

    pub(crate) fn end(&self, begun: &Begun) {
        let Some(generation) = begun.generation else {
            return;
        };
        let mut state = self.lock();
        if generation == state.generation {
            state.running = state.running.saturating_sub(1);
        } else {
            state.outliving = state.outliving.saturating_sub(1);
            if state.outliving == 0 {
                self.quiet.notify_waiters();
            }
        }
    }

    /// Puts another token in place. Calls that run count as outliving and are told to give up.
    pub(crate) fn swap(&self, token: Option<FencingToken>) {
        let revoked = {
            let mut state = self.lock();
            if state.token == token {
                return;
            }
            state.token = token;
            state.generation += 1;
            state.outliving += std::mem::take(&mut state.running);
            std::mem::take(&mut state.revoked)
        };
        revoked.cancel();
    }

    /// From now on no call of an earlier token gets a reply.
    pub(crate) fn mute(&self) {
        let state = self.lock();
        self.muted_before.store(state.generation, Ordering::Release);
    }

    /// Why a call that has run may not reply any more.
    pub(crate) fn refuse_reply(&self, begun: &Begun) -> Result<(), RpcError> {
        let Some(generation) = begun.generation else {
            return Ok(());
        };
        if generation >= self.muted_before.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(RpcError::new(
            RpcErrorKind::Fenced(FencingViolation::NotLeader),
            "the token was revoked while the call ran",
        )
        .with_outcome(Outcome::Unknown))
    }

    /// Resolves when no call of an earlier token runs.
    pub(crate) async fn quiet(&self) {
        loop {
            let changed = self.quiet.notified();
            if self.lock().outliving == 0 {
                return;
            }
            changed.await;
        }
    }
}

fn compare(own: Option<&FencingToken>, check: &TokenCheck) -> Result<(), RpcError> {
    match (own, check) {
        (_, TokenCheck::None) => Ok(()),
        (Some(own), TokenCheck::Token(theirs)) if own == &**theirs => Ok(()),
        (_, TokenCheck::Token(theirs)) => refusal(own, theirs),
    }
}

#[cold]
fn refusal(own: Option<&FencingToken>, theirs: &FencingToken) -> Result<(), RpcError> {
    let Some(own) = own else {
        return Err(RpcError::new(
            RpcErrorKind::Fenced(FencingViolation::NotLeader),
            format!("the endpoint has no token: it does not lead; the caller has {theirs}"),
        ));
    };
    let violation = match own.relation(theirs) {
        TokenRelation::Same => return Ok(()),
        TokenRelation::OtherIsStale => FencingViolation::CallerIsStale,
        TokenRelation::OwnIsStale => FencingViolation::EndpointIsStale,
        TokenRelation::OtherSession => FencingViolation::Mismatch,
        TokenRelation::OtherLineage => FencingViolation::OtherLineage,
    };
    Err(RpcError::new(
        RpcErrorKind::Fenced(violation),
        format!("the endpoint has {own}, the caller {theirs}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(epoch: u64) -> FencingToken {
        FencingToken::new(1_u64, epoch, uuid::Uuid::from_u128(7))
    }

    #[test]
    fn a_call_with_another_token_does_not_begin() {
        let fence = Fence::new(Some(token(2)));
        let kind = |epoch| {
            fence
                .begin(&TokenCheck::of(token(epoch)))
                .map_err(|e| e.kind())
                .err()
        };
        assert_eq!(kind(2), None);
        assert_eq!(
            kind(1),
            Some(RpcErrorKind::Fenced(FencingViolation::CallerIsStale))
        );
        assert_eq!(
            kind(3),
            Some(RpcErrorKind::Fenced(FencingViolation::EndpointIsStale))
        );
    }

    #[tokio::test]
    async fn quiet_waits_for_calls_of_the_old_token_only() {
        let fence = Fence::new(Some(token(1)));
        let old = fence.begin(&TokenCheck::of(token(1))).unwrap();
        let revoked = fence.revoked(&old).unwrap();
        assert!(!revoked.is_cancelled());
        fence.swap(Some(token(2)));
        assert!(revoked.is_cancelled() && fence.revoked(&old).unwrap().is_cancelled());
        let new = fence.begin(&TokenCheck::of(token(2))).unwrap();
        let mut quiet = tokio_test_pending(fence.quiet());
        assert!(quiet.poll().is_none());
        fence.end(&old);
        assert!(quiet.poll().is_some());
        assert!(!fence.revoked(&new).unwrap().is_cancelled());
    }

    /// Polls a future by hand.
    struct ByHand<F>(std::pin::Pin<Box<F>>);

    fn tokio_test_pending<F: Future>(future: F) -> ByHand<F> {
        ByHand(Box::pin(future))
    }

    impl<F: Future> ByHand<F> {
        fn poll(&mut self) -> Option<F::Output> {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            match self.0.as_mut().poll(&mut context) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            }
        }
    }
}
