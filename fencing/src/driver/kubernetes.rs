//! Election by a Kubernetes Lease object: between the pods of a cluster.
//!
//! One `Lease` (`coordination.k8s.io/v1`) is the whole election. Whoever changes it names the resource
//! version that it has read, so that of two changes one is refused. Its `leaseTransitions`, counted up
//! by each new holder, is the epoch, and its uid the lineage: a Lease that was deleted and made anew
//! begins another one. The leader's address and token are in annotations
//! `lockkeeper.leader/<component>` of the same object.
//!
//! A standby takes an expired lease by its *own* clock: when it has seen the same resource version for
//! the whole session. The times in the object are for people.
//!
//! The service account needs the verbs `get`, `create` and `update` on that Lease. Tested against a
//! server that keeps the API's rules for Leases (optimistic concurrency, conflicts); not yet run on a
//! cluster.

mod lease;
mod retrieval;
mod session;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, Config};
use tokio::sync::watch;

use super::{SuspensionPolicy, candidate, on_own_thread};
use crate::clock::{Clock, SystemClock};
use crate::election::{
    ComponentId, DriverListener, ElectionError, LeaderElectionDriver, LeaderElectionDriverFactory,
    LeaderInformation,
};
use crate::retrieval::LeaderRetrievalDriverFactory;

/// What a component's id may have of an annotation's 63 characters.
const LONGEST_COMPONENT: usize = 63;

/// Election and retrieval by one Lease object.
#[derive(Clone)]
pub struct Kubernetes {
    namespace: String,
    name: String,
    url: Option<String>,
    session: Duration,
    poll_interval: Duration,
    policy: SuspensionPolicy,
    clock: Arc<dyn Clock>,
}

impl Kubernetes {
    /// The Lease `name` in a namespace, which is created if needed. The session is 15 s, as that of
    /// Kubernetes' own components. All processes must use one session.
    ///
    /// The API server and the credentials are those of the pod's service account, or of the user's
    /// kubeconfig outside of a cluster. Component ids are limited to 63 characters here.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Kubernetes {
            namespace: namespace.into(),
            name: name.into(),
            url: None,
            session: Duration::from_secs(15),
            poll_interval: Duration::from_secs(1),
            policy: SuspensionPolicy::Stop,
            clock: Arc::new(SystemClock),
        }
    }

    /// Asks the API server at this URL, without credentials: for a proxy such as `kubectl proxy`.
    #[must_use]
    pub fn with_url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// How long the lease holds without renewal, at least 1 s. Renewed every quarter; the holder's
    /// own deadline is at four fifths.
    #[must_use]
    pub fn with_session(mut self, session: Duration) -> Self {
        self.session = session;
        self
    }

    /// How often standbys and retrievals read the Lease (1 s).
    #[must_use]
    pub fn with_poll_interval(mut self, poll_interval: Duration) -> Self {
        self.poll_interval = poll_interval;
        self
    }

    /// What a leader does while it cannot reach the API server (it stops).
    #[must_use]
    pub fn with_suspension(mut self, policy: SuspensionPolicy) -> Self {
        self.policy = policy;
        self
    }

    async fn connect(&self) -> Result<Api<Lease>, ElectionError> {
        let invalid = |problem: String| ElectionError::InvalidOption {
            option: "url",
            problem,
        };
        let mut config = match &self.url {
            Some(url) => {
                let url = url.parse();
                Config::new(url.map_err(|error| invalid(format!("is no URL: {error}")))?)
            }
            None => Config::infer()
                .await
                .map_err(|error| ElectionError::unavailable("finding the API server", error))?,
        };
        config.connect_timeout = Some(self.session / 4);
        config.read_timeout = Some(self.session / 4);
        config.write_timeout = Some(self.session / 4);
        let client = Client::try_from(config)
            .map_err(|error| ElectionError::unavailable("making a client", error))?;
        Ok(Api::namespaced(client, &self.namespace))
    }

    fn check(&self) -> Result<(), ElectionError> {
        let invalid = |option, problem| Err(ElectionError::InvalidOption { option, problem });
        if self.session < Duration::from_secs(1) {
            let problem = format!("is {:?}, at least 1 s is needed", self.session);
            return invalid("session", problem);
        }
        if self.poll_interval.is_zero() || self.poll_interval > self.session / 4 {
            let problem = format!(
                "is {:?}, it must be above zero and at most a quarter of the session ({:?})",
                self.poll_interval, self.session,
            );
            return invalid("poll_interval", problem);
        }
        Ok(())
    }
}

impl fmt::Debug for Kubernetes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Kubernetes")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl LeaderElectionDriverFactory for Kubernetes {
    fn create(
        &self,
        listener: DriverListener,
    ) -> Result<Box<dyn LeaderElectionDriver>, ElectionError> {
        self.check()?;
        let (clock, policy) = (self.clock.clone(), self.policy);
        let thread = "lockkeeper-kubernetes";
        candidate::start(thread, self.clone(), clock, policy, listener)
    }
}

impl LeaderRetrievalDriverFactory for Kubernetes {
    fn retrieve(
        &self,
        component: ComponentId,
        leader: watch::Sender<Option<LeaderInformation>>,
    ) -> Result<(), ElectionError> {
        self.check()?;
        lease::annotation(&component)?;
        let following = retrieval::follow(self.clone(), component, leader);
        on_own_thread("lockkeeper-retrieval", following)
    }
}
