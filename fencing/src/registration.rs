//! Registration at a leader: tried until it is accepted or rejected.
//!
//! Flink's `RetryingRegistration` with its defaults and three fixes: an answer that comes after its
//! time-out is ignored, a receiver tells a repeated attempt from a new registration
//! ([`RegistrationAttempts`]; FLINK-12260, FLINK-3981), and each attempt carries its number.

mod attempts;
mod connection;
mod machine;
mod retrying;

pub use attempts::{RegistrationAttempts, Verdict};
pub use connection::{ConnectionError, ConnectionState, RegisteredConnection};
pub use machine::RegistrationOptions;
pub use retrying::{Attempt, Registered, Registrar, RegistrationResponse, RetryingRegistration};
