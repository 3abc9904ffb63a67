//! Retrieval by a watch on the information's node.

use std::time::Duration;

use tokio::sync::watch;
use zookeeper_client::{Client, Error};

use super::ZooKeeper;
use crate::election::{ComponentId, LeaderInformation};
use crate::retrieval::show;

const RETRY: Duration = Duration::from_millis(250);

/// Shows the leader until nobody looks any longer. What was known stays while the ensemble cannot
/// be reached: a caller's call tells whether that leader still answers.
pub(super) async fn follow(
    options: ZooKeeper,
    component: ComponentId,
    leader: watch::Sender<Option<LeaderInformation>>,
) {
    let path = options.paths.information_of(&component);
    let watching = async {
        loop {
            if let Err(error) = watch_session(&options, &path, &leader).await {
                tracing::debug!(%error, %component, "the leader's information cannot be watched");
            }
            tokio::time::sleep(RETRY).await;
        }
    };
    tokio::select! {
        () = watching => {}
        () = leader.closed() => {}
    }
}

/// Shows each change until the session ends.
async fn watch_session(
    options: &ZooKeeper,
    path: &str,
    leader: &watch::Sender<Option<LeaderInformation>>,
) -> Result<(), Error> {
    let client: Client = options.connect().await?;
    loop {
        let changed = match client.get_and_watch_data(path).await {
            Ok((data, _, changed)) => {
                match serde_json::from_slice(&data) {
                    Ok(found) => show(leader, Some(found)),
                    Err(error) => {
                        tracing::warn!(%error, path, "the leader's information is damaged");
                        show(leader, None);
                    }
                }
                changed
            }
            Err(Error::NoNode) => {
                let (found, changed) = client.check_and_watch_stat(path).await?;
                if found.is_some() {
                    continue;
                }
                show(leader, None);
                changed
            }
            Err(error) => return Err(error),
        };
        let event = changed.changed().await;
        tracing::trace!(?event, path, "the leader's information has changed");
        if client.state().is_terminated() {
            return Err(Error::SessionExpired);
        }
    }
}
