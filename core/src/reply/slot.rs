//! The meeting place of a call inside the process and its answer.
//!
//! A oneshot channel that also knows whether the endpoint has taken the call up: a caller that
//! gives up learns, without a race, whether the call will never run or may have run. That is the
//! difference between *refused* and *unknown outcome*.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::error::{RpcError, RpcErrorKind};

/// A fresh pair.
pub(crate) fn slot<R>() -> (Replier<R>, Waiter<R>) {
    let shared = Arc::new(Mutex::new(Shared {
        state: State::Queued,
        caller: None,
        watcher: None,
    }));
    (
        Replier {
            shared: Some(Arc::clone(&shared)),
        },
        Waiter { shared },
    )
}

type Answer<R> = Result<R, RpcError>;

#[derive(Debug)]
struct Shared<R> {
    state: State<R>,
    /// Woken by the answer.
    caller: Option<Waker>,
    /// Woken when the caller gives up.
    watcher: Option<Waker>,
}

#[derive(Debug)]
enum State<R> {
    Queued,
    Claimed,
    Answered(Answer<R>),
    /// The caller has its answer, or wants none any more.
    Over,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The endpoint's end. Dropped without an answer, it answers `NoReply`.
#[derive(Debug)]
pub(crate) struct Replier<R> {
    shared: Option<Arc<Mutex<Shared<R>>>>,
}

impl<R> Replier<R> {
    /// Takes the call up; false if the caller has given up, and then it must not run.
    pub(crate) fn claim(&self) -> bool {
        let Some(shared) = &self.shared else {
            return false;
        };
        let mut shared = lock(shared);
        match shared.state {
            State::Queued => {
                shared.state = State::Claimed;
                true
            }
            State::Claimed => true,
            State::Answered(_) | State::Over => false,
        }
    }

    /// Answers; true if somebody waited for it.
    pub(crate) fn answer(mut self, answer: Answer<R>) -> bool {
        self.put(answer)
    }

    fn put(&mut self, answer: Answer<R>) -> bool {
        let Some(shared) = self.shared.take() else {
            return false;
        };
        let caller = {
            let mut shared = lock(&shared);
            if matches!(shared.state, State::Over) {
                return false;
            }
            shared.state = State::Answered(answer);
            shared.caller.take()
        };
        if let Some(caller) = caller {
            caller.wake();
        }
        true
    }

    /// Ready when the caller has given up.
    pub(crate) fn poll_abandoned(&self, context: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = &self.shared else {
            return Poll::Ready(());
        };
        let mut shared = lock(shared);
        if matches!(shared.state, State::Over) {
            return Poll::Ready(());
        }
        match &mut shared.watcher {
            Some(watcher) => watcher.clone_from(context.waker()),
            none @ None => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl<R> Drop for Replier<R> {
    fn drop(&mut self) {
        if self.shared.is_some() {
            self.put(Err(RpcError::new(
                RpcErrorKind::NoReply,
                "the call was dropped unanswered",
            )));
        }
    }
}

/// The caller's end. Dropped, it gives the call up.
#[derive(Debug)]
pub(crate) struct Waiter<R> {
    shared: Arc<Mutex<Shared<R>>>,
}

impl<R> Waiter<R> {
    pub(crate) fn poll_answer(&self, context: &mut Context<'_>) -> Poll<Answer<R>> {
        let mut shared = lock(&self.shared);
        if matches!(shared.state, State::Answered(_))
            && let State::Answered(answer) = std::mem::replace(&mut shared.state, State::Over)
        {
            return Poll::Ready(answer);
        }
        match &mut shared.caller {
            Some(caller) => caller.clone_from(context.waker()),
            none @ None => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Gives the call up. `Err(true)`: it may have run; `Err(false)`: it never will;
    /// `Ok`: the answer was just there.
    pub(crate) fn give_up(&self) -> Result<Answer<R>, bool> {
        let (old, watcher) = {
            let mut shared = lock(&self.shared);
            (
                std::mem::replace(&mut shared.state, State::Over),
                shared.watcher.take(),
            )
        };
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        match old {
            State::Answered(answer) => Ok(answer),
            State::Queued => Err(false),
            State::Claimed | State::Over => Err(true),
        }
    }
}

impl<R> Drop for Waiter<R> {
    fn drop(&mut self) {
        let watcher = {
            let mut shared = lock(&self.shared);
            // An answer that nobody took is dropped outside the lock, with the Arc.
            if !matches!(shared.state, State::Answered(_)) {
                shared.state = State::Over;
            }
            shared.watcher.take()
        };
        if let Some(watcher) = watcher {
            watcher.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<R>(waiter: &Waiter<R>) -> Poll<Answer<R>> {
        waiter.poll_answer(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_answer_arrives_once() {
        let (replier, waiter) = slot();
        assert!(poll(&waiter).is_pending());
        assert!(replier.claim());
        assert!(replier.answer(Ok(5)));
        assert_eq!(poll(&waiter), Poll::Ready(Ok(5)));
        assert!(poll(&waiter).is_pending());
    }

    #[test]
    fn a_caller_that_gives_up_before_the_claim_knows_that_the_call_never_runs() {
        let (replier, waiter) = slot::<u8>();
        assert_eq!(waiter.give_up(), Err(false));
        assert!(!replier.claim());
    }

    #[test]
    fn a_caller_that_gives_up_after_the_claim_does_not_know() {
        let (replier, waiter) = slot::<u8>();
        assert!(replier.claim());
        assert_eq!(waiter.give_up(), Err(true));
        assert!(!replier.answer(Ok(1)));
    }

    #[test]
    fn a_dropped_replier_answers_no_reply() {
        let (replier, waiter) = slot::<u8>();
        drop(replier);
        let Poll::Ready(Err(error)) = poll(&waiter) else {
            panic!("no answer")
        };
        assert_eq!(error.kind(), RpcErrorKind::NoReply);
    }

    #[test]
    fn a_dropped_waiter_is_noticed() {
        let (replier, waiter) = slot::<u8>();
        let mut context = Context::from_waker(Waker::noop());
        assert!(replier.poll_abandoned(&mut context).is_pending());
        drop(waiter);
        assert!(replier.poll_abandoned(&mut context).is_ready());
    }
}
