//! Reads the tables, one chunk after the other, and tells the driver.

use std::time::Duration;

use actix::Addr;
use tokio::sync::{mpsc, oneshot};

use super::error::SnapshotError;
use super::key::Key;
use super::merge::{Chunk, Settled, Watermarks};
use super::settings::{SnapshotDatabase, SnapshotSettings};
use super::sql::{Database, Rows};
use crate::connector::{Backoff, CanalConnector, GetStatus};

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
}

/// What is to be read.
pub(super) struct Next {
    pub(super) table: usize,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) after: Option<Key>,
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
        let (mut open, mut lost) = (None, 0);
        loop {
            let step = self.chunk(&mut open).await;
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
                    open = None;
                    let wait = waits.failed(fastrand::f64());
                    let retryable = error.is_retryable();
                    (error, wait.filter(|_| retryable))
                }
            };
            let Some(wait) = wait else {
                return Err(error);
            };
            tracing::warn!(%error, ?wait, "a chunk is read again");
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

    async fn chunk(&self, open: &mut Option<Database>) -> Result<Step, SnapshotError> {
        let Some(next) = self.ask(Request::Next).await else {
            return Ok(Step::Finished);
        };
        let database = match open {
            Some(database) => database,
            None => {
                let mut database = Database::connect(&self.database).await?;
                database.make_watermarks(&self.watermarks).await?;
                open.insert(database)
            }
        };
        let (schema, name) = (next.schema.as_str(), next.name.as_str());
        let again = |reason: &str| {
            Step::Again(Again {
                table: format!("{schema}.{name}"),
                reason: reason.to_owned(),
            })
        };
        let key = database.columns(schema, name).await?.key().to_vec();
        let mark = format!("{:032x}", fastrand::u128(..));
        let (low, high) = (format!("low {mark}"), format!("high {mark}"));
        let chunk = Chunk {
            table: next.table,
            key: key.clone(),
            low: low.clone(),
            high: high.clone(),
        };
        self.ask(|reply| Request::Begin(chunk, reply)).await?;
        database.write(&self.watermarks, &low).await?;
        // A table that is altered from here on is noticed between the watermarks.
        let columns = database.columns(schema, name).await?;
        if *columns.key() != key {
            return Ok(again("its primary key was changed meanwhile"));
        }
        let limit = self.settings.chunk_rows;
        let rows = database
            .rows((schema, name), &columns, next.after.as_ref(), limit)
            .await?;
        self.ask(|reply| Request::Loaded(rows, reply)).await;
        database.write(&self.watermarks, &high).await?;
        Ok(match self.ask(Request::Settle).await {
            Outcome::Settled(Settled::Done { .. }) => Step::Read,
            Outcome::Settled(Settled::Again { reason }) => again(reason),
            Outcome::Lost => Step::Lost,
        })
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
