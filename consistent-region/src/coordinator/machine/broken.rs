//! Rules that are broken on purpose, one at a time, to show that the simulator notices.

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// Messages leave before the record that covers them is durable.
    MessageBeforeRecord,
    /// A reset goes on with the number of the cut that it aborted.
    NumberUsedAgain,
    /// An acknowledgement counts whatever it is about.
    StaleAcknowledgementTaken,
    /// A silent worker is taken for dead before its lease is over.
    LeaseCutShort,
    /// A new term forgets who may still act under the former one.
    GhostsForgotten,
}
