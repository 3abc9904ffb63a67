//! A source that is not the one that was read before.

/// What a source does when what it reads is not what it read before a reset: another file under the
/// same name, another database behind the server, a log that was started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnSourceChange {
    /// The region goes to its failed state and says what differs. Nothing is lost or doubled.
    #[default]
    Stop,
    /// Takes everything that comes from now on, recognising nothing of it: rows that were counted
    /// before may be counted again, and rows that the old source still had are lost. The source
    /// counts such changes in its state, so that `lockkeeper-region inspect` shows them with each
    /// cut.
    AtLeastOnce,
}
