//! The seam between core and a network: what a transport does for callers, and what an endpoint
//! does for a transport.
//!
//! Core knows no sockets. `lockkeeper-remote` implements [`Transport`] and [`RemoteSession`] for
//! calls that go out, and feeds calls that come in to the [`InboundEndpoint`]s that it finds in the
//! [`EndpointTable`]. Payloads are messages encoded by core's [`codec`](crate::codec).

pub use self::inbound::{
    Caller, EndpointTable, Handshake, InboundCall, InboundEndpoint, InboundSession, ReplySink,
};
pub use self::outbound::{ConnectRequest, OutboundCall, RemoteSession, Transport};

mod inbound;
mod outbound;
