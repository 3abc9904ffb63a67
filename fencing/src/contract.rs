//! The contracts of drivers and stores, as tests that every one of them runs, yours too.
//!
//! Not part of the stable interface: a release may add tests. Each function panics with what was
//! broken. Feature `testing`.

#[expect(clippy::unwrap_used, reason = "a contract is broken by a panic")]
pub mod election;
#[expect(clippy::unwrap_used, reason = "a contract is broken by a panic")]
pub mod guard_store;
