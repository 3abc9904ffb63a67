//! The running monitor: of the clients that share a destination and a client id, one is active.
//!
//! | module | subject |
//! |---|---|
//! | `machine` | who is active: a pure machine |
//! | `shell` | ZooKeeper around it, on a thread of its own |
//! | `data`, `server_nodes` | what stands in the nodes |

mod data;
mod machine;
mod monitor;
mod server_nodes;
mod shell;

pub use data::ClientRunningData;
pub use monitor::{
    ClientRunningListener, ClientRunningMonitor, ClientRunningMonitorBuilder, RunningState,
};
pub use server_nodes::ServerCursor;
