//! Leader, standby, caller and coordination servers in network namespaces of their own, with cuts
//! between them.
//!
//! A register behind the leader is written and read all the time, by several at once; what they saw is
//! checked for linearizability: one register alone could have answered so. Its reads come from the
//! leader's memory, and are right only if the leader's own deadline is.
//!
//! Where namespaces are not permitted these tests are skipped, say so, and tell how many.

mod caller;
mod child;
mod clock_step;
mod ensemble;
mod history;
mod member;
mod network;
mod old_leader;
mod one_server;
mod place;
mod register;
mod stage;
mod two_callers;
