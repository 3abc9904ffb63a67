//! How an answer gets back to its caller.

pub(crate) use self::slot::{Replier, Waiter, slot};

pub(crate) mod slot;
