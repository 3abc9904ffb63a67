//! Reads the tables, one chunk after the other, and tells the driver.

mod moments;
mod watermarks;

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use tokio::sync::{mpsc, oneshot};

use super::entries::ReadAt;
use super::error::SnapshotError;
use super::key::{Key, KeyColumn};
use super::merge::{Chunk, Settled, Watermarks};
use super::moment::Moment;
use super::settings::{SnapshotDatabase, SnapshotMode, SnapshotSettings};
use super::sql::Rows;
use super::state::{Bound, TableState};
use crate::connector::{Backoff, CanalConnector, GetStatus};
use crate::protocol::generated::entry as wire;

/// Between two looks whether Canal's server is followed already.
const LOOK: Duration = Duration::from_millis(20);

/// How often in a row watermarks may stay away while Canal's server has nothing to send.
const LOST_LIMIT: u32 = 3;

/// What the reader asks of the driver, which has the merge.
pub(super) enum Request {
    /// What to read.
    Next(oneshot::Sender<Option<Next>>),
    /// A chunk begins: its low watermark is about to be written.
    Begin(Chunk, oneshot::Sender<Result<(), SnapshotError>>),
    /// It is read: its high watermark is about to be written.
    Loaded(Rows, oneshot::Sender<()>),
    /// What has become of it?
    Settle(oneshot::Sender<Outcome>),
    /// What is to be read of all tables, as of one moment.
    Rest(oneshot::Sender<Vec<Next>>),
    /// A table is read by this key.
    Table(
        usize,
        Vec<KeyColumn>,
        oneshot::Sender<Result<(), SnapshotError>>,
    ),
    /// Rows for the handler.
    HandOut(Arc<HandOut>, oneshot::Sender<HandedOut>),
}

/// Rows of a table as of a moment, from the last that was handed out to a bound.
pub(super) struct HandOut {
    pub(super) table: usize,
    pub(super) to: Bound,
    pub(super) moment: Moment,
    pub(super) at: ReadAt,
    pub(super) rows: Vec<Vec<wire::Column>>,
}

/// What has become of them.
pub(super) enum HandedOut {
    Done,
    /// The handler or the store failed, and says why.
    Refused(String),
}

/// What is to be read.
pub(super) struct Next {
    pub(super) table: usize,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) after: Option<Key>,
}

impl Next {
    pub(super) fn of(table: usize, state: &TableState) -> Self {
        Self {
            table,
            schema: state.schema.clone(),
            name: state.table.clone(),
            after: state.through.clone(),
        }
    }
}

/// What has become of a chunk.
pub(super) enum Outcome {
    Settled(Settled),
    /// Its watermarks do not come.
    Lost,
}

pub(super) struct Reader {
    pub(super) settings: SnapshotSettings,
    pub(super) database: SnapshotDatabase,
    pub(super) watermarks: Watermarks,
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) connector: Addr<CanalConnector>,
    /// What went wrong, for the status.
    pub(super) troubles: mpsc::UnboundedSender<Option<SnapshotError>>,
}

/// Why a chunk has to be read again.
struct Again {
    table: String,
    reason: String,
}

enum Step {
    Read,
    Again(Again),
    Lost,
    Finished,
}

impl Reader {
    /// Reads until every row was handled.
    pub(super) async fn run(self) -> Result<(), SnapshotError> {
        self.followed().await;
        let SnapshotSettings {
            first_back_off,
            longest_back_off,
            retry_limit,
            ..
        } = self.settings;
        let mut waits = Backoff::new(first_back_off, longest_back_off, Some(retry_limit));
        let (mut marked, mut moment, mut lost) = (None, None, 0);
        loop {
            let step = match self.settings.mode {
                SnapshotMode::Watermarks => self.watermarked(&mut marked).await,
                mode => self.as_of_moment(mode, &mut moment).await,
            };
            let (error, wait) = match step {
                Ok(Step::Finished) => return Ok(()),
                Ok(Step::Read) => {
                    (waits, lost) = (
                        Backoff::new(first_back_off, longest_back_off, Some(retry_limit)),
                        0,
                    );
                    // Whoever listens is gone when this is.
                    let _ = self.troubles.send(None);
                    continue;
                }
                Ok(Step::Lost) => {
                    lost += 1;
                    let Watermarks { schema, table, .. } = &self.watermarks;
                    let error = SnapshotError::NoWatermarks {
                        table: format!("{schema}.{table}"),
                    };
                    (
                        error,
                        waits.failed(fastrand::f64()).filter(|_| lost < LOST_LIMIT),
                    )
                }
                Ok(Step::Again(Again { table, reason })) => {
                    let wait = waits.failed(fastrand::f64());
                    let times = waits.failures();
                    (
                        SnapshotError::TooManyRetries {
                            table,
                            times,
                            reason,
                        },
                        wait,
                    )
                }
                Err(error) => {
                    (marked, moment) = (None, None);
                    let wait = waits.failed(fastrand::f64());
                    let retryable = error.is_retryable();
                    (error, wait.filter(|_| retryable))
                }
            };
            let Some(wait) = wait else {
                return Err(error);
            };
            tracing::warn!(%error, ?wait, "reading is tried again");
            let _ = self.troubles.send(Some(error));
            tokio::time::sleep(wait).await;
        }
    }

    /// Resolves when the subscription stands: from then on the server takes in what is written.
    async fn followed(&self) {
        loop {
            match self.connector.send(GetStatus).await {
                Ok(status) if status.connections > 0 => return,
                // The driver ends when the connector has.
                Ok(_) | Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// The driver's answer. It outlives the reader; should it not, the reader waits and is dropped.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> T {
        let (reply, answer) = oneshot::channel();
        if self.requests.send(request(reply)).await.is_ok()
            && let Ok(answer) = answer.await
        {
            return answer;
        }
        std::future::pending().await
    }
}
