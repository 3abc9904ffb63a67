//! Gateways: what can be asked of an endpoint, and the handles to ask it.

pub use self::descriptor::{GatewayDescriptor, MethodDescriptor};

mod descriptor;
