//! Keeps worker processes running.

use std::sync::Arc;

use lockkeeper_core::{RestartBudget, RestartPolicy, RestartVerdict};
use lockkeeper_fencing::clock::{Clock, SystemClock};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::spawner::{ProcessEnd, ProcessSpawner, SpawnError};

/// How often a process is started again within the policy's window, unless that is set.
const RESTARTS: usize = 10;
/// How many events a slow listener may be behind before it misses the oldest.
const EVENTS: usize = 256;

/// Starts worker processes and starts them again when they end, up to a limit and with a back-off.
///
/// A process that ends in peace ([`ProcessEnd::is_peaceful`]) is not started again: its region has
/// ended, or somebody has stopped it.
#[derive(Debug)]
pub struct Supervisor {
    spawner: Arc<dyn ProcessSpawner>,
    policy: RestartPolicy,
}

impl Supervisor {
    /// Starts processes by `spawner`: each again at most 10 times in 60 s, with core's pauses.
    pub fn new(spawner: Arc<dyn ProcessSpawner>) -> Self {
        Self {
            spawner,
            policy: RestartPolicy::default().max_restarts(RESTARTS),
        }
    }

    /// How often and how soon each process is started again. What the policy says of panics and
    /// escalation is for endpoints.
    #[must_use]
    pub fn with_policy(mut self, policy: RestartPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Starts the processes of these workers and keeps them running until [`Supervised::stop`].
    /// Needs a tokio runtime.
    pub fn start<W: Into<String>>(self, workers: impl IntoIterator<Item = W>) -> Supervised {
        let (events, first) = broadcast::channel(EVENTS);
        let mut tasks = JoinSet::new();
        let workers: Vec<String> = workers.into_iter().map(Into::into).collect();
        for worker in &workers {
            let one = Keeper {
                worker: worker.clone(),
                spawner: Arc::clone(&self.spawner),
                restarts: RestartBudget::new(self.policy.clone()),
                events: events.clone(),
            };
            tasks.spawn(one.run());
        }
        Supervised {
            workers,
            spawner: self.spawner,
            first: Some(first),
            events,
            tasks,
        }
    }
}

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisionEvent {
    /// It was started, for the first time or again.
    Started {
        /// Its worker.
        worker: String,
    },
    /// It has ended; unless in peace, it is started again after a pause.
    Ended {
        /// Its worker.
        worker: String,
        /// How.
        end: ProcessEnd,
    },
    /// It can't be started or asked for; that counts as an end.
    NotStarted {
        /// Its worker.
        worker: String,
        /// Why.
        reason: SpawnError,
    },
    /// It has ended too often and is not started again.
    GivenUp {
        /// Its worker.
        worker: String,
        /// Its last end, for people.
        reason: String,
    },
}

/// Processes that are kept running. They are no longer when this is dropped; whether they go on
/// themselves then depends on who started them.
#[derive(Debug)]
pub struct Supervised {
    workers: Vec<String>,
    spawner: Arc<dyn ProcessSpawner>,
    first: Option<broadcast::Receiver<SupervisionEvent>>,
    events: broadcast::Sender<SupervisionEvent>,
    tasks: JoinSet<()>,
}

impl Supervised {
    /// What happens: the first listener sees everything from the start, others from now on. One
    /// that falls 256 events behind misses the oldest.
    pub fn events(&mut self) -> broadcast::Receiver<SupervisionEvent> {
        let first = self.first.take();
        first.unwrap_or_else(|| self.events.subscribe())
    }

    /// Starts nothing again, and stops every process. Resolves when all are gone.
    ///
    /// # Errors
    /// The first of [`ProcessSpawner::stop`]; the others are stopped all the same.
    pub async fn stop(mut self) -> Result<(), SpawnError> {
        self.tasks.shutdown().await;
        let stops = self.workers.iter().map(|worker| self.spawner.stop(worker));
        let stopped = futures_util::future::join_all(stops).await;
        stopped.into_iter().collect()
    }

    /// Waits until nothing is kept running any more: every process has ended in peace or was given
    /// up.
    pub async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Keeps one process running.
struct Keeper {
    worker: String,
    spawner: Arc<dyn ProcessSpawner>,
    restarts: RestartBudget,
    events: broadcast::Sender<SupervisionEvent>,
}

impl Keeper {
    async fn run(mut self) {
        let worker = self.worker.clone();
        loop {
            let reason = match self.run_once().await {
                Ok(end) => {
                    tracing::info!(worker, %end, "the worker's process has ended");
                    self.tell(SupervisionEvent::Ended {
                        worker: worker.clone(),
                        end,
                    });
                    if end.is_peaceful() {
                        return;
                    }
                    format!("its process {end}")
                }
                Err(reason) => {
                    tracing::warn!(worker, %reason, "the worker's process is not there");
                    let text = reason.to_string();
                    self.tell(SupervisionEvent::NotStarted {
                        worker: worker.clone(),
                        reason,
                    });
                    text
                }
            };
            match self.restarts.failed(SystemClock.now().elapsed()) {
                RestartVerdict::RestartAfter(pause) => sleep(pause).await,
                RestartVerdict::GiveUp(_) => {
                    tracing::error!(worker, reason, "the worker's process has ended too often");
                    return self.tell(SupervisionEvent::GivenUp { worker, reason });
                }
            }
        }
    }

    /// From a start to an end. A process that runs already is taken over.
    async fn run_once(&self) -> Result<ProcessEnd, SpawnError> {
        match self.spawner.start(&self.worker).await {
            Ok(()) => self.tell(SupervisionEvent::Started {
                worker: self.worker.clone(),
            }),
            Err(SpawnError::Runs { .. }) => {}
            Err(error) => return Err(error),
        }
        self.spawner.ended(&self.worker).await
    }

    fn tell(&self, event: SupervisionEvent) {
        // Nobody listens: nobody is told.
        let _ = self.events.send(event);
    }
}

#[cfg(test)]
mod tests;
