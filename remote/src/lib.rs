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
//! ```
//! use actix::prelude::*;
//! use lockkeeper_core::prelude::*;
//! use lockkeeper_remote::RemoteBuilderExt;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Message, Serialize, Deserialize)]
//! #[rtype(result = "i64")]
//! struct Add(i64);
//!
//! rpc_gateway! { CounterGateway("example.Counter", version = 1) { Add } }
//!
//! #[derive(RpcEndpoint, Default)]
//! #[rpc(gateways(CounterGateway))]
//! struct Counter { total: i64 }
//!
//! impl Actor for Counter { type Context = Context<Self>; }
//!
//! impl Handler<Add> for Counter {
//!     type Result = i64;
//!     fn handle(&mut self, Add(number): Add, _: &mut Context<Self>) -> i64 {
//!         self.total += number;
//!         self.total
//!     }
//! }
//!
//! # fn main() -> Result<(), RpcError> {
//! # System::new().block_on(async {
//! // In one process:
//! let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
//! let server = service.start_server("counter", Counter::default()).await?;
//! server.start().await?;
//! let address = server.address(); // lockkeeper://127.0.0.1:PORT/counter
//!
//! // In another:
//! let service = RpcService::builder().bind("127.0.0.1:0").start().await?;
//! let counter = service.connect::<CounterGateway>(&address).await?;
//! assert_eq!(counter.send(Add(5)).await?, 5);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! # What a handshake compares
//!
//! Both processes name their protocol versions, their run, their application's version and the largest
//! frame that they take; a gateway its name, version and methods, its token, and the shapes of its
//! messages and replies. What does not fit is refused at `connect`, by name, and not in the middle of
//! a call: see [`check_shapes`](lockkeeper_core::RpcServiceBuilder::check_shapes) for upgrades one
//! process after the other.
//!
//! # Who may connect
//!
//! By default nothing is encrypted and nobody has to prove who he is, and services listen on
//! loopback only. To listen beyond it, set one or both of
//! - mutual TLS (feature `tls`, `RemoteBuilder::tls`): encrypted, and both sides show a certificate;
//! - shared keys (feature `shared-key`, `RemoteBuilder::shared_keys`): both sides prove that they
//!   know a key; nothing is encrypted;
//!
//! or say [`RemoteBuilder::allow_insecure`]. Who was let in is believed where it says that it
//! listens, and gets the calls to that address; there are no rights within a service.
//!
//! # What is seen
//!
//! The service's status registry has a source `connections of HOST:PORT`, and whatever recorder of
//! the `metrics` façade is installed gets
//!
//! | name | kind | unit |
//! |---|---|---|
//! | `lockkeeper_remote_connections` | gauge | connections |
//! | `lockkeeper_remote_calls_in_flight` | gauge | calls of this process to others |
//! | `lockkeeper_remote_received_bytes_total`, `…_sent_bytes_total` | counter | bytes of frames |
//! | `lockkeeper_remote_reconnects_total` | counter | sessions that were opened anew |
//! | `lockkeeper_remote_without_credit_total` | counter | one-way messages refused with `Full` |
//! | `lockkeeper_remote_refused_total` | counter, by `reason` | strangers |
//!
//! # When not to use it
//!
//! Not for streams of bulk data (a message is held whole on both sides), and not for what must
//! arrive although a process dies: a one-way message may be lost with its connection, and a call
//! whose outcome is unknown may or may not have run.
//!
//! Where things are, from the bytes up:
//!
//! | module | subject |
//! |---|---|
//! | `wire` | bytes ↔ frames; `docs/wire.md` is its specification |
//! | `connection` | the pure machine of one connection |
//! | `link` | a connection with its socket, on the I/O thread |
//! | `peers` | which connection leads to which process |
//! | `security` | TLS and shared keys |
//! | `meters`, `status` | what is counted, and shown |
//! | `session` | a gateway's session, which outlives its connection |
//! | `shared`, `listener`, `transport` | dialling, accepting, the seam to core |
//! | `builder`, `settings` | what a user sets |

mod builder;
mod connection;
mod errors;
#[cfg(feature = "_fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod io;
mod link;
mod listener;
mod lost;
mod meters;
mod peers;
pub mod prelude;
mod quiet_log;
mod refusals;
mod security;
mod session;
mod settings;
mod shared;
mod status;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod wire;

#[cfg(test)]
mod tests;

pub use builder::{RemoteBuilder, RemoteBuilderExt};
#[cfg(feature = "tls")]
pub use security::Tls;
#[cfg(feature = "shared-key")]
pub use security::{MAX_SHARED_KEYS, MIN_SHARED_KEY_BYTES, SharedKeys};
pub use settings::{MAX_FRAME_LIMIT_BYTES, MIN_FRAME_LIMIT_BYTES, RemoteSettings};
