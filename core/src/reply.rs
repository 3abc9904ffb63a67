//! Answers inside the process.

pub(crate) use self::slot::{Answer, Replier, Slot, Waiter, dropped_unanswered, slot};

mod slot;
