//! The coordinator's part, played by hand.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::graph::Region;
use crate::link::WorkerLink;
use crate::link::local::{CoordinatorInbox, CoordinatorRequest, LocalCoordinator};
use crate::manifest::RestorePoint;
use crate::protocol::{
    HeartbeatAnswer, Notice, Order, Placed, Placement, Progress, ProgressEvent, Registered, Stamp,
};
use crate::store::CheckpointStore;
use crate::worker::{RegionWorker, WorkerConfig, WorkerHandle};

use super::operators::Faults;

/// Against a hang only.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Scripted {
    pub(crate) worker: WorkerHandle,
    inbox: CoordinatorInbox,
    push: Arc<dyn WorkerLink>,
    placement: Placement,
    number: u64,
    stamp: Stamp,
    ended: bool,
}

impl Scripted {
    pub(crate) async fn start(region: &Region, store: Arc<dyn CheckpointStore>) -> Self {
        Self::start_with(WorkerConfig::new("a"), region, store).await
    }

    /// As [`start`](Self::start), with a worker that is set up like this; its name is `a`.
    pub(crate) async fn start_with(
        config: WorkerConfig,
        region: &Region,
        store: Arc<dyn CheckpointStore>,
    ) -> Self {
        let (coordinator, mut inbox) = LocalCoordinator::channel();
        let (link, notices) = coordinator.connect();
        let worker = RegionWorker::start(region.clone(), store, Arc::new(link), notices, config);
        let push = match inbox.next().await {
            Some(CoordinatorRequest::Register {
                register,
                link,
                answer,
            }) => {
                assert_eq!(register.graph, region.fingerprint());
                let lease = Duration::from_secs(60);
                answer
                    .send(Ok(Registered {
                        term: 1,
                        worker_epoch: 1,
                        lease,
                        sources_paused: false,
                    }))
                    .unwrap();
                link
            }
            _ => panic!("a worker registers first"),
        };
        let placed = |instance: &crate::graph::plan::PlannedInstance| Placed {
            instance: instance.id.clone(),
            worker: "a".to_owned(),
            worker_epoch: 1,
            address: String::new(),
        };
        let instances = region.plan().instances.iter().map(placed).collect();
        let stamp = Stamp {
            term: 1,
            seq: 1,
            attempt: 0,
        };
        Self {
            worker,
            inbox,
            push,
            placement: Placement { instances },
            number: 0,
            stamp,
            ended: false,
        }
    }

    pub(crate) fn order(&mut self, order: Order) {
        self.number += 1;
        let (number, stamp) = (self.number, self.stamp);
        self.push.push(Notice {
            number,
            worker_epoch: 1,
            stamp,
            order,
        });
    }

    /// The next progress message; heartbeats are answered on the way.
    async fn progress(&mut self) -> Progress {
        let next = async {
            loop {
                match self.inbox.next().await.expect("the worker lives") {
                    CoordinatorRequest::Heartbeat { answer, .. } => {
                        let notices = Vec::new();
                        answer
                            .send(Ok(HeartbeatAnswer {
                                term: 1,
                                notices,
                                sources_paused: false,
                            }))
                            .unwrap();
                    }
                    CoordinatorRequest::Progress { progress, answer } => {
                        answer.send(Ok(())).unwrap();
                        let ended = matches!(progress.event, ProgressEvent::Ended { .. });
                        self.ended |= ended && progress.stamp.attempt == self.stamp.attempt;
                        return progress;
                    }
                    CoordinatorRequest::Register { .. } => panic!("it is registered"),
                }
            }
        };
        tokio::time::timeout(LIMIT, next)
            .await
            .expect("no progress")
    }

    pub(crate) async fn reset(&mut self, restore: Option<RestorePoint>, first_start: bool) {
        self.stamp.attempt += 1;
        self.ended = false;
        self.stamp.seq += 1;
        let placement = self.placement.clone();
        self.order(Order::Reset {
            placement,
            restore,
            first_start,
        });
        loop {
            let progress = self.progress().await;
            if progress.stamp.attempt == self.stamp.attempt {
                assert_eq!(progress.event, ProgressEvent::ResetDone);
                return;
            }
        }
    }

    /// A cut up to its last durable object: what its manifest would say.
    pub(crate) async fn cut(&mut self, last: bool) -> Result<RestorePoint, ProgressEvent> {
        let completed = self.stamp.seq.saturating_sub(1);
        self.order(Order::Drain { last, completed });
        let mut prepared = false;
        loop {
            let progress = self.progress().await;
            match progress.event {
                ProgressEvent::BlockingCheckpointDone => prepared = true,
                ProgressEvent::CheckpointDone {
                    objects,
                    tokens,
                    timings,
                } => {
                    assert!(prepared, "prepared comes first");
                    assert_eq!(progress.stamp, self.stamp);
                    assert_eq!(timings.len(), self.placement.instances.len());
                    let seq = self.stamp.seq;
                    self.stamp.seq += 1;
                    return Ok(RestorePoint {
                        seq,
                        oldest_retained: seq,
                        objects,
                        tokens,
                        widths: std::collections::BTreeMap::default(),
                    });
                }
                failed @ (ProgressEvent::Failed { .. } | ProgressEvent::CutFailed { .. }) => {
                    return Err(failed);
                }
                ProgressEvent::Ended { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn commit(&mut self, point: &RestorePoint) {
        let (seq, oldest_retained) = (point.seq, point.oldest_retained);
        self.order(Order::Checkpointed {
            seq,
            oldest_retained,
        });
        loop {
            match self.progress().await.event {
                ProgressEvent::Committed { seq: committed } => {
                    return assert_eq!(committed, seq);
                }
                ProgressEvent::Ended { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// What the worker says next, besides that its source has ended.
    pub(crate) async fn event(&mut self) -> ProgressEvent {
        loop {
            match self.progress().await.event {
                ProgressEvent::Ended { .. } => {}
                other => return other,
            }
        }
    }

    /// Waits for the source's end or for `more` numbers more; whether it has ended.
    pub(crate) async fn until_ended_or(&mut self, more: u64, faults: &Faults) -> bool {
        if self.ended {
            return true;
        }
        let count = faults.produced().saturating_add(more);
        let faults = faults.clone();
        let reached = std::pin::pin!(async move { faults.produced_reaches(count).await });
        let ended = std::pin::pin!(async {
            match self.progress().await.event {
                ProgressEvent::Ended { .. } => {}
                other => panic!("{other:?}"),
            }
        });
        let either = futures_util::future::select(reached, ended);
        matches!(
            bounded(either).await,
            futures_util::future::Either::Right(_)
        )
    }
}

async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("neither came")
}
