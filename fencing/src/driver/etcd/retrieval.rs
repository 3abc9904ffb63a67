//! Retrieval by a watch on the information's key.

use std::time::Duration;

use etcd_client::{Error, EventType, ResponseHeader, WatchOptions};
use tokio::sync::watch;

use super::Etcd;
use crate::election::{ComponentId, LeaderInformation};
use crate::retrieval::show;

const RETRY: Duration = Duration::from_millis(250);

/// Shows the leader until nobody looks any longer. What was known stays while the cluster cannot
/// be reached: a caller's call tells whether that leader still answers.
pub(super) async fn follow(
    options: Etcd,
    component: ComponentId,
    leader: watch::Sender<Option<LeaderInformation>>,
) {
    let key = options.information_of(&component);
    let watching = async {
        loop {
            if let Err(error) = watch_key(&options, &key, &leader).await {
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

/// Shows each change until the watch ends.
async fn watch_key(
    options: &Etcd,
    key: &str,
    leader: &watch::Sender<Option<LeaderInformation>>,
) -> Result<(), Error> {
    let mut client = options.connect().await?;
    let found = client.get(key, None).await?;
    show(
        leader,
        found
            .kvs()
            .first()
            .and_then(|found| read(key, found.value())),
    );
    let at = found.header().map_or(0, ResponseHeader::revision);
    let from = WatchOptions::new().with_start_revision(at + 1);
    let mut changes = client.watch(key, Some(from)).await?;
    while let Some(change) = changes.message().await? {
        if change.canceled() {
            return Err(Error::WatchError(change.cancel_reason().to_owned()));
        }
        for event in change.events() {
            let now = match event.event_type() {
                EventType::Put => event.kv().and_then(|found| read(key, found.value())),
                EventType::Delete => None,
            };
            show(leader, now);
        }
    }
    Ok(())
}

fn read(key: &str, bytes: &[u8]) -> Option<LeaderInformation> {
    serde_json::from_slice(bytes)
        .inspect_err(|error| tracing::warn!(%error, key, "the leader's information is damaged"))
        .ok()
}
