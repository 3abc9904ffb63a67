//! Settings of a connector.

use std::time::Duration;

use super::backoff::Backoff;
use super::cluster::ClusterCanalConnector;
use super::simple::SimpleCanalConnector;
use crate::access::{CanalNodeAccessStrategy, SimpleNodeAccessStrategy};
use crate::error::CanalError;
use crate::identity::{ClientIdentity, Password};
use crate::protocol::frame::DEFAULT_FRAME_LIMIT;
use crate::role::RoleHandle;
use crate::session::SessionConfig;

/// Settings of a connector; each has a default except the server.
#[derive(Debug)]
pub struct CanalConnectorBuilder {
    session: SessionConfig,
    frame_limit: usize,
    strategy: Option<Box<dyn CanalNodeAccessStrategy>>,
    role: Option<RoleHandle>,
    /// The identity of the role.
    monitored: Option<ClientIdentity>,
    retry: Backoff,
}

impl CanalConnectorBuilder {
    /// Settings for a client of `identity`.
    pub fn new(identity: ClientIdentity) -> Self {
        Self {
            session: SessionConfig::new(identity, String::new(), Password::default()),
            frame_limit: DEFAULT_FRAME_LIMIT,
            strategy: None,
            role: None,
            monitored: None,
            retry: Backoff::new(Duration::from_millis(100), Duration::from_secs(5), Some(20)),
        }
    }

    /// The one server to connect to, as `host:port`.
    pub fn address(self, address: impl Into<String>) -> Self {
        self.addresses([address])
    }

    /// Several servers, tried in turn.
    pub fn addresses(self, addresses: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.access_strategy(SimpleNodeAccessStrategy::new(addresses))
    }

    /// Another way to find the server.
    pub fn access_strategy(self, strategy: impl CanalNodeAccessStrategy + 'static) -> Self {
        Self {
            strategy: Some(Box::new(strategy)),
            ..self
        }
    }

    /// Cold standby: of all clients that share the monitor's destination and client id, one is
    /// served. The monitor's identity has to be the connector's.
    #[cfg(feature = "zookeeper")]
    pub fn running_monitor(mut self, monitor: &crate::running::ClientRunningMonitor) -> Self {
        self.monitored = Some(monitor.identity().clone());
        self.role = Some(monitor.role());
        self
    }

    /// How a [`ClusterCanalConnector`] tries again: how often in a row, and the waits from the
    /// first, doubling, to the longest, less up to half at random. Default 20 times, 100 ms to
    /// 5 s (Java's: 3 times, 5 s).
    pub fn retry(self, times: u32, first: Duration, longest: Duration) -> Self {
        Self {
            retry: Backoff::new(first, longest, Some(times)),
            ..self
        }
    }

    /// User and password. Default: none, which servers without a password accept. The password
    /// does not travel in plain text, but servers below 1.1.8 let a wrong one in.
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<Password>) -> Self {
        self.session.username = user.into();
        self.session.password = password.into();
        self
    }

    /// Limit of each of dialling one server, waiting for its handshake, and authentication.
    /// Default 10 s.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.session.connect_timeout = limit;
        self
    }

    /// From a request to its answer; a GET's own time-out must be shorter. Default 30 s.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.session.request_timeout = limit;
        self
    }

    /// After how much silence of the client the server closes the connection. It is the server
    /// that counts; longer than `request_timeout`. Default one hour.
    pub fn net_read_timeout(mut self, limit: Duration) -> Self {
        self.session.net_read_timeout = limit;
        self
    }

    /// After how much silence of its own the server closes the connection, even while it works on
    /// a request; longer than `request_timeout`. Default one hour.
    pub fn net_write_timeout(mut self, limit: Duration) -> Self {
        self.session.net_write_timeout = limit;
        self
    }

    /// The largest frame in bytes; a larger one is refused before anything is allocated for it.
    /// Default 256 MiB. A batch can be as large as its fetch size in KiB plus the largest single
    /// entry, for which the server has no limit.
    pub fn frame_limit(self, bytes: usize) -> Self {
        Self {
            frame_limit: bytes,
            ..self
        }
    }

    /// A connector, not connected yet.
    ///
    /// # Errors
    /// [`CanalError::InvalidArgument`] without a server or with limits that cannot work together.
    pub fn build(self) -> Result<SimpleCanalConnector, CanalError> {
        self.session.check()?;
        if let Some(monitored) = &self.monitored
            && *monitored != self.session.identity
        {
            return Err(CanalError::InvalidArgument(format!(
                "the running monitor is for {monitored:?}, the connector for {:?}",
                self.session.identity
            )));
        }
        let strategy = self.strategy.ok_or_else(|| {
            CanalError::InvalidArgument(
                "no server: set address, addresses or access_strategy".into(),
            )
        })?;
        Ok(SimpleCanalConnector::new(
            self.session,
            self.frame_limit,
            strategy,
            self.role,
        ))
    }

    /// A connector that connects and subscribes again by itself.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_cluster(self) -> Result<ClusterCanalConnector, CanalError> {
        let retry = self.retry.clone();
        Ok(ClusterCanalConnector::new(self.build()?, retry))
    }
}
