//! What an instance of an operator knows of its surroundings.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use lockkeeper_core::status::StatusRegistry;

use crate::graph::groups_of_instance;
use crate::point::Hook;
use crate::protocol::InstanceId;
use crate::store::{CheckpointStore, MemoryStore};
use crate::worker::Lease;

use super::RegionHandle;

/// Given to an operator's factory: who the instance is, and what it may use. Cheap to clone.
#[derive(Clone)]
pub struct InstanceContext(Arc<Inner>);

struct Inner {
    region_name: Arc<str>,
    worker: Arc<str>,
    instance: InstanceId,
    width: u16,
    lease: Lease,
    hook: Hook,
    status: StatusRegistry,
    region: RegionHandle,
    store: Arc<dyn CheckpointStore>,
}

impl InstanceContext {
    pub(crate) fn new(
        place: &Place,
        instance: InstanceId,
        width: u16,
        region: RegionHandle,
        store: Arc<dyn CheckpointStore>,
    ) -> Self {
        Self(Arc::new(Inner {
            region_name: Arc::clone(&place.region),
            worker: Arc::clone(&place.worker),
            instance,
            width,
            lease: place.lease.clone(),
            hook: place.hook.clone(),
            status: place.status.clone(),
            region,
            store,
        }))
    }

    /// A context without a region around it, for tests of an operator by itself: instance 0 of 1
    /// with a lease that does not end and a store in memory.
    #[must_use]
    pub fn alone(operator: impl Into<String>) -> Self {
        let place = Place {
            region: "alone".into(),
            worker: "alone".into(),
            lease: Lease::unlimited(),
            hook: Hook::default(),
            status: StatusRegistry::default(),
        };
        let instance = InstanceId {
            operator: operator.into(),
            index: 0,
        };
        let store = Arc::new(MemoryStore::new());
        Self::new(&place, instance, 1, RegionHandle::new(|_| {}), store)
    }

    /// Which instance this is.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.0.instance
    }

    /// How many instances the operator has.
    #[must_use]
    pub fn width(&self) -> u16 {
        self.0.width
    }

    /// The key groups that the instance owns, if its operator is keyed.
    #[must_use]
    pub fn key_groups(&self) -> Range<u16> {
        groups_of_instance(self.0.instance.index, self.0.width)
    }

    /// The region's name.
    #[must_use]
    pub fn region_name(&self) -> &str {
        &self.0.region_name
    }

    /// The name of the worker that the instance runs on.
    #[must_use]
    pub fn worker(&self) -> &str {
        &self.0.worker
    }

    /// The worker's lease: to be checked right before every effect outside the region.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.0.lease
    }

    /// Where named points are reported to.
    #[must_use]
    pub fn hook(&self) -> &Hook {
        &self.0.hook
    }

    /// What the worker's console draws: where the operator may add what it has to show. It is to keep
    /// what it adds; the registry does not.
    #[must_use]
    pub fn status(&self) -> &StatusRegistry {
        &self.0.status
    }

    /// The region's store, for what an operator keeps beside its state. Names of such objects begin
    /// with a letter: the region's own tidying leaves them alone. All calls block.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn CheckpointStore> {
        &self.0.store
    }

    /// By which the instance asks for a cut or a reset.
    #[must_use]
    pub fn region(&self) -> &RegionHandle {
        &self.0.region
    }
}

impl fmt::Debug for InstanceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceContext")
            .field("region", &self.0.region_name)
            .field("worker", &self.0.worker)
            .field("instance", &self.0.instance)
            .field("width", &self.0.width)
            .finish_non_exhaustive()
    }
}

/// What all instances of a worker have in common.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) region: Arc<str>,
    pub(crate) worker: Arc<str>,
    pub(crate) lease: Lease,
    pub(crate) hook: Hook,
    pub(crate) status: StatusRegistry,
}
