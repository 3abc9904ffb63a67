//! What can go wrong while rows from before are read.

use crate::error::CanalError;

/// An error of a snapshot, by what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The database did not answer, or not in time. It is tried again.
    #[error("the database: {0}")]
    Database(String),
    /// The database is not set up so that rows can be read together with their changes.
    #[error("the database has {setting} = {value}: it must be {wanted}")]
    Setting {
        /// The variable.
        setting: &'static str,
        /// What it is.
        value: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// The table is not there, or the user may not read it.
    #[error("there is no table {table}, or this user may not read it")]
    NoTable {
        /// The table, as `schema.table`.
        table: String,
    },
    /// The table's engine has no transactions, so that its rows cannot be seen as of one moment.
    #[error(
        "table {table} is of engine {engine}, which has no transactions: its rows cannot be seen as \
         of one moment; alter it to InnoDB, or read with watermarks"
    )]
    Engine {
        /// The table, as `schema.table`.
        table: String,
        /// Its engine.
        engine: String,
    },
    /// The table's primary key cannot be read in chunks: there is none, or the order of a column's
    /// type is the database's own secret, as with collations that know no bytes.
    #[error(
        "table {table} cannot be read in chunks: {reason}; it needs a primary key of integers, \
         binary columns, dates, or characters with a binary collation (such as utf8mb4_bin)"
    )]
    Key {
        /// The table, as `schema.table`.
        table: String,
        /// What is wrong with the key.
        reason: String,
    },
    /// A change came without the whole row, as with `binlog_row_image = MINIMAL` in a session.
    #[error("a change of {table} at {position} came without its primary key's columns")]
    RowImage {
        /// The table, as `schema.table`.
        table: String,
        /// Where the database wrote it.
        position: String,
    },
    /// Watermarks that were written to the database do not come through Canal: its filter was
    /// replaced by another client, or it follows another database.
    #[error(
        "no watermark written to {table} comes through Canal: does its server follow this \
         database, and does no other client replace the destination's filter?"
    )]
    NoWatermarks {
        /// The watermarks' table, as `schema.table`.
        table: String,
    },
    /// A chunk had to be read again too often, because its table was changed meanwhile.
    #[error("a chunk of {table} was read {times} times in vain: {reason}")]
    TooManyRetries {
        /// The table, as `schema.table`.
        table: String,
        /// How often.
        times: u32,
        /// Why the last time.
        reason: String,
    },
    /// The store of the snapshot's state failed, or what it has is of another table or release.
    #[error("the snapshot's state: {0}")]
    State(String),
    /// The connection to Canal ended for good.
    #[error(transparent)]
    Canal(#[from] CanalError),
    /// A setting that cannot work, with what to do.
    #[error("{0}")]
    InvalidArgument(String),
}

impl SnapshotError {
    /// Whether trying again, now or a little later, can help without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Database(_) | Self::State(_) => true,
            Self::Canal(error) => error.is_retryable(),
            _ => false,
        }
    }
}

const _: () = {
    const fn travels<T: Send + Sync + Clone + 'static>() {}
    travels::<SnapshotError>();
};
