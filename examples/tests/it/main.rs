//! The examples as users start them.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod counter;
mod leader;
mod migration;
mod pages;
mod support;
mod to_kafka;
mod word_count;
