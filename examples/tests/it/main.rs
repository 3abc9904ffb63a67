//! The examples as users start them.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

#[cfg(feature = "kubernetes")]
#[path = "../../../fencing/tests/it/kubernetes/api_server.rs"]
mod api_server;
mod browser;
mod console;
mod counter;
mod guides;
mod leader;
mod lockkeeper;
mod markdown;
mod migration;
mod orders;
mod pages;
mod region;
mod region_worker;
mod settings;
mod support;
mod terminate;
mod to_kafka;
mod unread;
mod word_count;
