//! What must hold whatever bytes a peer sends: the bodies of the fuzz targets in `fuzz/`, and of the
//! property tests that the ordinary run makes of them.
//!
//! No part of the interface: it may change or go with any version. A body panics when the rule that
//! it states is broken.

mod connection;
mod frames;
mod handshake;

pub use connection::connection;
pub use frames::frames;
pub use handshake::handshake;
