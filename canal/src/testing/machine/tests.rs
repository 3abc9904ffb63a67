//! The tables "action → reply" that were measured on the real server, over raw frames.

mod acks;
mod client;
mod faults;
mod gets;
mod opening;
mod property;
mod restarts;
mod sharing;
mod subscriptions;
