//! What drives a worker: answers, notices, reports and time, one after the other.

use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use actix::{ActorFuture, Context};
use futures_util::stream::StreamExt;
use tokio::sync::mpsc;
use tokio::time::Sleep;

use crate::link::local::WorkerInbox;
use crate::operator::control::Report;

use super::actor::RegionWorker;
use super::lease::since_boot;
use super::machine::Event;

/// Events before other tasks of the arbiter get their turn.
const EVENTS_PER_TURN: usize = 64;

/// Feeds the machine: answers, notices, reports, time.
pub(super) struct Feed {
    inbox: WorkerInbox,
    inbox_open: bool,
    reported: mpsc::UnboundedReceiver<Report>,
    timer: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl Feed {
    pub(super) fn new(inbox: WorkerInbox, reported: mpsc::UnboundedReceiver<Report>) -> Self {
        Self {
            inbox,
            inbox_open: true,
            reported,
            timer: None,
        }
    }

    fn poll_event(
        &mut self,
        worker: &mut RegionWorker,
        task: &mut task::Context<'_>,
    ) -> Poll<Event> {
        if let Poll::Ready(Some(event)) = worker.calls.poll_next_unpin(task) {
            return Poll::Ready(event);
        }
        while let Poll::Ready(Some(end)) = worker.leaving.poll_next_unpin(task) {
            if let Some(reason) = end {
                let attempt = worker.machine.stamp().attempt;
                return Poll::Ready(Event::StreamBroken { attempt, reason });
            }
        }
        if let Poll::Ready(Some(report)) = self.reported.poll_recv(task) {
            return Poll::Ready(Event::Report(report));
        }
        if self.inbox_open {
            match self.inbox.poll_next(task) {
                Poll::Ready(Some(notice)) => return Poll::Ready(Event::Notice(notice)),
                // Notices still come with the answers to heartbeats.
                Poll::Ready(None) => self.inbox_open = false,
                Poll::Pending => {}
            }
        }
        self.poll_timer(worker, task)
    }

    fn poll_timer(&mut self, worker: &RegionWorker, task: &mut task::Context<'_>) -> Poll<Event> {
        let Some(at) = worker.machine.wake_at() else {
            self.timer = None;
            return Poll::Pending;
        };
        let now = since_boot();
        if at <= now {
            return Poll::Ready(Event::Tick);
        }
        if self.timer.as_ref().is_none_or(|(set, _)| *set != at) {
            self.timer = Some((at, Box::pin(tokio::time::sleep(at - now))));
        }
        if let Some((_, timer)) = &mut self.timer
            && timer.as_mut().poll(task).is_ready()
        {
            // Tokio's clock stands still while the machine sleeps: look at ours again.
            self.timer = None;
            return Poll::Ready(Event::Tick);
        }
        Poll::Pending
    }
}

impl ActorFuture<RegionWorker> for Feed {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        worker: &mut RegionWorker,
        actix: &mut Context<RegionWorker>,
        task: &mut task::Context<'_>,
    ) -> Poll<()> {
        let feed = self.get_mut();
        for _ in 0..EVENTS_PER_TURN {
            match feed.poll_event(worker, task) {
                Poll::Ready(event) => worker.step(event, actix),
                Poll::Pending => return Poll::Pending,
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}
