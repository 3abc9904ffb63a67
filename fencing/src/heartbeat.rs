//! Heartbeats between endpoints: does the other *endpoint* still work?
//!
//! [`Heartbeats`] is an actor that asks its targets through their gateways and tells an actor of yours
//! what becomes of them; what it decides by is [`HeartbeatManager`], a pure machine, for endpoints that
//! want to own it themselves. Either runs on the endpoint's own thread, on
//! purpose: an actor that is stuck sends no beats (FLINK-9417). Flink's defaults, and three fixes:
//! an answer to a question from before the target was monitored is ignored; when the *own* thread
//! stood still, beats may be waiting in the own inbox, so nobody is declared dead in that tick; and
//! how late ticks come is visible ([`HeartbeatManager::largest_lateness`]).
//!
//! ```
//! # use std::time::Duration;
//! # use lockkeeper_fencing::clock::{Clock, ManualClock};
//! # use lockkeeper_fencing::heartbeat::{HeartbeatAction, HeartbeatManager, HeartbeatOptions};
//! let clock = ManualClock::new();
//! let mut beats = HeartbeatManager::new(HeartbeatOptions::default(), clock.now()).unwrap();
//! beats.monitor("worker 1", clock.now());
//! let actions = beats.tick(clock.now());
//! assert_eq!(actions, [HeartbeatAction::Ask { target: "worker 1", round: 1 }]);
//! beats.beat(&"worker 1", 1, clock.now());
//! // Set a timer for `next_tick`, then call `tick` again.
//! assert_eq!(beats.next_tick(), clock.now().after(Duration::from_secs(10)));
//! ```

mod actor;
mod manager;
mod messages;

pub use actor::Heartbeats;
pub use messages::{
    GetHeartbeats, Heard, HeartbeatEvent, HeartbeatKey, HeartbeatsState, Monitor, Unmonitor,
};

pub use manager::{HeartbeatAction, HeartbeatManager, HeartbeatOptions, InvalidHeartbeatOptions};
