//! What must hold whatever a store holds and other processes send: the bodies of the fuzz targets in
//! `fuzz/`, and of the property tests that the ordinary run makes of them.
//!
//! No part of the interface: it may change or go with any version. A body panics when the rule that
//! it states is broken.

mod log;
mod objects;
mod state;
mod worker;

pub use log::log;
pub use objects::objects;
pub use state::state;
pub use worker::worker;
