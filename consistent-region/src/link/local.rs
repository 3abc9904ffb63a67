//! Links inside one process: bounded channels.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::{CoordinatorLink, LinkError, WorkerLink};
use crate::protocol::{
    Heartbeat, HeartbeatAnswer, Notice, Progress, Refusal, Register, Registered,
};

/// How many notices may wait for a worker; more are not pushed but come with a heartbeat.
pub const WORKER_INBOX: usize = 64;

/// How many requests may wait for the coordinator; more wait at the worker.
pub const COORDINATOR_INBOX: usize = 256;

/// A worker's request, as the coordinator takes it out of its inbox.
#[allow(missing_debug_implementations, reason = "holds a worker's link")]
#[non_exhaustive]
pub enum CoordinatorRequest {
    /// See [`CoordinatorLink::register`].
    Register {
        /// The offer.
        register: Register,
        /// How to reach the worker from now on.
        link: Arc<dyn WorkerLink>,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<Registered, Refusal>>,
    },
    /// See [`CoordinatorLink::heartbeat`].
    Heartbeat {
        /// The heartbeat.
        heartbeat: Heartbeat,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<HeartbeatAnswer, Refusal>>,
    },
    /// See [`CoordinatorLink::progress`].
    Progress {
        /// What happened.
        progress: Progress,
        /// Where the answer goes.
        answer: oneshot::Sender<Result<(), Refusal>>,
    },
}

/// The way to a coordinator in this process; cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalCoordinator {
    requests: mpsc::Sender<CoordinatorRequest>,
}

/// The coordinator's side: what it takes requests from.
#[derive(Debug)]
pub struct CoordinatorInbox {
    requests: mpsc::Receiver<CoordinatorRequest>,
}

impl LocalCoordinator {
    /// A way to a coordinator, and the inbox that this coordinator reads.
    #[must_use]
    pub fn channel() -> (Self, CoordinatorInbox) {
        let (sender, requests) = mpsc::channel(COORDINATOR_INBOX);
        (Self { requests: sender }, CoordinatorInbox { requests })
    }

    /// A link for one worker, and the inbox that its notices arrive in.
    #[must_use]
    pub fn connect(&self) -> (LocalLink, WorkerInbox) {
        let (push, inbox) = WorkerInbox::channel();
        let link = LocalLink {
            coordinator: self.clone(),
            push: Arc::new(push),
        };
        (link, inbox)
    }

    /// Hands one request over; for links that receive requests from elsewhere.
    pub async fn request(&self, request: CoordinatorRequest) -> Result<(), LinkError> {
        self.requests.send(request).await.map_err(|_| gone())
    }
}

impl CoordinatorInbox {
    /// The next request; `None` when no way to this coordinator is left.
    pub async fn next(&mut self) -> Option<CoordinatorRequest> {
        self.requests.recv().await
    }

    /// The same for a poll function.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<CoordinatorRequest>> {
        self.requests.poll_recv(cx)
    }
}

/// One worker's link to a coordinator in this process.
#[allow(missing_debug_implementations, reason = "holds a worker's link")]
#[derive(Clone)]
pub struct LocalLink {
    coordinator: LocalCoordinator,
    push: Arc<dyn WorkerLink>,
}

impl LocalLink {
    async fn ask<T>(
        &self,
        request: CoordinatorRequest,
        answer: oneshot::Receiver<Result<T, Refusal>>,
    ) -> Result<T, LinkError> {
        self.coordinator.request(request).await?;
        Ok(answer.await.map_err(|_| gone())??)
    }
}

impl CoordinatorLink for LocalLink {
    fn register(&self, register: Register) -> BoxFuture<'_, Result<Registered, LinkError>> {
        let (answer, answered) = oneshot::channel();
        let link = Arc::clone(&self.push);
        Box::pin(self.ask(
            CoordinatorRequest::Register {
                register,
                link,
                answer,
            },
            answered,
        ))
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> BoxFuture<'_, Result<HeartbeatAnswer, LinkError>> {
        let (answer, answered) = oneshot::channel();
        Box::pin(self.ask(
            CoordinatorRequest::Heartbeat { heartbeat, answer },
            answered,
        ))
    }

    fn progress(&self, progress: Progress) -> BoxFuture<'_, Result<(), LinkError>> {
        let (answer, answered) = oneshot::channel();
        Box::pin(self.ask(CoordinatorRequest::Progress { progress, answer }, answered))
    }
}

fn gone() -> LinkError {
    LinkError::Unreachable("it has ended".to_owned())
}

/// What pushes notices into a [`WorkerInbox`]; cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkerInboxSender {
    notices: mpsc::Sender<Notice>,
}

impl WorkerLink for WorkerInboxSender {
    fn push(&self, notice: Notice) {
        // A full or closed inbox is a lost push: the next heartbeat brings the notice.
        let _ = self.notices.try_send(notice);
    }
}

/// The worker's side: where notices arrive, in any order, some of them more than once.
#[derive(Debug)]
pub struct WorkerInbox {
    notices: mpsc::Receiver<Notice>,
}

impl WorkerInbox {
    /// An inbox for [`WORKER_INBOX`] notices, and what fills it.
    #[must_use]
    pub fn channel() -> (WorkerInboxSender, Self) {
        let (sender, notices) = mpsc::channel(WORKER_INBOX);
        (WorkerInboxSender { notices: sender }, Self { notices })
    }

    /// The next notice; `None` when the coordinator's side is gone.
    pub async fn next(&mut self) -> Option<Notice> {
        self.notices.recv().await
    }

    /// The same for a poll function.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        self.notices.poll_recv(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Order, Stamp};

    fn notice(number: u64) -> Notice {
        Notice {
            number,
            worker_epoch: 1,
            stamp: Stamp::default(),
            order: Order::Resume,
        }
    }

    #[tokio::test]
    async fn a_request_reaches_the_inbox_and_its_answer_comes_back() {
        let (coordinator, mut inbox) = LocalCoordinator::channel();
        let (link, mut notices) = coordinator.connect();
        let serve = async {
            let Some(CoordinatorRequest::Heartbeat { heartbeat, answer }) = inbox.next().await
            else {
                panic!("another request");
            };
            answer
                .send(Ok(HeartbeatAnswer {
                    term: heartbeat.worker_epoch,
                    notices: vec![],
                    sources_paused: false,
                }))
                .unwrap();
        };
        let heartbeat = Heartbeat {
            worker: "w".to_owned(),
            worker_epoch: 7,
            acknowledged: 0,
        };
        let (answer, ()) = tokio::join!(link.heartbeat(heartbeat), serve);
        assert_eq!(answer.unwrap().term, 7);
        link.push.push(notice(3));
        assert_eq!(notices.next().await.unwrap().number, 3);
    }

    #[tokio::test]
    async fn an_ended_coordinator_is_unreachable() {
        let (coordinator, inbox) = LocalCoordinator::channel();
        let (link, _notices) = coordinator.connect();
        drop(inbox);
        let heartbeat = Heartbeat {
            worker: "w".to_owned(),
            worker_epoch: 7,
            acknowledged: 0,
        };
        assert!(matches!(
            link.heartbeat(heartbeat).await,
            Err(LinkError::Unreachable(_))
        ));
    }

    #[tokio::test]
    async fn a_full_inbox_loses_the_push_and_does_not_wait() {
        let (push, mut inbox) = WorkerInbox::channel();
        for number in 0..=WORKER_INBOX {
            push.push(notice(u64::try_from(number).unwrap()));
        }
        drop(push);
        let mut count = 0;
        while inbox.next().await.is_some() {
            count += 1;
        }
        assert_eq!(count, WORKER_INBOX);
    }
}
