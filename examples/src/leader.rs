//! The example `leader`: exactly one of three processes acts, and callers see no change of leader.

pub mod counter;
pub mod node;
pub mod options;
pub mod place;
pub mod run;
