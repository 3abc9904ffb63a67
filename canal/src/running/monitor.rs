//! The running monitor, as its user sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::data::ClientRunningData;
use super::machine::{RunningMachine, Settings};
use super::server_nodes::ServerCursor;
use super::shell::Shell;
use crate::error::CanalError;
use crate::identity::ClientIdentity;
use crate::role::{ClientRole, Report, RoleHandle, RoleView};

/// Below which Canal's servers and clients keep their nodes.
const ROOT: &str = "/otter/canal";

/// Hears when a client becomes active and when it no longer is.
///
/// It is called on the monitor's thread and must not block. It is for logs, gauges and readiness
/// probes: what may be done with batches is decided by the connector itself, at the moment it is
/// done.
pub trait ClientRunningListener: Send + 'static {
    /// This client is the active one.
    fn process_active_enter(&mut self);

    /// This client no longer is the active one.
    fn process_active_exit(&mut self);
}

/// What a monitor knows at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningState {
    /// What this client is.
    pub role: ClientRole,
    /// The content of the active client's node, if that is another client.
    pub holder: Option<ClientRunningData>,
    /// The running node belongs to no session, so that it never ends by itself: nobody becomes
    /// active until somebody deletes it.
    pub leftover: bool,
    /// Whether there is a session at ZooKeeper.
    pub connected: bool,
    /// Where the server stands for this client, if it has written it.
    pub cursor: Option<ServerCursor>,
    /// The filter that the server keeps for this client, if there is one.
    pub filter: Option<String>,
    /// What was written to ZooKeeper since the start: requests that create, overwrite or end the
    /// node. Bounded also while no Canal server is there.
    pub writes: u64,
    /// What went wrong last, until something goes right again.
    pub problem: Option<String>,
}

impl RunningState {
    pub(super) fn new() -> Self {
        Self {
            role: ClientRole::Standby,
            holder: None,
            leftover: false,
            connected: false,
            cursor: None,
            filter: None,
            writes: 0,
            problem: None,
        }
    }
}

/// Cold standby by ZooKeeper: of all clients that share a destination and a client id, on any
/// host, Java's included, one is active.
///
/// Give it to a connector with
/// [`CanalConnectorBuilder::running_monitor`](crate::CanalConnectorBuilder::running_monitor). It
/// uses the nodes of Canal's Java client, `/otter/canal/destinations/D/{clientId}/running`, so that
/// clients of both kinds exclude each other.
///
/// Being active ends at the latest 0.8 sessions after the last question that ZooKeeper answered was
/// sent, by this client's own clock: a client that was stopped, paused or cut off neither hands out
/// nor acknowledges anything after that, while Java's goes on for ever. An acknowledgement that was
/// on its way at that moment is void, because whoever takes over rolls back first.
///
/// **An administrator who deletes the node by hand** takes it from a client that may not have heard
/// of it yet; for that moment two may be active. Set `"active":false` instead.
///
/// The monitor lives on a thread of its own, so that a blocked actor does not lose the session. It
/// begins when the connector connects, and ends when the last clone and the connector are dropped.
#[derive(Clone)]
pub struct ClientRunningMonitor {
    identity: ClientIdentity,
    state: watch::Receiver<RunningState>,
    role: RoleHandle,
}

impl ClientRunningMonitor {
    /// A monitor for `identity` at `ensemble` (`host:port`, several with commas), with the default
    /// settings of [`builder`](Self::builder).
    ///
    /// # Errors
    /// [`CanalError::InvalidArgument`] for a destination that is no name of a node;
    /// [`CanalError::ZooKeeper`] when the thread cannot be started.
    pub fn start(ensemble: &str, identity: ClientIdentity) -> Result<Self, CanalError> {
        Self::builder(ensemble, identity).start()
    }

    /// A monitor whose settings differ from the default.
    pub fn builder(ensemble: &str, identity: ClientIdentity) -> ClientRunningMonitorBuilder {
        ClientRunningMonitorBuilder {
            ensemble: ensemble.to_owned(),
            identity,
            root: ROOT.to_owned(),
            session: Duration::from_secs(10),
            take_over_delay: Duration::from_millis(500),
            release_pause: Duration::from_secs(5),
            patience: Duration::from_secs(10),
            listener: None,
        }
    }

    /// Destination and client id.
    pub fn identity(&self) -> &ClientIdentity {
        &self.identity
    }

    /// What is known now.
    pub fn state(&self) -> RunningState {
        self.state.borrow().clone()
    }

    /// What is known, as a watch that wakes at each change.
    pub fn watch(&self) -> watch::Receiver<RunningState> {
        self.state.clone()
    }

    /// Begins to be a candidate without a connector; a connector does it by itself.
    pub fn join(&self) {
        self.role.report(Report::Join);
    }

    /// Gives up being active, or waiting for it, until [`join`](Self::join).
    pub fn resign(&self) {
        self.role.report(Report::Resign);
    }

    pub(crate) fn role(&self) -> RoleHandle {
        self.role.clone()
    }
}

impl fmt::Debug for ClientRunningMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRunningMonitor")
            .field("identity", &self.identity)
            .field("state", &*self.state.borrow())
            .finish()
    }
}

/// Settings of a [`ClientRunningMonitor`].
pub struct ClientRunningMonitorBuilder {
    pub(super) ensemble: String,
    pub(super) identity: ClientIdentity,
    pub(super) root: String,
    pub(super) session: Duration,
    take_over_delay: Duration,
    release_pause: Duration,
    patience: Duration,
    pub(super) listener: Option<Box<dyn ClientRunningListener>>,
}

impl fmt::Debug for ClientRunningMonitorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRunningMonitorBuilder")
            .field("ensemble", &self.ensemble)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl ClientRunningMonitorBuilder {
    /// Nodes below another root than `/otter/canal`.
    pub fn root(self, root: impl Into<String>) -> Self {
        Self {
            root: root.into(),
            ..self
        }
    }

    /// The session that is asked for; ZooKeeper may negotiate another one, which then counts. It
    /// bounds how long a dead client keeps others waiting. Default 10 s (Java's client: 90 s).
    pub fn session(self, session: Duration) -> Self {
        Self { session, ..self }
    }

    /// From the end of the active client's node to a standby's attempt. Default 500 ms (Java's
    /// client: 5 s).
    pub fn take_over_delay(self, delay: Duration) -> Self {
        Self {
            take_over_delay: delay,
            ..self
        }
    }

    /// How long a client that was released with `"active":false` leaves the node to others.
    /// Default 5 s.
    pub fn release_pause(self, pause: Duration) -> Self {
        Self {
            release_pause: pause,
            ..self
        }
    }

    /// How long this client stays active while it can connect to no Canal server; then it lets
    /// others try, and waits from 1 s, doubling, to 30 s. Default 10 s.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Who is told of changes.
    pub fn listener(self, listener: impl ClientRunningListener) -> Self {
        Self {
            listener: Some(Box::new(listener)),
            ..self
        }
    }

    /// Starts the monitor's thread. It asks ZooKeeper nothing before a connector connects or
    /// [`join`](ClientRunningMonitor::join).
    ///
    /// # Errors
    /// As [`ClientRunningMonitor::start`].
    pub fn start(self) -> Result<ClientRunningMonitor, CanalError> {
        let destination = self.identity.destination();
        if destination.is_empty() || destination.contains('/') {
            return Err(CanalError::InvalidArgument(format!(
                "destination `{destination}` is no name of a ZooKeeper node"
            )));
        }
        if self.session < Duration::from_millis(100) {
            return Err(CanalError::InvalidArgument(
                "the running monitor's session must be at least 100 ms".to_owned(),
            ));
        }
        let machine = RunningMachine::new(Settings {
            client_id: self.identity.client_id(),
            host: host_towards(&self.ensemble),
            take_over_delay: self.take_over_delay,
            release_pause: self.release_pause,
            patience: self.patience,
        });
        let (state_shown, state) = watch::channel(RunningState::new());
        let (view_shown, view) = watch::channel(RoleView::default());
        // Few and small: one a connection.
        let (reports, inbox) = mpsc::unbounded_channel();
        // The thread sees when the last handle is gone.
        let (owner, owned) = watch::channel(());
        let identity = self.identity.clone();
        let shell = Shell::new(machine, self, state_shown, view_shown, inbox, owned);
        std::thread::Builder::new()
            .name("canal-running".to_owned())
            .spawn(move || shell.run_on_this_thread())
            .map_err(|error| CanalError::ZooKeeper(format!("no thread: {error}")))?;
        Ok(ClientRunningMonitor {
            identity,
            state,
            role: RoleHandle::new(view, reports, Arc::new(owner)),
        })
    }
}

/// This host's address as the ensemble sees it. Nothing is sent: a datagram socket that is
/// connected says which interface it would use.
fn host_towards(ensemble: &str) -> String {
    let address = || {
        let server = ensemble.split(',').next()?;
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect(server).ok()?;
        Some(socket.local_addr().ok()?.ip().to_string())
    };
    address().unwrap_or_else(|| "127.0.0.1".to_owned())
}
