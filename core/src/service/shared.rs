//! What a service's endpoints and gateways share with it.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
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
    watchdog::Watchdog,
};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) default_timeout: Duration,
    pub(crate) hook_timeout: Duration,
    pub(crate) revoke_timeout: Duration,
    pub(crate) force_serialization: bool,
    pub(crate) check_shapes: bool,
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
    pub(crate) watchdog: Option<Watchdog>,
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

    /// Terminates all endpoints at once and waits for all; the first failure counts.
    pub(crate) async fn terminate_endpoints(&self) -> Result<(), RpcError> {
        let living = self.table.living();
        let mut ends = living
            .iter()
            .map(|endpoint| endpoint.terminate())
            .collect::<Vec<_>>();
        let mut first_failure = Ok(());
        poll_fn(|context| {
            ends.retain_mut(|end| match end.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    if first_failure.is_ok() {
                        first_failure = result;
                    }
                    false
                }
            });
            if ends.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        first_failure
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
