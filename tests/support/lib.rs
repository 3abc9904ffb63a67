//! What the tests across crates share: the addresses of the real servers.
