//! A region without Canal: counts the words of a text file, exactly once although its process is killed.
//!
//! lines (start) → words (splits) → counts (keyed) → files (one a cut).

pub mod counts;
pub mod graph;
pub mod options;
pub mod output;
pub mod run;
#[cfg(test)]
mod tests;
pub mod words;
