//! How a worker is set up.

use std::time::Duration;

use actix_rt::ArbiterHandle;
use lockkeeper_core::status::StatusRegistry;

use crate::point::Hook;

/// How a worker is set up.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The worker's name, unique in the region; a restarted process keeps it.
    pub worker: String,
    /// How many operator instances it takes.
    pub slots: u16,
    /// What it has to offer: operators that need a label
    /// ([`RegionBuilder::needs`](crate::graph::RegionBuilder::needs)) run only on workers that have
    /// it. None.
    pub labels: Vec<String>,
    /// Where the operators' actors live, shared out in turn; empty: on the worker's own thread.
    pub arbiters: Vec<ArbiterHandle>,
    /// How long a registration or a progress message may take; 2 s.
    pub call_timeout: Duration,
    /// Where named points are reported to.
    pub hook: Hook,
    /// What a console draws: the worker and its operators' sources add themselves to it. None: that of
    /// the worker's service, if it has one.
    pub status: Option<StatusRegistry>,
}

impl WorkerConfig {
    /// A worker with 64 slots whose operators live on its own thread.
    #[must_use]
    pub fn new(worker: impl Into<String>) -> Self {
        Self {
            worker: worker.into(),
            slots: 64,
            labels: Vec::new(),
            arbiters: Vec::new(),
            call_timeout: Duration::from_secs(2),
            hook: Hook::default(),
            status: None,
        }
    }
}
