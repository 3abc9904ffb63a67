//! End operators that write what lasts, exactly once.
//!
//! A sink is an [`Operator`](crate::operator::Operator) whose
//! [`prepare`](crate::operator::Operator::prepare) stages the output of a cut under a name of its
//! own (cut, term, attempt) and whose [`Committer`](crate::operator::Committer) makes it visible
//! once the cut's manifest is published: two phases, so that a cut that is given up leaves nothing
//! behind, and one that is complete is committed even when the process dies in between (S27 of the
//! semantics list, issue 7). [`FileSink`] does that for files.
//!
//! Whoever writes a sink of their own keeps to four rules: a staged name is never shared by two
//! attempts; a commit that was done before does nothing; a commit never replaces another
//! attempt's; what no retained cut names is thrown away at a reset.

mod file;
mod folder;

pub use file::{FileSink, WriteCut};
