//! What a leader does while it cannot reach its coordination store.

/// What happens when a leader's own deadline passes because the store could not be reached, and
/// nobody knows yet whether leadership was lost.
///
/// Under both policies no effect is made meanwhile: [`LocalDeadline::check`] refuses, since another
/// one may lead. They differ in what becomes of the leader.
///
/// [`LocalDeadline::check`]: crate::clock::LocalDeadline::check
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SuspensionPolicy {
    /// The contender is revoked at the deadline and contends anew, for a new token.
    #[default]
    Stop,
    /// The contender stays granted and goes on without effects: reads, computations, connections
    /// stay as they are. If the store then says that the leadership was never lost, effects go
    /// on under the same token; if it was, the contender is revoked, which is later than under
    /// [`Stop`](Self::Stop). For leaders whose start is expensive, and for which each effect is preceded
    /// by a check. Flink's counterpart is its tolerance of suspended ZooKeeper connections, which
    /// goes on *with* effects.
    KeepWorkingWithoutEffects,
}
