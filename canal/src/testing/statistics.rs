//! What a script can assert about: counts of what clients did.

use super::source::SourceError;

/// Counts since the server was started; a restart does not reset them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Connections that were accepted, by the whole server.
    pub connections: u64,
    /// Connections that are open now, of the whole server.
    pub open_connections: u64,
    /// Frames above the limit, negative lengths, garbage: connections that the server closed for
    /// what a client sent, of the whole server.
    pub broken_connections: u64,
    /// Connections that the server closed because nothing was read or written for too long.
    pub idle_connections_closed: u64,
    /// SUBSCRIPTIONs that were accepted, those within an authentication included.
    pub subscriptions: u64,
    /// UNSUBSCRIPTIONs that were accepted.
    pub unsubscriptions: u64,
    /// HEARTBEATs, which name no destination, by the whole server: clients ask by them whether it lives.
    pub heartbeats: u64,
    /// GETs that were answered, with entries or without.
    pub gets: u64,
    /// Batches that were handed out.
    pub batches: u64,
    /// Batches that are handed out and neither acknowledged nor given back.
    pub outstanding_batches: u64,
    /// CLIENTACKs that took effect.
    pub acks: u64,
    /// CLIENTACKs with batch id -1, which do nothing.
    pub empty_acks: u64,
    /// CLIENTROLLBACKs that took effect.
    pub rollbacks: u64,
    /// Requests for this destination that were answered with an error.
    pub refused: u64,
    /// Entries that were handed out, each time.
    pub delivered_entries: u64,
    /// Entries that were acknowledged; those that a restart delivers again count again.
    pub acked_entries: u64,
    /// Rows in acknowledged entries, counting an update once.
    pub acked_rows: u64,
    /// Transaction ends in acknowledged entries.
    pub acked_transactions: u64,
    /// Transactions that the server took from the script.
    pub taken_transactions: u64,
    /// Entries in the store that are not acknowledged.
    pub unacknowledged_entries: u64,
    /// Whether the [`RowSource`](super::RowSource) has said that it is at its end.
    pub source_ended: bool,
    /// Why the `RowSource` is not asked any more, if it failed.
    pub source_error: Option<SourceError>,
    /// The filter in force.
    pub filter: String,
}

/// Counts of the whole server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionCounts {
    pub(crate) accepted: u64,
    pub(crate) broken: u64,
    pub(crate) idle: u64,
    pub(crate) heartbeats: u64,
}
