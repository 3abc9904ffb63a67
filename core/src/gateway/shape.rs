//! The shape of a message as a number, by which a handshake notices that two builds of one gateway
//! version do not mean the same bytes.
//!
//! The shape is what a type asks of serde when it is read: which kinds of value, in which order,
//! with which names of fields and variants. So a field that was moved, added or renamed, or has
//! another type, gives another number, and a type that was renamed or wrapped in a newtype does not.
//! Nothing is read: a stand-in answers whatever the type asks for.
//!
//! Two types of one shape have one number. The reverse does not hold: a type that refuses the
//! stand-in's values (a date in a text) is known only so far as it was asked, and very large types
//! only in part.

mod tracer;

use std::{
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::de::DeserializeOwned;

use self::tracer::Known;

/// The number of a type's shape. Never 0.
pub(crate) fn of<T: DeserializeOwned>() -> u64 {
    let mut known = Known::default();
    // An enum shows one variant a pass.
    while known.begin_pass() {
        // What comes out is of no interest, nor is where a type gives up. One that panics would do so
        // at a peer's bytes too, but here it must not take a connection along.
        let asked = catch_unwind(AssertUnwindSafe(|| drop(T::deserialize(known.tracer()))));
        if asked.is_err() {
            break;
        }
    }
    known.hash().max(1)
}

/// For `rpc_gateway!` only: `(&&Shape::<T>::default()).number()` is the number of `T`'s shape, or 0
/// if this side cannot read a `T`.
#[derive(Debug)]
pub struct Shape<T>(PhantomData<fn() -> T>);

impl<T> Default for Shape<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// Found first, if the type can be read.
pub trait Readable {
    /// The number.
    fn number(&self) -> u64;
}

impl<T: DeserializeOwned> Readable for &Shape<T> {
    fn number(&self) -> u64 {
        of::<T>()
    }
}

/// Found otherwise.
pub trait Unreadable {
    /// Not known.
    fn number(&self) -> u64 {
        0
    }
}

impl<T> Unreadable for Shape<T> {}

/// For `rpc_gateway!` only: a method's shape, of its message and its reply; 0 if either is unknown.
#[must_use]
pub fn of_method(message: u64, reply: u64) -> u64 {
    if message == 0 || reply == 0 {
        return 0;
    }
    (message.rotate_left(17) ^ reply).max(1)
}

#[cfg(test)]
mod tests;
