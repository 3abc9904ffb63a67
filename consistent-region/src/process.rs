//! The processes of workers: how the death of one is proved, and who starts them.
//!
//! - [`ProcessIdentity`]: one process of one boot of one host, for ever
//! - [`ProcessSpawner`]: the seam for whatever starts processes; [`LocalProcesses`] starts children
//!   of this one
//! - [`Supervisor`]: keeps processes running through a spawner, up to a limit and with a back-off
//! - [`end_with_parent`]: a child that does not outlive who started it
//!
//! A coordinator needs none of these: workers register by themselves, whoever started them. Under
//! systemd or in Kubernetes those are the supervisors, and a spawner is needed only by a program
//! that decides by itself how many workers there are.

mod identity;
mod local;
mod parent;
mod spawner;
mod supervisor;

pub use identity::ProcessIdentity;
pub use local::{LocalProcesses, Pipes};
pub use parent::end_with_parent;
pub use spawner::{ProcessEnd, ProcessSpawner, SpawnError};
pub use supervisor::{Supervised, SupervisionEvent, Supervisor};
