//! Pause and resume of a connector, by its messages or from a console.

use lockkeeper_core::status::{ActionFuture, StatusAction, StatusControl};
use tokio::sync::watch;

use super::delivery::Desired;

/// No batch is fetched from now on. One that stops is not held up.
pub(super) fn pause(desired: &watch::Sender<Desired>) {
    turn(desired, Desired::Running, Desired::Paused);
}

/// Goes on, if it is paused.
pub(super) fn resume(desired: &watch::Sender<Desired>) {
    turn(desired, Desired::Paused, Desired::Running);
}

fn turn(desired: &watch::Sender<Desired>, from: Desired, to: Desired) {
    desired.send_if_modified(|desired| {
        let turns = *desired == from;
        if turns {
            *desired = to;
        }
        turns
    });
}

/// What a console can do with a connector that has not ended.
#[derive(Debug)]
pub(super) struct ConnectorControl(pub(super) watch::Sender<Desired>);

impl StatusControl for ConnectorControl {
    fn actions(&self) -> Vec<StatusAction> {
        match *self.0.borrow() {
            Desired::Running => vec![StatusAction::new(
                "pause",
                "No batch is fetched until it is resumed, or the process starts again.",
            )],
            Desired::Paused => vec![StatusAction::new("resume", "Batches are fetched again.")],
            Desired::Stopping => Vec::new(),
        }
    }

    fn act(&self, action: &str) -> ActionFuture {
        let done = match action {
            "pause" => {
                pause(&self.0);
                Ok("no batch is fetched from now on".to_owned())
            }
            "resume" => {
                resume(&self.0);
                Ok("batches are fetched again".to_owned())
            }
            other => Err(format!("a connector has no action {other:?}")),
        };
        Box::pin(std::future::ready(done))
    }
}
