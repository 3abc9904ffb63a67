//! A worker of a region over several hosts: what `lockkeeper-region-worker` does. The region is that
//! of `word-count`; a program of yours has its own graph and the same few lines around it.

mod contend;
pub mod options;
mod place;
mod run;

pub use run::run;
