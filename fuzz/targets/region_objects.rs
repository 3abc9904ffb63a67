//! Heads of checkpoint objects in a store of records, and segments of a spool.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_consistent_region::fuzzing::objects);
