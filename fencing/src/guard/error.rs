//! What can go wrong with a guard or its store, by what the caller can do.

use std::io;

use lockkeeper_core::token::Lineage;

use super::ManifestId;

/// An error of a guard or its store. That a leader was deposed is no error:
/// see [`Guarded`](super::Guarded).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The record is certainly not there. The same step may be tried again.
    #[error("record {name} was not written: {source}; it is not in the store, try again")]
    NotWritten {
        /// The record's name.
        name: String,
        /// What the store said.
        source: io::Error,
    },
    /// The record may or may not be there, now or after a restart of the machine. A guard refuses
    /// every further step: give up the leadership and enter again with a new epoch.
    #[error("record {name} may or may not be in the store: {source}; enter with a new epoch")]
    Unknown {
        /// The record's name.
        name: String,
        /// What the store said.
        source: io::Error,
    },
    /// The store could not be read. Nothing was changed; try again later.
    #[error("the store cannot be reached for {what}: {source}; try again later")]
    Unavailable {
        /// What was asked of it.
        what: String,
        /// What the store said.
        source: io::Error,
    },
    /// A record of the guard is not what was written. Somebody has to look at the store.
    #[error("record {name} is damaged: {reason}; restore the store from a copy")]
    Corrupt {
        /// The record's name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The record is larger than a store takes.
    #[error("record {name} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// The record's name.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The name has other characters than a store takes, or is too long.
    #[error("{name:?} is no name for a record: use 1 to 200 of A-Z a-z 0-9 - _ . and no leading .")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// Sequence numbers only grow.
    #[error("sequence {offered} is not above the newest published one, {newest}")]
    SequenceNotAbove {
        /// What was to be published.
        offered: u64,
        /// What has been published.
        newest: u64,
    },
    /// The token's epoch counts in another history than that of this store's fences: another
    /// coordination store, a new data directory, a restored backup. Nothing was changed. Whether the
    /// former leaders are really gone only an operator knows:
    /// [`adopt_lineage`](super::adopt_lineage).
    #[error(
        "the leadership is of lineage {found}, and this store's fences are of lineage {expected}; \
         make sure that no leader of the former one is left, then adopt the new one"
    )]
    LineageChanged {
        /// The lineage of the fences.
        expected: Lineage,
        /// The one of the token.
        found: Lineage,
    },
    /// The token's epoch plus what former lineages have used is above 2^64 - 1.
    #[error("epoch {epoch} above {above} is no number of 64 bits; begin a new store")]
    EpochsExhausted {
        /// The token's epoch.
        epoch: u64,
        /// What former lineages have used.
        above: u64,
    },
    /// Epochs begin with 1.
    #[error("epoch 0 is no epoch: they begin with 1")]
    EpochZero,
    /// No manifest from the newest down to the floor can be used. What became irreversible
    /// (acknowledgements, commits) forbids to fall back further.
    #[error("no manifest from {newest:?} down to sequence {floor} can be used: {reason}")]
    FallBackRefused {
        /// The newest manifest of the chain.
        newest: Option<ManifestId>,
        /// The lowest sequence that was allowed.
        floor: u64,
        /// Why the last one that was looked at cannot be used.
        reason: String,
    },
    /// A new leader is about to choose its base, so nobody can say which manifest is the newest.
    /// Try again; if it stays, that leader has died and the next one will settle it.
    #[error("a leader with epoch {fence} is taking over; try again")]
    Unsettled {
        /// The highest epoch that has a fence.
        fence: u64,
    },
    /// An earlier step of this guard or store ended with [`Unknown`](Self::Unknown).
    #[error("an earlier write had an unknown outcome; enter with a new epoch")]
    Spent,
}

impl GuardError {
    /// Whether the same call may be made again with the same guard.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            GuardError::NotWritten { .. }
                | GuardError::Unavailable { .. }
                | GuardError::Unsettled { .. }
        )
    }
}
