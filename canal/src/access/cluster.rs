//! The servers of a cluster, as ZooKeeper names them.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use zookeeper_client::{Client, Error, OneshotWatcher};

use super::CanalNodeAccessStrategy;
use crate::error::CanalError;

/// Below which Canal's servers and clients keep their nodes.
const ROOT: &str = "/otter/canal";
/// A session is only used to read, so that losing one costs nothing.
const SESSION: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);
/// Limit of the first look.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// The servers of a cluster: ZooKeeper says which of them runs the destination, and which could.
///
/// The server that runs it is dialled. While none does, as between two servers' turns, those that
/// could are taken in turn: one may begin to run it when a client subscribes. What ZooKeeper says is
/// watched by a task; while ZooKeeper is away the last view holds.
///
/// Java's `ClusterNodeAccessStrategy` fails when the cluster's node does not exist yet; this one
/// waits for it, and [`next_node`](CanalNodeAccessStrategy::next_node) fails meanwhile.
#[derive(Debug)]
pub struct ClusterNodeAccessStrategy {
    destination: String,
    view: watch::Receiver<ClusterView>,
    watching: AbortHandle,
    current: Option<String>,
    /// Rotates; starts anywhere, so that clients spread.
    turn: usize,
}

impl ClusterNodeAccessStrategy {
    /// Asks `ensemble` (`host:port`, several with commas) for the servers of `destination` and
    /// keeps watching. Needs a tokio runtime, whose tasks may run while clients are connected.
    ///
    /// # Errors
    /// [`CanalError::ZooKeeper`] when the ensemble does not answer within 10 s;
    /// [`CanalError::InvalidArgument`] for a destination that is no name of a node.
    pub async fn connect(ensemble: &str, destination: &str) -> Result<Self, CanalError> {
        Self::connect_below(ensemble, ROOT, destination).await
    }

    /// As [`connect`](Self::connect), for servers that keep their nodes below another root than
    /// `/otter/canal`.
    ///
    /// # Errors
    /// As `connect`.
    pub async fn connect_below(
        ensemble: &str,
        root: &str,
        destination: &str,
    ) -> Result<Self, CanalError> {
        if destination.is_empty() || destination.contains('/') {
            return Err(CanalError::InvalidArgument(format!(
                "destination `{destination}` is no name of a ZooKeeper node"
            )));
        }
        let folder = format!("{}/destinations/{destination}", root.trim_end_matches('/'));
        let (seen, mut view) = watch::channel(ClusterView::default());
        let watcher = Watcher {
            ensemble: ensemble.to_owned(),
            folder,
            seen,
        };
        let watching = tokio::spawn(watcher.run()).abort_handle();
        let strategy = Self {
            destination: destination.to_owned(),
            view: view.clone(),
            watching,
            current: None,
            turn: fastrand::usize(..1024),
        };
        let first = tokio::time::timeout(FIRST_LOOK, view.wait_for(|view| view.looked));
        match first.await {
            Ok(Ok(_)) => Ok(strategy),
            Ok(Err(_)) | Err(_) => Err(CanalError::ZooKeeper(format!(
                "{ensemble} did not say within {FIRST_LOOK:?} which servers there are"
            ))),
        }
    }
}

impl CanalNodeAccessStrategy for ClusterNodeAccessStrategy {
    fn current_node(&self) -> Option<String> {
        self.current.clone()
    }

    fn next_node(&mut self) -> Result<String, CanalError> {
        self.turn = self.turn.wrapping_add(1);
        let node = self.view.borrow().choose(self.turn).ok_or_else(|| {
            CanalError::Unreachable(format!(
                "no Canal server is there for `{}`",
                self.destination
            ))
        })?;
        self.current = Some(node.clone());
        Ok(node)
    }

    fn node_count(&self) -> usize {
        match &*self.view.borrow() {
            view if view.running.is_some() => 1,
            view => view.nodes.len().max(1),
        }
    }
}

impl Drop for ClusterNodeAccessStrategy {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// What ZooKeeper said last.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct ClusterView {
    looked: bool,
    /// The server that runs the destination.
    running: Option<String>,
    /// The servers that could, sorted.
    nodes: Vec<String>,
}

impl ClusterView {
    fn choose(&self, turn: usize) -> Option<String> {
        let index = turn.checked_rem(self.nodes.len());
        let other = index.and_then(|index| self.nodes.get(index));
        self.running.as_ref().or(other).cloned()
    }
}

/// The content of a `running` node; what is unknown is passed over.
#[derive(Deserialize)]
struct ServerRunningData {
    address: String,
    #[serde(default = "active_unless_said")]
    active: bool,
}

fn active_unless_said() -> bool {
    true
}

pub(crate) fn running_address(data: &[u8]) -> Option<String> {
    let data: ServerRunningData = serde_json::from_slice(data).ok()?;
    (data.active && data.address.contains(':')).then_some(data.address)
}

/// The task that keeps the view up to date.
struct Watcher {
    ensemble: String,
    folder: String,
    seen: watch::Sender<ClusterView>,
}

impl Watcher {
    async fn run(self) {
        let mut retry = FIRST_RETRY;
        loop {
            let Err(error) = self.session(&mut retry).await;
            tracing::warn!(%error, ensemble = self.ensemble, ?retry, "ZooKeeper is not there");
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(LAST_RETRY);
        }
    }

    async fn session(&self, retry: &mut Duration) -> Result<std::convert::Infallible, Error> {
        let connector = Client::connector().with_session_timeout(SESSION);
        let client = connector.connect(&self.ensemble).await?;
        let (running, cluster) = (
            format!("{}/running", self.folder),
            format!("{}/cluster", self.folder),
        );
        loop {
            let (running, running_changes) = running_server(&client, &running).await?;
            let (nodes, nodes_change) = servers(&client, &cluster).await?;
            *retry = FIRST_RETRY;
            let view = ClusterView {
                looked: true,
                running,
                nodes,
            };
            self.seen.send_if_modified(|seen| {
                let differs = *seen != view;
                *seen = view;
                differs
            });
            // An event may also say that the session is over; then the next question fails.
            tokio::select! {
                _ = running_changes.changed() => {}
                _ = nodes_change.changed() => {}
            }
        }
    }
}

async fn running_server(
    client: &Client,
    path: &str,
) -> Result<(Option<String>, OneshotWatcher), Error> {
    let (stat, watcher) = client.check_and_watch_stat(path).await?;
    if stat.is_none() {
        return Ok((None, watcher));
    }
    match client.get_data(path).await {
        Ok((data, _)) => Ok((running_address(&data), watcher)),
        Err(Error::NoNode) => Ok((None, watcher)),
        Err(error) => Err(error),
    }
}

async fn servers(client: &Client, path: &str) -> Result<(Vec<String>, OneshotWatcher), Error> {
    loop {
        match client.list_and_watch_children(path).await {
            Ok((mut nodes, watcher)) => {
                nodes.retain(|node| node.contains(':'));
                nodes.sort_unstable();
                return Ok((nodes, watcher));
            }
            Err(Error::NoNode) => {}
            Err(error) => return Err(error),
        }
        let (stat, watcher) = client.check_and_watch_stat(path).await?;
        if stat.is_none() {
            return Ok((Vec::new(), watcher));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_running_server_goes_first_and_the_others_take_turns() {
        let nodes = vec!["a:1".to_owned(), "b:2".to_owned()];
        let mut view = ClusterView {
            looked: true,
            running: None,
            nodes,
        };
        let turns: Vec<_> = (0..3).map(|turn| view.choose(turn).unwrap()).collect();
        assert_eq!(turns, ["a:1", "b:2", "a:1"]);
        view.running = Some("b:2".to_owned());
        assert_eq!(view.choose(0).as_deref(), Some("b:2"));
        assert_eq!(ClusterView::default().choose(5), None);
    }

    #[test]
    fn running_data_of_every_server_generation_is_read() {
        let address = |text: &str| running_address(text.as_bytes());
        let known = Some("10.0.0.1:11111".to_owned());
        assert_eq!(
            address(r#"{"active":true,"address":"10.0.0.1:11111"}"#),
            known
        );
        assert_eq!(
            address(r#"{"active":true,"address":"10.0.0.1:11111","cid":1}"#),
            known
        );
        assert_eq!(address(r#"{"address":"10.0.0.1:11111"}"#), known);
        assert_eq!(
            address(r#"{"active":false,"address":"10.0.0.1:11111"}"#),
            None
        );
        assert_eq!(address(r#"{"active":true,"address":"10.0.0.1"}"#), None);
        assert_eq!(address(""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_address_or_none(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = running_address(&data);
        }
    }
}
