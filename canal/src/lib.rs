//! A client of Alibaba Canal's server.

#[allow(
    dead_code,
    reason = "the session machine and the embedded server use it"
)]
mod protocol;
