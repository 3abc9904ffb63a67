//! Connectors: they own the connection and carry out what the session machine says.

mod builder;
mod connection;
mod simple;

pub use builder::CanalConnectorBuilder;
pub use simple::SimpleCanalConnector;
