//! The integration tests of lockkeeper-core, one binary.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]

mod actix_side;
mod calls;
mod connect;
mod contract;
mod fencing;
mod inbox;
mod jobs;
mod life;
mod resources;
mod seam;
mod serial;
mod service;
mod status;
mod supervision;
mod support;
mod testing_kit;
mod trace;
#[cfg(feature = "web")]
mod web;
