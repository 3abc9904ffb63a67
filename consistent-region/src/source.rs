//! Start operators that read from the outside world and can be read again after a reset.

#[cfg(feature = "canal")]
pub mod canal;
pub mod history;
pub mod intake;
pub mod replay;
