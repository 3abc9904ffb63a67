//! What a service's endpoints and gateways share with it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::runtime::Handle;

use crate::{
    dead_letter::DeadLetters,
    endpoint::inbox::InboxLimits,
    error::RpcError,
    gateway::GatewayDescriptor,
    status::{StatusRegistry, StatusSource},
    transport::EndpointTable,
};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) default_timeout: Duration,
    pub(crate) hook_timeout: Duration,
    pub(crate) revoke_timeout: Duration,
    pub(crate) force_serialization: bool,
    pub(crate) inbox: InboxLimits,
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) table: EndpointTable,
    pub(crate) dead_letters: DeadLetters,
    /// Keeps the source alive that the registry holds weakly.
    pub(crate) dead_letter_status: Arc<dyn StatusSource>,
    pub(crate) status: StatusRegistry,
    pub(crate) runtime: Handle,
    pub(crate) is_stopped: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("settings", &self.settings)
            .field("table", &self.table)
            .field("dead_letters", &self.dead_letter_status.snapshot())
            .field("is_stopped", &self.is_stopped)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// True if a call of this method goes through the codec though both ends are here.
    pub(crate) fn serializes(&self, gateway: &GatewayDescriptor, method: u16) -> bool {
        self.settings.force_serialization
            && gateway
                .methods
                .get(usize::from(method))
                .is_some_and(|m| !m.local)
    }

    /// Terminates all endpoints and waits for all; the first failure counts.
    pub(crate) async fn terminate_endpoints(&self) -> Result<(), RpcError> {
        let ends = self.table.living().into_iter().map(|endpoint| {
            let end = endpoint.terminate();
            self.runtime.spawn(end)
        });
        let ends = ends.collect::<Vec<_>>();
        let mut result = Ok(());
        for end in ends {
            let ended = end.await.unwrap_or(Ok(()));
            if result.is_ok() {
                result = ended;
            }
        }
        result
    }

    /// An endpoint's restart limit was reached and its policy is to end the service.
    pub(crate) fn escalate(self: &Arc<Self>) {
        self.is_stopped.store(true, Ordering::SeqCst);
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            if let Err(error) = shared.terminate_endpoints().await {
                tracing::warn!(%error, "an endpoint failed while its service was terminated");
            }
        });
    }
}
