//! The meeting place of a call inside the process and its answer.
//!
//! It holds what was asked until the endpoint takes it up, and then the answer until the caller
//! takes it. A caller that gives up learns, without a race, whether the call will never run or may
//! have run. That is the difference between *refused* and *unknown outcome*.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::error::{RpcError, RpcErrorKind};

pub(crate) type Answer<R> = Result<R, RpcError>;

/// One call's question and answer. The two ends share it; one lock guards both.
#[derive(Debug)]
pub(crate) struct Slot<Q, R>(Mutex<Inner<Q, R>>);

#[derive(Debug)]
struct Inner<Q, R> {
    state: State<Q, R>,
    /// Woken by the answer.
    caller: Option<Waker>,
    /// Woken when the caller gives up.
    watcher: Option<Waker>,
}

#[derive(Debug)]
enum State<Q, R> {
    Queued(Q),
    Claimed,
    Answered(Answer<R>),
    /// The caller has its answer, or wants none any more.
    Over,
}

impl<Q, R> Slot<Q, R> {
    /// A slot whose answer wakes `caller`.
    pub(crate) fn new(question: Q, caller: Option<Waker>) -> Self {
        Self(Mutex::new(Inner {
            state: State::Queued(question),
            caller,
            watcher: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner<Q, R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the question; `None` if the caller has given up, or it was taken before.
    pub(crate) fn claim(&self) -> Option<Q> {
        let mut inner = self.lock();
        if !matches!(inner.state, State::Queued(_)) {
            return None;
        }
        match std::mem::replace(&mut inner.state, State::Claimed) {
            State::Queued(question) => Some(question),
            _ => None,
        }
    }

    /// Answers, unless there is an answer; true if somebody waited for it.
    pub(crate) fn answer(&self, answer: Answer<R>) -> bool {
        let mut inner = self.lock();
        if matches!(inner.state, State::Over | State::Answered(_)) {
            drop(inner);
            return false;
        }
        let old = std::mem::replace(&mut inner.state, State::Answered(answer));
        let caller = inner.caller.take();
        drop(inner);
        if let Some(caller) = caller {
            caller.wake();
        }
        // A question that nobody took is dropped outside the lock.
        drop(old);
        true
    }

    pub(crate) fn poll_answer(&self, context: &mut Context<'_>) -> Poll<Answer<R>> {
        let mut inner = self.lock();
        if matches!(inner.state, State::Answered(_))
            && let State::Answered(answer) = std::mem::replace(&mut inner.state, State::Over)
        {
            return Poll::Ready(answer);
        }
        match &mut inner.caller {
            Some(caller) => caller.clone_from(context.waker()),
            none @ None => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Gives the call up. `Err(true)`: it may have run; `Err(false)`: it never will;
    /// `Ok`: the answer was just there.
    pub(crate) fn give_up(&self) -> Result<Answer<R>, bool> {
        let (old, watcher) = {
            let mut inner = self.lock();
            let old = std::mem::replace(&mut inner.state, State::Over);
            (old, inner.watcher.take())
        };
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        match old {
            State::Answered(answer) => Ok(answer),
            State::Queued(_) => Err(false),
            State::Claimed | State::Over => Err(true),
        }
    }

    /// Ready when the caller has given up.
    pub(crate) fn poll_abandoned(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if matches!(inner.state, State::Over) {
            return Poll::Ready(());
        }
        match &mut inner.watcher {
            Some(watcher) => watcher.clone_from(context.waker()),
            none @ None => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

/// What a call answers that was dropped on its way.
pub(crate) fn dropped_unanswered() -> RpcError {
    RpcError::new(RpcErrorKind::NoReply, "the call was dropped unanswered")
}

/// A fresh pair around a slot that asks nothing: for closures and encoded calls.
pub(crate) fn slot<R>() -> (Replier<R>, Waiter<R>) {
    let slot = Arc::new(Slot::new((), None));
    (Replier(Some(Arc::clone(&slot))), Waiter(slot))
}

/// The endpoint's end. Dropped without an answer, it answers `NoReply`.
#[derive(Debug)]
pub(crate) struct Replier<R>(Option<Arc<Slot<(), R>>>);

impl<R> Replier<R> {
    /// Takes the call up; false if the caller has given up, and then it must not run.
    pub(crate) fn claim(&self) -> bool {
        self.0.as_ref().is_some_and(|slot| slot.claim().is_some())
    }

    /// Answers; true if somebody waited for it.
    pub(crate) fn answer(mut self, answer: Answer<R>) -> bool {
        self.0.take().is_some_and(|slot| slot.answer(answer))
    }
}

impl<R> Drop for Replier<R> {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.answer(Err(dropped_unanswered()));
        }
    }
}

/// The caller's end. Dropped, it gives the call up.
#[derive(Debug)]
pub(crate) struct Waiter<R>(Arc<Slot<(), R>>);

impl<R> Waiter<R> {
    pub(crate) fn poll_answer(&self, context: &mut Context<'_>) -> Poll<Answer<R>> {
        self.0.poll_answer(context)
    }

    /// See [`Slot::give_up`].
    pub(crate) fn give_up(&self) -> Result<Answer<R>, bool> {
        self.0.give_up()
    }
}

impl<R> Drop for Waiter<R> {
    fn drop(&mut self) {
        // An answer that nobody took is dropped with it.
        drop(self.0.give_up());
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
    fn the_first_answer_stays() {
        let slot = Slot::<(), u8>::new((), None);
        assert!(slot.answer(Ok(1)));
        assert!(!slot.answer(Ok(2)));
        assert_eq!(slot.give_up(), Ok(Ok(1)));
    }

    #[test]
    fn a_question_is_taken_once() {
        let slot = Slot::<u8, u8>::new(7, None);
        assert_eq!((slot.claim(), slot.claim()), (Some(7), None));
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
        let Some(shared) = replier.0.clone() else {
            panic!("no slot")
        };
        let mut context = Context::from_waker(Waker::noop());
        assert!(shared.poll_abandoned(&mut context).is_pending());
        drop(waiter);
        assert!(shared.poll_abandoned(&mut context).is_ready());
    }
}
