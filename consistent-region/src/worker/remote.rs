//! A worker among worker processes: its endpoint, and the streams that cross its border.

mod border;
mod endpoint;
mod inbound;
mod outbound;

pub use endpoint::{StreamFrame, StreamGateway};

pub(crate) use border::Border;
pub(crate) use endpoint::{WorkerEndpoint, start};
pub(crate) use inbound::InboundStreams;
pub(crate) use outbound::Generation;
