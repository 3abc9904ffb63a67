//! An entry, from its header on.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_canal::fuzzing::entry);
