//! A contender that tells a test what it is told.

use std::time::Duration;

use lockkeeper_fencing::election::{
    Callback, ComponentId, ElectionError, LeaderContender, LeaderElectionDriverFactory,
    LeaderElectionOptions, LeaderElectionService, Leadership,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Debug)]
pub(crate) enum Told {
    Granted(Leadership),
    Revoked,
    Failed(ElectionError),
}

pub(crate) struct Recorder(pub(crate) UnboundedSender<Told>);

impl LeaderContender for Recorder {
    fn grant_leadership(&mut self, leadership: Leadership) -> Callback {
        let _ = self.0.send(Told::Granted(leadership));
        Box::pin(async {})
    }

    fn revoke_leadership(&mut self) -> Callback {
        let _ = self.0.send(Told::Revoked);
        Box::pin(async {})
    }

    fn handle_error(&mut self, error: ElectionError) -> Callback {
        let _ = self.0.send(Told::Failed(error));
        Box::pin(async {})
    }
}

pub(crate) fn component() -> ComponentId {
    ComponentId::new("told").unwrap()
}

/// A process that contends through this driver.
pub(crate) async fn contend(
    driver: impl LeaderElectionDriverFactory,
) -> (LeaderElectionService, UnboundedReceiver<Told>) {
    let options = LeaderElectionOptions::default();
    let service = LeaderElectionService::start(driver, options).unwrap();
    let (sender, told) = unbounded_channel();
    let election = service.election(component());
    election.start(Recorder(sender)).await.unwrap();
    (service, told)
}

/// An upper bound against hanging, not a measure.
const LIMIT: Duration = Duration::from_secs(120);

/// What comes next, but for problems that a driver goes on with by itself.
pub(crate) async fn next(told: &mut UnboundedReceiver<Told>) -> Told {
    loop {
        let next = tokio::time::timeout(LIMIT, told.recv());
        match next.await.unwrap().unwrap() {
            Told::Failed(ElectionError::Unavailable { .. }) => {}
            told => return told,
        }
    }
}

pub(crate) async fn granted(told: &mut UnboundedReceiver<Told>) -> Leadership {
    match next(told).await {
        Told::Granted(leadership) => leadership,
        other => panic!("a grant was expected, told was {other:?}"),
    }
}
