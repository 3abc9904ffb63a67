//! The examples as users start them.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod counter;
mod leader;
mod migration;
mod pages;
mod support;
mod word_count;
