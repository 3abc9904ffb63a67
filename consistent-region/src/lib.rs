//! Consistent regions over actix actors: a graph of operator actors that is drained, checkpointed
//! and reset as one, so that its state counts every row exactly once although processes die.
//!
//! The rooms, in the order in which a cut passes through them:
//! - [`protocol`]: what coordinator and workers say to each other
//! - [`operator`]: what an actor must be able to do to take part
//! - [`graph`]: which operators a region has and what flows between them
//! - [`state`]: state that is large, keyed, or restored at another width
//! - [`stream`]: how tuples flow
//! - [`source`]: start operators that can be read again after a reset
//! - [`sink`]: end operators that write what lasts, exactly once
//! - [`worker`]: runs the operators of one process
//! - [`store`]: where checkpoint objects lie; [`manifest`]: what makes a set of them one cut
//! - [`archive`]: a store as a person looks at it from outside
//! - [`coordinator`]: what decides when to drain, what is complete, what to go back to
//! - [`admin`]: what an operator asks of a running region, as an endpoint
//! - [`link`]: how coordinator and workers reach each other
//! - [`process`]: how the death of a worker's process is proved, and who starts it
//! - [`point`]: where tests kill and stop processes; `testing` (feature `testing`): operators for tests
//!
//! Words and rules follow IBM Streams' consistent regions; where this crate differs on purpose,
//! the place says so.

pub mod admin;
pub mod archive;
pub mod coordinator;
#[cfg(feature = "_fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod graph;
pub mod link;
pub mod manifest;
pub mod operator;
pub mod point;
pub mod prelude;
pub mod process;
pub mod protocol;
mod shared;
pub mod sink;
pub mod source;
pub mod state;
pub mod store;
pub mod stream;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod worker;
