//! What an operator asks of a running region, as an ordinary endpoint: how it stands, a cut, a
//! reset, a pause of its sources, a savepoint, the end.
//!
//! A program registers it beside its coordinator in one line, and the command `lockkeeper region`
//! among the examples (or a program of your own, by [`RegionAdminGateway`]) reaches it like any
//! other endpoint: TLS and shared keys of the service hold for it too.
//!
//! ```no_run
//! # async fn example(
//! #     coordinator: lockkeeper_consistent_region::coordinator::CoordinatorHandle,
//! #     service: lockkeeper_core::RpcService,
//! # ) -> Result<(), lockkeeper_core::RpcError> {
//! use lockkeeper_consistent_region::admin::RegionAdmin;
//!
//! let _admin = RegionAdmin::new(coordinator).serve(&service).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The endpoint is not fenced: an operator has no token. Each coordinator that contends for a
//! region serves one; those that do not lead refuse commands with
//! [`CommandRefused::NotLeading`](crate::coordinator::CommandRefused::NotLeading) and say so in
//! their [`RegionReport`].
//!
//! Not for rules of a program: within the coordinator's process use its
//! [`CoordinatorHandle`](crate::coordinator::CoordinatorHandle). And whoever reaches the endpoint
//! can stop the region: on a network that others reach, give the service keys or certificates.

mod endpoint;
mod messages;
mod watching;

pub use self::endpoint::RegionAdmin;
pub use self::messages::{
    AdminRefused, CutTaken, ForgetSavepoint, GetRegion, PauseSources, RegionAdminGateway,
    RegionEnded, RegionReport, ResetDone, ResetRegion, RestoreSavepoint, ResumeSources,
    SavepointKept, StopRegion, TakeCut, TakeSavepoint,
};

/// The name of the endpoint, unless it is served under another one.
pub const ADMIN_ENDPOINT: &str = "region-admin";
