//! The service: one a process (or a test), with its endpoints, connections and settings.

pub use self::builder::RpcServiceBuilder;

mod builder;

use std::sync::Arc;

use crate::transport::{EndpointTable, InboundEndpoint, Transport};

/// Starts endpoints, connects gateways, and ends both. Cheap to clone; no global state.
#[derive(Clone, Debug)]
pub struct RpcService {
    inner: Arc<ServiceInner>,
}

#[derive(Debug)]
struct ServiceInner {
    table: EndpointTable,
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
        self.inner.table.endpoint(id)
    }

    /// The transport, if the service was built with one.
    #[must_use]
    pub fn transport(&self) -> Option<&Arc<dyn Transport>> {
        self.inner.transport.as_ref()
    }
}
