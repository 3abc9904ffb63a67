//! What a sink must be able to do.

use crate::operator::{Committer, Cut, OperatorError, Tuple};

/// A sink in two phases. Give one to a [`SinkOperator`](super::SinkOperator).
///
/// Both phases run on a blocking pool, several calls at once: while a cut is committed the next may
/// be staged. Four rules, each of which is a way to write something twice or never when it is broken:
///
/// - what is staged is durable before [`stage`](Self::stage) returns, and lies under a name that two
///   attempts never share: use the cut's number, term and attempt
/// - [`commit`](Committer::commit) that was done before does nothing, and says so by `Ok`
/// - a commit never replaces what another attempt committed under the same number: it fails with
///   [`OperatorError::Permanent`]
/// - a token whose output is gone, and that was never committed, is an error, never a silent success
///
/// The whole way of a cut: `stage` → its token goes into the cut's manifest → the manifest is
/// published → `commit(token)` → (after a restore of that cut) `commit(token)` again →
/// [`abort_all_except`](Committer::abort_all_except) for what no manifest names.
pub trait TwoPhaseSink: Committer {
    /// What it writes.
    type Tuple: Tuple;

    /// Makes the output of `cut` durable, invisible, and gives what [`commit`](Committer::commit)
    /// needs to find it again: at most some kilobytes, since it becomes a part of the manifest.
    /// `tuples` are in the order in which they came, and at least one.
    ///
    /// # Errors
    /// [`OperatorError::Retry`] resets the region, [`OperatorError::Permanent`] fails it.
    fn stage(&self, cut: Cut, tuples: Vec<Self::Tuple>) -> Result<Vec<u8>, OperatorError>;
}
