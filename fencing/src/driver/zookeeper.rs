//! Election by ZooKeeper: between hosts.
//!
//! | node under the root | what it is |
//! |---|---|
//! | `election` | its czxid and the time of its creation are the lineage |
//! | `election/candidate-<sequence>` | ephemeral, one a candidate; the lowest leads; its czxid is the epoch |
//! | `information/<component>` | ephemeral, the leader's address and token |
//!
//! The client lives on a thread of its own: on an arbiter that an actor blocks it would lose its
//! session. The holder asks a request of its own every quarter of the session, a transaction that
//! changes nothing but needs the majority, and counts from the sending of the one before the last
//! answered one; a loss is told at four fifths of the session, where the client itself would tell it
//! only at seven fifths. After a loss there is a new session, a new node, a new token. The session
//! must be two ticks of the ensemble or more, as it is by default.
//!
//! The lock of who leads is the session: deleting a candidate's node by hand takes leadership away
//! at the same moment as it gives it to another one, and the old one hears of it a moment later.

mod candidate;
mod paths;
mod proof;
mod retrieval;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use zookeeper_client::{Acls, Client};

use crate::clock::{Clock, SystemClock};
use crate::driver::{SuspensionPolicy, on_own_thread};
use crate::election::{
    ComponentId, DriverListener, ElectionError, LeaderElectionDriver, LeaderElectionDriverFactory,
    LeaderInformation,
};
use crate::retrieval::LeaderRetrievalDriverFactory;

use paths::Paths;

/// Election and retrieval by a ZooKeeper ensemble.
#[derive(Clone)]
pub struct ZooKeeper {
    cluster: String,
    paths: Paths,
    session: Duration,
    digest: Option<(String, String)>,
    policy: SuspensionPolicy,
    clock: Arc<dyn Clock>,
}

impl ZooKeeper {
    /// An ensemble `host:port[,host:port…]` and the node under which everything is kept, such as
    /// `/lockkeeper/orders`. It is created if needed. The session is 10 s.
    ///
    /// # Errors
    /// [`ElectionError::InvalidOption`] for a root that is no absolute path below `/`.
    pub fn new(cluster: impl Into<String>, root: impl Into<String>) -> Result<Self, ElectionError> {
        Ok(ZooKeeper {
            cluster: cluster.into(),
            paths: Paths::new(root.into())?,
            session: Duration::from_secs(10),
            digest: None,
            policy: SuspensionPolicy::Stop,
            clock: Arc::new(SystemClock),
        })
    }

    /// The session that is asked for; the server may negotiate another one, which then counts.
    #[must_use]
    pub fn with_session(mut self, session: Duration) -> Self {
        self.session = session;
        self
    }

    /// Authenticates with scheme `digest` and lets only this user touch what is created.
    #[must_use]
    pub fn with_digest(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.digest = Some((user.into(), password.into()));
        self
    }

    /// What a leader does while it cannot reach the ensemble (it stops).
    #[must_use]
    pub fn with_suspension(mut self, policy: SuspensionPolicy) -> Self {
        self.policy = policy;
        self
    }

    fn acls(&self) -> Acls<'static> {
        if self.digest.is_some() {
            Acls::creator_all()
        } else {
            Acls::anyone_all()
        }
    }

    async fn connect(&self) -> Result<Client, zookeeper_client::Error> {
        let mut connector = Client::connector().with_session_timeout(self.session);
        if let Some((user, password)) = &self.digest {
            connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
        }
        connector.connect(&self.cluster).await
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ZooKeeper")
            .field("cluster", &self.cluster)
            .field("root", &self.paths.root())
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl LeaderElectionDriverFactory for ZooKeeper {
    fn create(
        &self,
        listener: DriverListener,
    ) -> Result<Box<dyn LeaderElectionDriver>, ElectionError> {
        // Few commands, from one service: they wait for the session, not for a bound.
        let (commands, inbox) = mpsc::unbounded_channel();
        let candidate = candidate::Candidate::new(self.clone(), listener);
        on_own_thread("lockkeeper-zookeeper", candidate.run(inbox))?;
        Ok(Box::new(ZooKeeperDriver { commands }))
    }
}

impl LeaderRetrievalDriverFactory for ZooKeeper {
    fn retrieve(
        &self,
        component: ComponentId,
        leader: watch::Sender<Option<LeaderInformation>>,
    ) -> Result<(), ElectionError> {
        on_own_thread(
            "lockkeeper-retrieval",
            retrieval::follow(self.clone(), component, leader),
        )
    }
}

#[derive(Debug)]
enum Command {
    Publish(ComponentId, LeaderInformation),
    Withdraw(ComponentId),
    Close(oneshot::Sender<()>),
}

/// The handle of a candidate; dropping it closes the candidate.
#[derive(Debug)]
struct ZooKeeperDriver {
    commands: mpsc::UnboundedSender<Command>,
}

impl LeaderElectionDriver for ZooKeeperDriver {
    fn publish(&mut self, component: &ComponentId, information: &LeaderInformation) {
        let _ = self
            .commands
            .send(Command::Publish(component.clone(), information.clone()));
    }

    fn withdraw(&mut self, component: &ComponentId) {
        let _ = self.commands.send(Command::Withdraw(component.clone()));
    }

    fn close(&mut self) -> oneshot::Receiver<()> {
        let (done, closed) = oneshot::channel();
        let _ = self.commands.send(Command::Close(done));
        closed
    }
}
