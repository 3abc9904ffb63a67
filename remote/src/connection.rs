//! One connection between two processes as a state machine without I/O, clock, thread or actix.
//!
//! [`Connection`] takes [`Event`]s (a frame came, somebody calls, a handler answered, time passed,
//! the link broke), keeps what is in flight, fills a buffer of outgoing bytes and returns
//! [`Action`]s. The shell in [`crate::link`] feeds it and carries the actions out.
//!
//! What it guarantees: every call and every session request that is handed in comes back exactly
//! once, as a [`CallEnd`] or [`OpenEnd`], which tells *not sent*, *refused* and *unknown* apart.

mod event;
mod incoming;
mod lanes;
mod liveness;
mod machine;
mod outgoing;
mod pending;
mod serving;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub(crate) use event::{Action, CallEnd, Event, Host, Loss, OpenEnd, TellLoss};
pub(crate) use machine::{Connection, Settings};
pub(crate) use serving::Ticket;
