//! The endpoint's turns: a future of the actor that empties the inbox.
//!
//! It lives in the actor's own context, so that it has the actor and its context at hand without a
//! message in the mailbox, and stands still while the actor waits (`ctx.wait`).

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{self, Poll, Waker},
    time::Duration,
};

use actix::{ActorContext, ActorFuture, AsyncContext, Context};
use tokio::time::Instant;

use super::{
    RpcEndpoint,
    call::{Ran, run_entry},
    core::Core,
    entry::Entry,
    inbox::Inbox,
    incarnation::Incarnation,
    lifecycle::Event,
    restart::Failure,
};

/// A turn is over after so many entries, or so long, so that timers and other actors get theirs.
const TURN_ENTRIES: usize = 1_024;
/// Entries that are taken out under one lock.
const BATCH: usize = 128;
const TURN_TIME: Duration = Duration::from_micros(200);

pub(crate) struct Turns<A: RpcEndpoint> {
    core: Arc<Core<A>>,
    batch: VecDeque<Entry<A>>,
    /// The waker that the inbox has.
    task: Option<Waker>,
    life: Arc<Incarnation>,
    /// Between two turns, others of this thread come first: no turn in this poll of the actor.
    rests_in: Option<u64>,
    /// The actor's life is not ours.
    is_attached: bool,
}

impl<A: RpcEndpoint> Turns<A> {
    /// Gives the inbox to the actor of this context.
    pub(crate) fn begin(core: &Arc<Core<A>>, life: &Arc<Incarnation>, context: &mut Context<A>) {
        context.spawn(Self::new(core, life, false));
    }

    /// The same for an actor that others have started.
    pub(crate) fn attach(core: &Arc<Core<A>>, life: &Arc<Incarnation>, context: &mut Context<A>) {
        context.spawn(Self::new(core, life, true));
    }

    fn new(core: &Arc<Core<A>>, life: &Arc<Incarnation>, is_attached: bool) -> Self {
        Self {
            core: Arc::clone(core),
            life: Arc::clone(life),
            batch: VecDeque::new(),
            task: None,
            rests_in: None,
            is_attached,
        }
    }

    fn register(&mut self, task: &Waker) {
        if self
            .task
            .as_ref()
            .is_none_or(|known| !known.will_wake(task))
        {
            self.task = Some(task.clone());
            if !self.life.is_over() {
                self.core.inbox.set_task(task.clone());
                if self.is_attached {
                    self.life.set_life(task.clone());
                }
            }
        }
    }

    /// One turn; ready if it was the actor's last.
    fn take_turn(&mut self, actor: &mut A, context: &mut Context<A>, task: &Waker) -> Poll<()> {
        let core = Arc::clone(&self.core);
        let turn = Turn {
            inbox: &core.inbox,
            batch: &mut self.batch,
        };
        let mut end = None;
        let mut timed = Timed {
            core: &core,
            answered: None,
        };
        for left in (1..=TURN_ENTRIES).rev() {
            if turn.batch.is_empty() {
                // A serial endpoint may be busy after any of them.
                let limit = if A::SERIAL { 1 } else { left.min(BATCH) };
                if core.is_busy() {
                    // Woken again when it is free.
                    core.inbox.take(turn.batch, 0, task);
                    return Poll::Pending;
                }
                core.inbox.take(turn.batch, limit, task);
            }
            let Some(entry) = turn.batch.pop_front() else {
                return Poll::Pending;
            };
            core.inbox.begin(entry.header().bytes);
            let now = Instant::now();
            timed.record(now);
            let method = entry.method();
            let end = *end.get_or_insert(now + TURN_TIME);
            self.life.activity.handler(Some(method));
            let ran = run_entry(&core, entry, now, actor, context);
            self.life.activity.handler(None);
            if matches!(ran, Ran::Answered) {
                timed.answered = Some((method, now));
            }
            if let Ran::Panicked(error) = ran
                && core.restart_after_panic
            {
                drop(turn);
                let incarnation = core.incarnation();
                incarnation.mark_over();
                // Without a supervisor the endpoint has ended already.
                let _ = core
                    .events
                    .send((incarnation.number, Event::Failed(Failure::Panic(error))));
                context.terminate();
                return Poll::Ready(());
            }
            if context.waiting() {
                return Poll::Pending;
            }
            if now >= end {
                break;
            }
        }
        drop(timed);
        drop(turn);
        // Everything else on this thread comes first. actix would poll this future again at once if
        // a handler has spawned something, and neither timers nor control messages got between.
        self.rests_in = Some(self.life.polls());
        if self.is_attached {
            let (life, task) = (Arc::clone(&self.life), task.clone());
            tokio::task::spawn_local(async move {
                life.note_poll();
                task.wake();
            });
        } else {
            task.wake_by_ref();
        }
        Poll::Pending
    }
}

impl<A: RpcEndpoint> ActorFuture<A> for Turns<A> {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut A,
        context: &mut Context<A>,
        task: &mut task::Context<'_>,
    ) -> Poll<()> {
        let this = self.get_mut();
        this.register(task.waker());
        if this.life.is_over() {
            return Poll::Ready(());
        }
        if !this.core.inbox.is_woken() || context.waiting() {
            return Poll::Pending;
        }
        if this.rests_in.take() == Some(this.life.polls()) {
            this.rests_in = Some(this.life.polls());
            return Poll::Pending;
        }
        if !this.is_attached {
            return this.take_turn(actor, context, task.waker());
        }
        // Nobody else tells the watchdog when this actor runs.
        this.life.activity.toggle();
        let turn = this.take_turn(actor, context, task.waker());
        this.life.activity.toggle();
        turn
    }
}

/// A call that was answered at once, whose time is known with the next look at the clock.
struct Timed<'a, A: RpcEndpoint> {
    core: &'a Core<A>,
    answered: Option<(usize, Instant)>,
}

impl<A: RpcEndpoint> Timed<'_, A> {
    fn record(&mut self, now: Instant) {
        if let Some((method, began)) = self.answered.take()
            && let Some(metrics) = self.core.metrics.get(method)
        {
            metrics.answered(now.saturating_duration_since(began));
        }
    }
}

impl<A: RpcEndpoint> Drop for Timed<'_, A> {
    fn drop(&mut self) {
        if self.answered.is_some() {
            self.record(Instant::now());
        }
    }
}

/// What a turn has in hand; however it ends, what has not begun goes back.
struct Turn<'a, A: RpcEndpoint> {
    inbox: &'a Inbox<A>,
    batch: &'a mut VecDeque<Entry<A>>,
}

impl<A: RpcEndpoint> Drop for Turn<'_, A> {
    fn drop(&mut self) {
        if !self.batch.is_empty() {
            self.inbox.put_back(self.batch);
        }
    }
}

impl<A: RpcEndpoint> Drop for Turns<A> {
    fn drop(&mut self) {
        if self.is_attached && !self.life.is_over() {
            // Without a supervisor the endpoint has ended already.
            let _ = self
                .core
                .events
                .send((self.life.number, Event::Failed(Failure::StoppedItself)));
        }
    }
}
