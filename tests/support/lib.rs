//! What the tests across crates share: the addresses of the real servers.

/// The README's examples compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// So do those of the guide to Canal.
#[cfg(doctest)]
#[doc = include_str!("../../docs/canal.md")]
pub struct CanalGuide;
