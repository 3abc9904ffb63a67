//! A peer that was let in, and sends what it likes.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_remote::fuzzing::connection);
