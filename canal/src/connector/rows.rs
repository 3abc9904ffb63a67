//! Pushing rows that are decoded already, and what becomes of those that can't be.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use actix::{MailboxError, Message as ActixMessage, Recipient};
use serde::de::DeserializeOwned;

use super::actor::BatchResult;
use crate::error::CanalError;
use crate::message::{BatchId, Message};
use crate::row::{ChangeKind, RawRow, RowChange, RowError};

/// What becomes of a row that does not fit its type.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum OnDecodeError {
    /// The connector ends with [`CanalError::Row`], which names destination, position, table, column
    /// and text. Nothing of the row's batch is handed out or acknowledged: it comes again, and can
    /// be read by the next program that knows the type.
    #[default]
    Stop,
    /// The row goes here, and the others of its batch to the handler, once this one has taken it. If
    /// the result is `Err`, the batch is rolled back and everything comes again.
    DeadLetter(Recipient<DeadRow>),
    /// The handler gets the error in the row's place: [`DecodedChange::rows`] has an `Err` there.
    Raw,
}

/// Which rows are decoded, and what becomes of those that can't be.
#[derive(Debug, Clone, Default)]
pub struct RowDecoding {
    table: Option<(String, String)>,
    on_decode_error: OnDecodeError,
}

impl RowDecoding {
    /// Rows of every table that comes are decoded as the one type.
    pub fn every_table() -> Self {
        Self::default()
    }

    /// Rows of this table only; those of others are left out, also if the server's filter lets them
    /// pass: it may be another client's, or still hold from before.
    pub fn table(schema: impl Into<String>, table: impl Into<String>) -> Self {
        Self {
            table: Some((schema.into(), table.into())),
            ..Self::default()
        }
    }

    /// What becomes of a row that does not fit. Default: [`OnDecodeError::Stop`].
    pub fn on_decode_error(self, on_decode_error: OnDecodeError) -> Self {
        Self {
            on_decode_error,
            ..self
        }
    }

    pub(super) fn on_error(&self) -> &OnDecodeError {
        &self.on_decode_error
    }

    fn takes(&self, change: &RowChange) -> bool {
        let entry = change.entry();
        change.kind() != ChangeKind::Rows
            || self.table.as_ref().is_none_or(|(schema, table)| {
                (entry.schema_name(), entry.table_name()) == (schema, table)
            })
    }
}

/// A batch whose rows are decoded, for the handler of [`CanalConnector::rows`].
///
/// [`CanalConnector::rows`]: crate::CanalConnector::rows
#[derive(Debug, Clone, ActixMessage)]
#[rtype(result = "BatchResult")]
#[non_exhaustive]
pub struct DecodedBatch<T: 'static> {
    /// The batch's name.
    pub id: BatchId,
    /// Its changes, in order: rows, and statements such as schema changes.
    pub changes: Vec<DecodedChange<T>>,
}

/// One rows event or statement.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DecodedChange<T> {
    /// As it came: kind, place, text of a statement, columns as text.
    pub change: Arc<RowChange>,
    /// The rows; none of a statement. An `Err` only with [`OnDecodeError::Raw`]; its
    /// [`row`](RowError::row) says which of [`RowChange::raw_rows`] it was.
    pub rows: Vec<Result<DecodedRow<T>, RowError>>,
}

/// One row. An insert has only `after`, a delete only `before`, an update both.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodedRow<T> {
    /// Which row of the change, from 0.
    pub index: usize,
    /// The row as it was.
    pub before: Option<T>,
    /// The row as it is.
    pub after: Option<T>,
}

/// A row that could not be decoded, for the handler of dead letters. `Ok` means that it is kept
/// there: the batch can be acknowledged then.
#[derive(Debug, Clone, ActixMessage)]
#[rtype(result = "BatchResult")]
#[non_exhaustive]
pub struct DeadRow {
    /// What does not fit, and where: destination, position, table, column and text.
    pub error: RowError,
    /// The change that it was in.
    pub change: Arc<RowChange>,
}

impl DeadRow {
    /// The row as it came: every column as text.
    pub fn raw(&self) -> Option<RawRow<'_>> {
        self.change.raw_rows().nth(self.error.row())
    }
}

/// What a handler has made of a batch.
pub(super) type Outcome = Result<BatchResult, MailboxError>;

/// A batch on its way to its handler.
pub(super) struct Pushed {
    pub(super) request: Pin<Box<dyn Future<Output = Outcome>>>,
    /// Rows that could not be decoded.
    pub(super) undecodable: usize,
}

/// A handler of decoded rows, of whatever type.
pub(super) trait RowSink: Send + Sync {
    /// Decodes a batch and sends it.
    fn push(&self, message: &Message) -> Result<Pushed, CanalError>;
}

pub(super) struct TypedSink<T: Send + 'static> {
    pub(super) decoding: RowDecoding,
    pub(super) recipient: Recipient<DecodedBatch<T>>,
}

impl<T: DeserializeOwned + Send + 'static> RowSink for TypedSink<T> {
    fn push(&self, message: &Message) -> Result<Pushed, CanalError> {
        let (mut changes, mut dead, mut undecodable) = (Vec::new(), Vec::new(), 0);
        for entry in message.entries() {
            let Some(change) = entry?.row_change()?.filter(|c| self.decoding.takes(c)) else {
                continue;
            };
            let change = Arc::new(change);
            let mut rows = Vec::with_capacity(change.len());
            for (index, row) in change.rows::<T>().enumerate() {
                match row {
                    Ok(row) => rows.push(Ok(DecodedRow {
                        index,
                        before: row.before,
                        after: row.after,
                    })),
                    Err(error) => {
                        undecodable += 1;
                        match &self.decoding.on_decode_error {
                            OnDecodeError::Stop => return Err(CanalError::Row(error)),
                            OnDecodeError::Raw => rows.push(Err(error)),
                            OnDecodeError::DeadLetter(_) => dead.push(DeadRow {
                                error,
                                change: Arc::clone(&change),
                            }),
                        }
                    }
                }
            }
            changes.push(DecodedChange { change, rows });
        }
        let batch = DecodedBatch {
            id: message.id(),
            changes,
        };
        let request = self.deliver(batch, dead);
        Ok(Pushed {
            request,
            undecodable,
        })
    }
}

impl<T: Send + 'static> TypedSink<T> {
    /// The dead letters first, so that none is lost when the batch is acknowledged.
    fn deliver(
        &self,
        batch: DecodedBatch<T>,
        dead: Vec<DeadRow>,
    ) -> Pin<Box<dyn Future<Output = Outcome>>> {
        let recipient = self.recipient.clone();
        let OnDecodeError::DeadLetter(letters) = &self.decoding.on_decode_error else {
            return Box::pin(recipient.send(batch));
        };
        if dead.is_empty() {
            return Box::pin(recipient.send(batch));
        }
        let letters = letters.clone();
        Box::pin(async move {
            for row in dead {
                match letters.send(row).await {
                    Ok(Ok(())) => {}
                    refused => return refused,
                }
            }
            recipient.send(batch).await
        })
    }
}
