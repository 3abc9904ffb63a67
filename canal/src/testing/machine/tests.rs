//! The tables "action → reply" that were measured on the real server, over raw frames.

mod client;
mod faults;
mod property;
mod restarts;
mod rules;
mod sharing;
