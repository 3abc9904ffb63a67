//! Election by etcd: between hosts.
//!
//! | key under the root | what it is |
//! |---|---|
//! | `candidate/<lease>` | one a candidate, with its lease; the lowest create revision leads and is the epoch |
//! | `information/<component>` | the leader's address and token, with its lease |
//! | `lineage` | a mark that the first candidate of all has left, for ever |
//!
//! The lineage is that mark and the cluster's id: the id alone is made of the configuration, so that a
//! cluster that lost its data has the same again. Each write of a leader is a transaction on its own candidate's
//! create revision, so that none of a deposed leader is carried out.
//!
//! The session must be at least five times the cluster's election timeout (1 s by default): an etcd
//! leader that was cut off may still prolong leases for so long. Let epochs of another cluster, or
//! of a restored backup, begin anew deliberately: see [`LineageChanged`].
//!
//! Building it needs `protoc`. Connections to `https://` endpoints need [`Etcd::with_tls`].
//!
//! [`LineageChanged`]: crate::election::ElectionError::LineageChanged

mod retrieval;
mod session;
mod tls;

pub use tls::EtcdTls;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions};
use tokio::sync::watch;

use super::{SuspensionPolicy, candidate, on_own_thread};
use crate::clock::{Clock, SystemClock};
use crate::election::{
    ComponentId, DriverListener, ElectionError, LeaderElectionDriver, LeaderElectionDriverFactory,
    LeaderInformation,
};
use crate::retrieval::LeaderRetrievalDriverFactory;

/// Election and retrieval by an etcd cluster.
#[derive(Clone)]
pub struct Etcd {
    endpoints: Vec<String>,
    root: String,
    session: Duration,
    user: Option<(String, String)>,
    tls: Option<EtcdTls>,
    policy: SuspensionPolicy,
    clock: Arc<dyn Clock>,
}

impl Etcd {
    /// A cluster's endpoints, such as `http://host:2379`, and what all keys begin with, such as
    /// `/lockkeeper/orders`. The session is 10 s.
    #[must_use]
    pub fn new(
        endpoints: impl IntoIterator<Item = impl Into<String>>,
        root: impl Into<String>,
    ) -> Self {
        Etcd {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            root: root.into(),
            session: Duration::from_secs(10),
            user: None,
            tls: None,
            policy: SuspensionPolicy::Stop,
            clock: Arc::new(SystemClock),
        }
    }

    /// How long the lease holds without renewal, rounded up to whole seconds; the cluster may
    /// grant another time, which then counts. Renewed every quarter; the holder's own deadline is at four
    /// fifths.
    #[must_use]
    pub fn with_session(mut self, session: Duration) -> Self {
        self.session = session;
        self
    }

    /// Authenticates as this user.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Connects by TLS; the endpoints then begin with `https://`.
    #[must_use]
    pub fn with_tls(mut self, tls: EtcdTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// What a leader does while it cannot reach the cluster (it stops).
    #[must_use]
    pub fn with_suspension(mut self, policy: SuspensionPolicy) -> Self {
        self.policy = policy;
        self
    }

    fn candidates(&self) -> String {
        format!("{}/candidate/", self.root)
    }

    fn lineage(&self) -> String {
        format!("{}/lineage", self.root)
    }

    fn information_of(&self, component: &ComponentId) -> String {
        format!("{}/information/{component}", self.root)
    }

    async fn connect(&self) -> Result<Client, etcd_client::Error> {
        let patience = self.session / 4;
        let mut options = ConnectOptions::new()
            .with_connect_timeout(patience)
            .with_keep_alive(patience, patience)
            .with_require_leader(true);
        if let Some((name, password)) = &self.user {
            options = options.with_user(name, password);
        }
        if let Some(tls) = &self.tls {
            options = options.with_tls(tls.options());
        }
        Client::connect(&self.endpoints, Some(options)).await
    }

    fn check(&self) -> Result<(), ElectionError> {
        let invalid = |option, problem: &str| {
            let problem = problem.to_owned();
            Err(ElectionError::InvalidOption { option, problem })
        };
        if self.endpoints.is_empty() {
            return invalid("endpoints", "are none, at least one is needed");
        }
        let is_secure = |endpoint: &String| endpoint.starts_with("https://");
        if self.tls.is_some() && !self.endpoints.iter().all(is_secure) {
            return invalid("endpoints", "must begin with https:// where TLS is set");
        }
        if self.session.is_zero() {
            return invalid("session", "is zero, at least 1 s is needed");
        }
        Ok(())
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Etcd")
            .field("endpoints", &self.endpoints)
            .field("root", &self.root)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl LeaderElectionDriverFactory for Etcd {
    fn create(
        &self,
        listener: DriverListener,
    ) -> Result<Box<dyn LeaderElectionDriver>, ElectionError> {
        self.check()?;
        let (clock, policy) = (self.clock.clone(), self.policy);
        candidate::start("lockkeeper-etcd", self.clone(), clock, policy, listener)
    }
}

impl LeaderRetrievalDriverFactory for Etcd {
    fn retrieve(
        &self,
        component: ComponentId,
        leader: watch::Sender<Option<LeaderInformation>>,
    ) -> Result<(), ElectionError> {
        self.check()?;
        let following = retrieval::follow(self.clone(), component, leader);
        on_own_thread("lockkeeper-retrieval", following)
    }
}
