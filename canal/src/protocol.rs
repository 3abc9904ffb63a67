//! Canal's wire protocol: frames, packets, entries and the password's token.
//!
//! A frame is a 32-bit big-endian length and one [`Packet`](generated::packet::Packet); its body
//! is a message by the packet's type. The schemas `packet.proto` and `entry.proto` beside this
//! file are ours, with Canal's field numbers; the code made from them is committed under
//! `generated/` and a test makes it again and compares, so that neither users nor the build need
//! a protobuf compiler.

pub(crate) mod frame;
pub(crate) mod generated;
pub(crate) mod packet;
pub(crate) mod password;

#[cfg(test)]
mod drift;
#[cfg(test)]
mod golden;
