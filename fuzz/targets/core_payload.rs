//! Payloads of calls.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_core::fuzzing::payload);
