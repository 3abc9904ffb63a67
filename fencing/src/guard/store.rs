//! What a store must be able to do, and the answer of a guarded step.

use std::fmt::Debug;

use super::GuardError;

/// The largest record in bytes that a store takes or reads: 64 MiB.
pub const MAX_RECORD_BYTES: usize = 64 * 1024 * 1024;

/// What came of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The record is there, whole and durable.
    Created,
    /// A record of that name was there before and is untouched.
    AlreadyExists,
}

/// A store for an [`EpochGuard`](super::EpochGuard). Calls block: from an actor go through
/// `spawn_blocking`.
///
/// Names are at most 200 bytes of ASCII letters, digits, `-`, `_` and `.`, the first no `.`.
/// Whatever implements this must pass `contract::guard_store` (feature `testing`).
pub trait GuardStore: Debug + Send + Sync + 'static {
    /// Creates a record if none has that name. It appears whole or not at all.
    ///
    /// # Errors
    /// [`GuardError::NotWritten`] when it certainly is not there; [`GuardError::Unknown`] when it
    /// may or may not be there; [`GuardError::TooLarge`] and [`GuardError::InvalidName`] before
    /// anything was touched.
    fn create_if_absent(&self, name: &str, bytes: &[u8]) -> Result<Creation, GuardError>;

    /// The names that begin with `prefix`, in no order. Every record whose creation had been
    /// answered before the call began and that was not removed is among them, and what is among
    /// them survives a loss of power. What is created or removed during the call may be missing.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`].
    fn list(&self, prefix: &str) -> Result<Vec<String>, GuardError>;

    /// A record's bytes; `None` if there is none. Not older than any listing, creation or removal that
    /// was answered before.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`]; [`GuardError::TooLarge`] before anything is allocated.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, GuardError>;

    /// Removes a record; it is no error if there is none.
    ///
    /// # Errors
    /// [`GuardError::Unavailable`]: it may or may not be there.
    fn remove(&self, name: &str) -> Result<(), GuardError>;
}

/// The answer of a guarded step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a leader that was told to step down must stop acting"]
pub enum Guarded<T> {
    /// Done, and no higher epoch was seen afterwards.
    Done(T),
    /// A higher epoch leads, or this one was used before. Stop acting as leader; a new leadership
    /// needs a new epoch. What the step was to do has not been done as far as this leader may know: a
    /// manifest that it created before the higher one chose its base *may* be in the history all the same,
    /// one that it creates later is not. To whoever waits for it the outcome is unknown.
    SteppedDown {
        /// The highest epoch that has a fence.
        highest: u64,
    },
}

impl<T> Guarded<T> {
    /// Whether it was done.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self, Guarded::Done(_))
    }

    /// The result, `None` after stepping down.
    #[must_use]
    pub fn done(self) -> Option<T> {
        match self {
            Guarded::Done(result) => Some(result),
            Guarded::SteppedDown { .. } => None,
        }
    }
}
