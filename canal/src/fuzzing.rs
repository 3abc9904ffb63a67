//! What must hold whatever bytes a server, ZooKeeper or a queue gives: the bodies of the fuzz targets
//! in `fuzz/`, and of the property tests that the ordinary run makes of them.
//!
//! No part of the interface: it may change or go with any version. A body panics when the rule that
//! it states is broken.

mod queue;
mod row;
mod server;
mod zookeeper;

pub use queue::queue;
pub use row::{entry, row};
pub use server::server;
pub use zookeeper::zookeeper;
