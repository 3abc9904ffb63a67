//! Tests across crates and with real servers, as one binary so that they link once.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod decoders;
mod guides;
mod manifests;
