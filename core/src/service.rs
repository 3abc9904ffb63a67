//! The service: one a process (or a test), with its endpoints, connections and settings.

pub use self::{builder::RpcServiceBuilder, schedule::Scheduled};
pub(crate) use self::{
    shared::{Settings, Shared},
    start::refuse_off_arbiter,
};

mod builder;
mod connect;
mod schedule;
mod shared;
mod start;

use std::sync::{Arc, atomic::Ordering};

use crate::{
    address::RpcAddress,
    dead_letter::DeadLetters,
    error::{RpcError, RpcErrorKind},
    status::StatusRegistry,
    transport::{EndpointTable, InboundEndpoint, Transport},
};

/// Starts endpoints, connects gateways, and ends both. Cheap to clone; no global state: two
/// services in one process know nothing of each other.
#[derive(Clone, Debug)]
pub struct RpcService {
    inner: Arc<ServiceInner>,
}

#[derive(Debug)]
struct ServiceInner {
    shared: Arc<Shared>,
    transport: Option<Arc<dyn Transport>>,
}

impl RpcService {
    /// Settings for a new service.
    #[must_use]
    pub fn builder() -> RpcServiceBuilder {
        RpcServiceBuilder::default()
    }

    /// The living endpoint of that name, as a transport sees it.
    #[must_use]
    pub fn endpoint(&self, id: &str) -> Option<Arc<dyn InboundEndpoint>> {
        self.table().endpoint(id)
    }

    /// The service's endpoints.
    #[must_use]
    pub fn table(&self) -> &EndpointTable {
        &self.inner.shared.table
    }

    /// The transport, if the service was built with one.
    #[must_use]
    pub fn transport(&self) -> Option<&Arc<dyn Transport>> {
        self.inner.transport.as_ref()
    }

    /// The host that other processes reach; `""` without a transport.
    #[must_use]
    pub fn hostname(&self) -> String {
        self.transport()
            .map_or_else(String::new, |t| t.authority().host().to_owned())
    }

    /// The port that other processes reach; `None` without a transport.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.transport().map(|t| t.authority().port())
    }

    /// The counters of what was not handled.
    #[must_use]
    pub fn dead_letters(&self) -> &DeadLetters {
        &self.inner.shared.dead_letters
    }

    /// What a console shows of this service.
    #[must_use]
    pub fn status(&self) -> &StatusRegistry {
        &self.inner.shared.status
    }

    /// True once [`terminate`](Self::terminate) was called.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.inner.shared.is_stopped.load(Ordering::SeqCst)
    }

    /// Terminates all endpoints, waits for all of them, then closes the connections. From now on
    /// nothing can be started or connected. A second call waits for the same end.
    ///
    /// # Errors
    /// The first endpoint's failure; everything is down all the same.
    pub async fn terminate(&self) -> Result<(), RpcError> {
        self.inner.shared.is_stopped.store(true, Ordering::SeqCst);
        let result = self.inner.shared.terminate_endpoints().await;
        if let Some(transport) = &self.inner.transport {
            transport.shutdown().await;
        }
        result
    }

    fn address_of(&self, id: crate::address::EndpointId) -> RpcAddress {
        match self.transport() {
            Some(transport) => RpcAddress::remote(transport.authority(), id),
            None => RpcAddress::local(id),
        }
    }

    fn refuse_if_stopped(&self) -> Result<(), RpcError> {
        if self.is_terminated() {
            return Err(RpcError::new(
                RpcErrorKind::ServiceStopped,
                "the service is terminated",
            ));
        }
        Ok(())
    }
}
