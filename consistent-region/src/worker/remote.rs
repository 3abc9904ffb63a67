//! A worker among worker processes: its endpoint, and the streams that cross its border.

mod endpoint;
mod inbound;
mod outbound;

pub use endpoint::{PushNotice, StreamFrame, StreamGateway, WorkerGateway};

pub(crate) use endpoint::{WorkerEndpoint, start};
pub(crate) use inbound::InboundStreams;
pub(crate) use outbound::{Border, Generation, send_stream};
