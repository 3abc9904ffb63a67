//! What the connector takes for its handler.
//!
//! An actor of its own, so that the connector does not keep the snapshot's actor alive.

use actix::{Actor, Context, Handler, ResponseFuture};
use tokio::sync::{mpsc, oneshot};

use crate::connector::{Batch, BatchResult};
use crate::message::Message;

/// A batch, and who waits for it.
pub(super) struct Job {
    pub(super) message: Message,
    pub(super) reply: oneshot::Sender<BatchResult>,
}

pub(super) struct Intake {
    pub(super) jobs: mpsc::Sender<Job>,
}

impl Actor for Intake {
    type Context = Context<Self>;
}

impl Handler<Batch> for Intake {
    type Result = ResponseFuture<BatchResult>;

    fn handle(&mut self, batch: Batch, _: &mut Self::Context) -> Self::Result {
        let (reply, answered) = oneshot::channel();
        let message = batch.message;
        let sent = self.jobs.try_send(Job { message, reply });
        Box::pin(async move {
            let refused = || Err("the snapshot takes no batch now".into());
            match (sent, answered.await) {
                (Ok(()), Ok(result)) => result,
                _ => refused(),
            }
        })
    }
}
