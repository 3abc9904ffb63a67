//! End operators that write what lasts, exactly once.
//!
//! | sink | writes to | exactly once because |
//! |---|---|---|
//! | [`FileSink`] | one file a cut | a file appears by a link that can be made once |
//! | `SqlSink` (feature `sql`) | tables of MariaDB or MySQL | (region, sink, seq) is a primary key, written in the rows' own transaction |
//! | [`IdempotentSink`] | what recognises a repeated id | every output has an id that is the same each time |
//! | [`SinkOperator`] with a [`TwoPhaseSink`] of yours | anything that can stage | two phases |
//!
//! A sink works in two phases: the output of a cut is staged under a name of its own (cut, term,
//! attempt) and made visible once the cut's manifest is published. So a cut that is given up leaves
//! nothing behind, and one that is complete is committed even when the process dies in between (S27
//! of the semantics list, issue 7).
//!
//! An operator that changes a system outside while tuples come, rather than at a cut, goes back with
//! it at a reset through [`Committer::take_back_above`](crate::operator::Committer::take_back_above),
//! which is told the cut before any tuple comes again.

mod file;
mod folder;
mod idempotent;
mod operator;
#[cfg(feature = "sql")]
mod sql;
mod two_phase;

pub use file::{FileOutput, FileSink, WriteCut};
pub(crate) use folder::SinkFolder;
pub use idempotent::{Delivery, IdempotentOutput, IdempotentSink, IdempotentTarget, OutputId};
pub use operator::SinkOperator;
#[cfg(feature = "sql")]
pub use sql::{MapRows, SqlOutput, SqlSettings, SqlSink, SqlValue, Statement};
pub use two_phase::TwoPhaseSink;
