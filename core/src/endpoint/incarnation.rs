//! One life of an endpoint's actor: how it is run, how it ends, and who learns of it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio_util::sync::CancellationToken;

use super::{Resources, entry::panic_error};
use crate::{
    error::{RpcError, RpcErrorKind},
    watchdog::Activity,
};

/// What the calls of one incarnation share.
#[derive(Debug)]
pub(crate) struct Incarnation {
    pub(crate) number: u64,
    over: AtomicBool,
    cause: OnceLock<RpcError>,
    /// Cancelled once the cause is known.
    ended: CancellationToken,
    /// The actor has to end, in whatever state it is.
    killed: AtomicBool,
    life: Mutex<Option<Waker>>,
    /// How often the actor was polled. Written by its own thread only.
    polls: AtomicU64,
    pub(crate) resources: Resources,
    pub(crate) activity: Activity,
}

impl Incarnation {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            over: AtomicBool::new(false),
            cause: OnceLock::new(),
            ended: CancellationToken::new(),
            killed: AtomicBool::new(false),
            life: Mutex::new(None),
            polls: AtomicU64::new(0),
            resources: Resources::default(),
            activity: Activity::default(),
        }
    }

    /// A number that is another in each poll of the actor.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    pub(crate) fn note_poll(&self) {
        self.polls
            .store(self.polls().wrapping_add(1), Ordering::Relaxed);
    }

    pub(crate) fn mark_over(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Notes the task that has to look when the actor is to end.
    pub(crate) fn set_life(&self, task: Waker) {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    pub(crate) fn kill(&self) {
        self.mark_over();
        self.killed.store(true, Ordering::SeqCst);
        let life = self
            .life
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(life) = life {
            life.wake();
        }
    }

    /// Tells the calls in flight why they won't be answered.
    pub(crate) fn end(&self, cause: RpcError) {
        self.mark_over();
        // A second end has nobody to tell any more.
        let _ = self.cause.set(cause);
        self.ended.cancel();
    }

    /// Resolves with the cause once it is known.
    pub(crate) async fn ended(&self) -> RpcError {
        self.ended.cancelled().await;
        self.cause
            .get()
            .cloned()
            .unwrap_or_else(|| RpcError::new(RpcErrorKind::Stopped, "the endpoint has ended"))
    }
}

/// How an actor ended.
#[derive(Debug)]
pub(crate) enum End {
    StoppedItself,
    Panicked(RpcError),
    Killed,
}

/// Runs an actor's future to its end: its own, a panic's, or by `kill`.
pub(crate) struct Life<F: Future<Output = ()>> {
    actor: Option<Pin<Box<F>>>,
    /// The task's waker is known to `incarnation`; a task keeps its waker for life.
    registered: bool,
    incarnation: Arc<Incarnation>,
}

impl<F: Future<Output = ()>> Life<F> {
    pub(crate) fn new(actor: F, incarnation: Arc<Incarnation>) -> Self {
        Self {
            actor: Some(Box::pin(actor)),
            registered: false,
            incarnation,
        }
    }

    fn end(&mut self, end: End) -> Poll<End> {
        self.incarnation.mark_over();
        let actor = self.actor.take();
        // Dropping a living actor calls the user's `stopping` and `stopped`.
        if catch_unwind(AssertUnwindSafe(|| drop(actor))).is_err() {
            tracing::warn!("an actor panicked while it was dropped");
        }
        Poll::Ready(end)
    }
}

impl<F: Future<Output = ()>> Future for Life<F> {
    type Output = End;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<End> {
        let this = self.get_mut();
        if !this.registered {
            this.registered = true;
            this.incarnation.set_life(context.waker().clone());
        }
        if this.incarnation.killed.load(Ordering::SeqCst) {
            return this.end(End::Killed);
        }
        let Some(actor) = this.actor.as_mut() else {
            return Poll::Ready(End::Killed);
        };
        this.incarnation.note_poll();
        this.incarnation.activity.toggle();
        let polled = catch_unwind(AssertUnwindSafe(|| actor.as_mut().poll(context)));
        this.incarnation.activity.toggle();
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => this.end(End::StoppedItself),
            Err(payload) => {
                let error = panic_error("a future or the mailbox of the actor", &*payload);
                this.end(End::Panicked(error))
            }
        }
    }
}
