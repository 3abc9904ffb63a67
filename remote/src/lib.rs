//! lockkeeper-core's typed calls over TCP.
//!
//! [`RemoteBuilderExt::bind`] gives an `RpcService` a transport; from then on its endpoints can be
//! called from other processes, and its gateways reach theirs. Nothing else in the program changes.
//!
//! A pair of processes has one connection, used both ways. Every call resolves exactly once, with
//! an error that says whether it may have run: when the peer is killed, stopped, cut off or talks
//! nonsense. A lost connection is made again by the next use; a gateway whose peer process was
//! restarted says `Restarted`.
//!
//! Nothing is encrypted and nobody has to prove who he is: services listen on loopback only, unless
//! [`RemoteBuilder::allow_insecure`] says otherwise.
//!
//! Where things are, from the bytes up:
//!
//! | module | subject |
//! |---|---|
//! | `wire` | bytes ↔ frames; `docs/wire.md` is its specification |
//! | `connection` | the pure machine of one connection |
//! | `link` | a connection with its socket, on the I/O thread |
//! | `peers` | which connection leads to which process |
//! | `session` | a gateway's session, which outlives its connection |
//! | `shared`, `listener`, `transport` | dialling, accepting, the seam to core |
//! | `builder`, `settings` | what a user sets |

mod builder;
mod connection;
mod errors;
mod io_thread;
mod link;
mod listener;
mod peers;
mod quiet_log;
mod session;
mod settings;
mod shared;
mod transport;
mod wire;

#[cfg(test)]
mod tests;

pub use builder::{RemoteBuilder, RemoteBuilderExt};
pub use settings::{MAX_FRAME_LIMIT_BYTES, MIN_FRAME_LIMIT_BYTES, RemoteSettings};
