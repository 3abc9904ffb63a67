//! Retrieval by reading the Lease again and again.

use tokio::sync::watch;

use super::{Kubernetes, lease};
use crate::election::{ComponentId, ElectionError, LeaderInformation};
use crate::retrieval::show;

/// Shows the leader until nobody looks any longer. What was known stays while the API server cannot
/// be reached: a caller's call tells whether that leader still answers.
pub(super) async fn follow(
    options: Kubernetes,
    component: ComponentId,
    leader: watch::Sender<Option<LeaderInformation>>,
) {
    let reading = async {
        loop {
            if let Err(error) = read(&options, &component, &leader).await {
                tracing::debug!(%error, %component, "the leader's information cannot be read");
            }
            tokio::time::sleep(options.poll_interval).await;
        }
    };
    tokio::select! {
        () = reading => {}
        () = leader.closed() => {}
    }
}

/// Shows each change until the API server does not answer.
async fn read(
    options: &Kubernetes,
    component: &ComponentId,
    leader: &watch::Sender<Option<LeaderInformation>>,
) -> Result<(), ElectionError> {
    let api = options.connect().await?;
    loop {
        let found = api
            .get_opt(&options.name)
            .await
            .map_err(|error| ElectionError::unavailable("reading the Lease", error))?;
        let shown = match found.map(|found| (lease::information(&found, component), found)) {
            Some((Ok(Some(information)), found)) if lease::is_held_by(&found, &information) => {
                Some(information)
            }
            Some((Err(error), _)) => {
                tracing::warn!(%error, "the leader's information is damaged");
                None
            }
            _ => None,
        };
        show(leader, shown);
        tokio::time::sleep(options.poll_interval).await;
    }
}
