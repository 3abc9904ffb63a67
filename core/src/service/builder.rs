//! The settings of a service, with their defaults.

use std::{sync::Arc, time::Duration};

use super::{RpcService, ServiceInner};
use crate::{
    error::RpcError,
    transport::{EndpointTable, Transport},
};

/// Settings of an [`RpcService`]. Crates with a transport put their own builder around it and end
/// with [`build_with`](Self::build_with).
#[derive(Debug)]
pub struct RpcServiceBuilder {
    default_timeout: Duration,
    force_serialization: bool,
}

impl Default for RpcServiceBuilder {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(10),
            force_serialization: false,
        }
    }
}

impl RpcServiceBuilder {
    /// The limit of a `send` without `.timeout(..)`, and of `connect`. Default: 10 s.
    #[must_use]
    pub fn default_timeout(mut self, limit: Duration) -> Self {
        self.default_timeout = limit;
        self
    }

    /// Makes calls inside the process go through the codec as remote ones do, but for `local`
    /// messages. For tests. Default: false.
    #[must_use]
    pub fn force_serialization(mut self, force: bool) -> Self {
        self.force_serialization = force;
        self
    }

    /// A service for calls inside this process.
    ///
    /// # Errors
    /// `InvalidConfiguration` for a setting that is not allowed.
    pub fn build(self) -> Result<RpcService, RpcError> {
        let table = EndpointTable::new();
        Ok(RpcService {
            inner: Arc::new(ServiceInner {
                table,
                transport: None,
            }),
        })
    }

    /// A service with a transport, which is made with the table of the service's endpoints.
    ///
    /// # Errors
    /// As [`build`](Self::build), and what `transport` returns.
    pub fn build_with<T, F>(self, transport: F) -> Result<RpcService, RpcError>
    where
        T: Transport,
        F: FnOnce(EndpointTable) -> Result<Arc<T>, RpcError>,
    {
        let table = EndpointTable::new();
        let transport: Arc<dyn Transport> = transport(table.clone())?;
        Ok(RpcService {
            inner: Arc::new(ServiceInner {
                table,
                transport: Some(transport),
            }),
        })
    }
}
