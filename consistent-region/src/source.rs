//! Start operators that read from the outside world and can be read again after a reset.

pub mod history;
pub mod intake;
pub mod replay;
