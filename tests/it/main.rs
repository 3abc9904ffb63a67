//! Tests across crates and with real servers, as one binary so that they link once.
